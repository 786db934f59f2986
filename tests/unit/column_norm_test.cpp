#include "kernels/column_norm/column_norm.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::kernels {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Norms {
  std::vector<float> l1;
  std::vector<float> l2;
};

template <class Element>
Norms norms_of(const std::vector<Element>& values, std::size_t rows, std::size_t columns,
               std::size_t row_stride) {
  // Overwritten, not added to: start from something else than zero.
  Norms norms{std::vector<float>(columns, -1.0F), std::vector<float>(columns, -1.0F)};
  column_norms_scalar(MatrixView<Element>{values.data(), rows, columns, row_stride},
                      {norms.l1.data(), norms.l2.data()});
  return norms;
}

std::uint32_t bits(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

TEST(ColumnNorm, SumsEachColumn) {
  const Norms norms = norms_of<float>({3, -1, 0,  //
                                       -4, 2, 0},
                                      2, 3, 3);
  EXPECT_EQ(norms.l1, (std::vector<float>{7, 3, 0}));
  EXPECT_EQ(norms.l2, (std::vector<float>{5, std::sqrt(5.0F), 0}));
}

TEST(ColumnNorm, OneElementIsItsMagnitude) {
  const Norms norms = norms_of<float>({-2.5F}, 1, 1, 1);
  EXPECT_EQ(norms.l1, std::vector<float>{2.5F});
  EXPECT_EQ(norms.l2, std::vector<float>{2.5F});
}

TEST(ColumnNorm, NoRowsGiveZeroNorms) {
  const Norms norms = norms_of<float>({}, 0, 2, 2);
  EXPECT_EQ(norms.l1, (std::vector<float>{0, 0}));
  EXPECT_EQ(norms.l2, (std::vector<float>{0, 0}));
}

TEST(ColumnNorm, NoColumnsGiveNothing) {
  const Norms norms = norms_of<float>({}, 5, 0, 0);
  EXPECT_TRUE(norms.l1.empty());
}

TEST(ColumnNorm, SkipsWhatLiesBetweenTheColumnsAndTheStride) {
  const Norms norms = norms_of<float>({1, 2, 99, 99, 99,  //
                                       3, 4, 99, 99, 99,  //
                                       5, 6},
                                      3, 2, 5);
  EXPECT_EQ(norms.l1, (std::vector<float>{9, 12}));
  EXPECT_EQ(norms.l2, (std::vector<float>{std::sqrt(35.0F), std::sqrt(56.0F)}));
}

TEST(ColumnNorm, ReadsBf16Exactly) {
  // 0x4040 = 3, 0xC080 = -4, 0x3F81 = 1 + 2^-7
  const Norms norms = norms_of<Bf16>({{0x4040},
                                      {0x3F81},  //
                                      {0xC080},
                                      {0x0000}},
                                     2, 2, 2);
  EXPECT_EQ(norms.l1, (std::vector<float>{7, 1.0078125F}));
  EXPECT_EQ(norms.l2, (std::vector<float>{5, 1.0078125F}));
}

TEST(ColumnNorm, AddsRowsInAscendingOrder) {
  // 2^24 + 1 + 1 is 2^24 in fp32 from the left, 2^24 + 2 from the right.
  const float large = 16777216.0F;
  EXPECT_EQ(norms_of<float>({large, 1, 1}, 3, 1, 1).l1[0], large);
  EXPECT_EQ(norms_of<float>({1, 1, large}, 3, 1, 1).l1[0], large + 2);
}

TEST(ColumnNorm, AddsRowsInBlocks) {
  // 2^24 stays 2^24 when ones are added to it one by one; two of them that have been added up
  // first count.
  std::vector<float> values(kNormBlockRows + 2, 0.0F);
  values[0] = 16777216.0F;
  values[kNormBlockRows - 2] = values[kNormBlockRows - 1] = 1;
  EXPECT_EQ(norms_of<float>(values, values.size(), 1, 1).l1[0], 16777216.0F);
  values[kNormBlockRows] = values[kNormBlockRows + 1] = 1;
  EXPECT_EQ(norms_of<float>(values, values.size(), 1, 1).l1[0], 16777218.0F);
}

TEST(ColumnNorm, RoundsTheSquareBeforeTheSum) {
  // x = 1 + 3 * 2^-12, so x^2 = 1 + 6 * 2^-12 + 9 * 2^-24, whose last term rounds to 8 * 2^-24
  // = 2^-21. 9 + x^2 is then a tie between multiples of 2^-20 and rounds down to the even one;
  // an fma, which sees 9 * 2^-24, rounds up.
  const float x = 1.0F + std::ldexp(3.0F, -12);
  const float sum = 10.0F + std::ldexp(6.0F, -12);
  EXPECT_EQ(norms_of<float>({3, x}, 2, 1, 1).l2[0], std::sqrt(sum));
  EXPECT_NE(std::sqrt(sum), std::sqrt(sum + std::ldexp(1.0F, -20))) << "or this shows nothing";
}

TEST(ColumnNorm, KeepsDenormals) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(norms_of<float>({tiny, -tiny}, 2, 1, 1).l1[0], 2 * tiny);
}

TEST(ColumnNorm, InfinityStaysInItsColumn) {
  const Norms norms = norms_of<float>({1, -kInfinity,  //
                                       1, 1},
                                      2, 2, 2);
  EXPECT_EQ(norms.l1, (std::vector<float>{2, kInfinity}));
  EXPECT_EQ(norms.l2, (std::vector<float>{std::sqrt(2.0F), kInfinity}));
}

TEST(ColumnNorm, NaNStaysInItsColumnWithDefinedBits) {
  const float signalling = std::bit_cast<float>(std::uint32_t{0xFFA00001});
  const Norms norms = norms_of<float>({1, signalling,  //
                                       1, kInfinity},
                                      2, 2, 2);
  EXPECT_EQ(norms.l1[0], 2);
  EXPECT_EQ(bits(norms.l1[1]), 0x7FC00000U);
  EXPECT_EQ(bits(norms.l2[1]), 0x7FC00000U);
}

TEST(ColumnNorm, SquareOverflowsToInfinityButTheSumOfMagnitudesDoesNot) {
  const float large = std::ldexp(1.0F, 64);
  const Norms norms = norms_of<float>({large, large}, 2, 1, 1);
  EXPECT_EQ(norms.l1[0], 2 * large);
  EXPECT_EQ(norms.l2[0], kInfinity);
}

}  // namespace
}  // namespace zenflow::kernels
