#include "kernels/square_sum/square_sum.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::kSizes;
using testing::ordinary;

constexpr float kLargest = std::numeric_limits<float>::max();

class SquareSum : public ::testing::TestWithParam<Isa> {
 protected:
  template <class Element>
  static double of(const std::vector<Element>& values) {
    return square_sum(values.data(), values.size(), GetParam());
  }
};

TEST_P(SquareSum, AddsSquares) {
  EXPECT_EQ(of<float>({}), 0.0);
  EXPECT_EQ(of<float>({3, -4}), 25.0);
  EXPECT_EQ(of<Bf16>({{0x4040}, {0xC080}}), 25.0);  // 3, -4
  EXPECT_EQ(of(std::vector<float>(1000, 0.5F)), 250.0);
}

TEST_P(SquareSum, SquaresAreExact) {
  // (1 + 2^-23)^2 = 1 + 2^-22 + 2^-46, which fp32 cannot hold.
  const float x = 1.0F + std::ldexp(1.0F, -23);
  EXPECT_EQ(of<float>({x}), 1.0 + std::ldexp(1.0, -22) + std::ldexp(1.0, -46));
  const float tiny = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(of<float>({tiny}), std::ldexp(1.0, -298));
}

TEST_P(SquareSum, AddsInTheStatedOrder) {
  // Multiples of 4 follow 2^54: each 1 added to it is lost, 3 added at once become 4.
  const double square = std::ldexp(1.0, 54);
  const float large = std::ldexp(1.0F, 27);
  std::vector<float> values(128, 0.0F);
  for (const std::size_t i : {0U, 32U, 64U, 96U}) values[i] = 1;  // all in the first sum
  values[0] = large;
  EXPECT_EQ(of(values), square);
  values[0] = 1;
  values[96] = large;
  EXPECT_EQ(of(values), square + 4);
  // In the first four sums, which are added from the left.
  EXPECT_EQ(of<float>({large, 1, 1, 1}), square);
  EXPECT_EQ(of<float>({1, 1, 1, large}), square + 4);
}

TEST_P(SquareSum, AddsBlocksInTheStatedOrder) {
  const double square = std::ldexp(1.0, 54);
  const float large = std::ldexp(1.0F, 27);
  std::vector<float> values(2 * kSquareBlock, 0.0F);
  values[0] = large;
  for (const std::size_t i : {0U, 32U, 64U}) values[kSquareBlock + i] = 1;
  EXPECT_EQ(of(values), square + 4) << "the second block's ones meet before they meet the first's";
  std::vector<float> one_block(values.begin(), values.begin() + kSquareBlock);
  for (const std::size_t i : {32U, 64U, 96U}) one_block[i] = 1;
  EXPECT_EQ(of(one_block), square) << "in one block they meet 2^54 one by one";
}

template <class Element>
double by_definition(const std::vector<Element>& values) {
  std::vector<double> blocks;
  for (std::size_t first = 0; first < values.size(); first += kSquareBlock) {
    double sums[32] = {};
    for (std::size_t i = first; i < std::min(first + kSquareBlock, values.size()); ++i) {
      const double x = to_float(values[i]);
      sums[(i - first) % 32] = std::fma(x, x, sums[(i - first) % 32]);
    }
    blocks.push_back(std::accumulate(std::begin(sums), std::end(sums), 0.0));
  }
  std::vector<double> lanes(1024, 0.0);
  for (std::size_t b = 0; b < blocks.size(); ++b) lanes[b % 1024] += blocks[b];
  double sums[32] = {};
  for (std::size_t k = 0; k < 1024; ++k) sums[k % 32] += lanes[k];
  return std::accumulate(std::begin(sums), std::end(sums), 0.0);
}

TEST_P(SquareSum, IsItsDefinitionBitForBit) {
  std::vector<std::size_t> sizes(std::begin(kSizes), std::end(kSizes));
  // Around one block, several, and more than step 2 has sums.
  for (const std::size_t n : {kSquareBlock - 1, kSquareBlock, kSquareBlock + 1,
                              5 * kSquareBlock + 77, 1026 * kSquareBlock + 3}) {
    sizes.push_back(n);
  }
  for (const std::size_t n : sizes) {
    for (std::uint32_t seed = 0; seed < (n <= 1000 ? 5U : 1U); ++seed) {
      const auto fp32 = ordinary<float>(n, seed);
      const auto bf16 = ordinary<Bf16>(n, seed);
      EXPECT_EQ(of(fp32), by_definition(fp32)) << n;
      EXPECT_EQ(of(bf16), by_definition(bf16)) << n;
    }
  }
}

TEST_P(SquareSum, IsFiniteIfAndOnlyIfAllElementsAre) {
  EXPECT_TRUE(std::isfinite(of(std::vector<float>(1000, kLargest))));
  for (const std::uint32_t bad : {0x7F800000U, 0xFF800000U, 0x7FC00000U, 0x7F800001U}) {
    for (const std::size_t n : kSizes) {
      for (std::size_t at = 0; at < n; at += 1 + n / 20) {
        std::vector<float> fp32(n, kLargest);
        fp32[at] = std::bit_cast<float>(bad);
        EXPECT_FALSE(std::isfinite(of(fp32))) << at << " of " << n;
        std::vector<Bf16> bf16(n, Bf16{0x7F7F});
        bf16[at] = {static_cast<std::uint16_t>((bad >> 16U) | (bad & 1U))};
        EXPECT_FALSE(std::isfinite(of(bf16))) << at << " of " << n;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, SquareSum, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return to_string(isa.param); });

}  // namespace
}  // namespace zenflow::kernels
