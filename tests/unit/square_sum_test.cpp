#include "kernels/square_sum/square_sum.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
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

template <class Element>
double by_definition(const std::vector<Element>& values) {
  double sums[32] = {};
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double x = to_float(values[i]);
    sums[i % 32] = std::fma(x, x, sums[i % 32]);
  }
  double sum = 0;
  for (const double s : sums) sum += s;
  return sum;
}

TEST_P(SquareSum, IsItsDefinitionBitForBit) {
  for (const std::size_t n : kSizes) {
    for (std::uint32_t seed = 0; seed < 5; ++seed) {
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
