#include "kernels/accumulate/accumulate.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::comparable;
using testing::kSizes;

class Accumulate : public ::testing::TestWithParam<Isa> {};

TEST_P(Accumulate, AddsScaledGradients) {
  std::vector<float> sum{1, 2, 3};
  const std::vector<float> gradient{2, -4, 0.5F};
  accumulate(sum.data(), gradient.data(), 0.5F, 3, GetParam());
  EXPECT_EQ(sum, (std::vector<float>{2, 0, 3.25F}));
}

TEST_P(Accumulate, TheFirstOverwrites) {
  std::vector<float> sum{NAN, 2};
  const std::vector<Bf16> gradient{{0x4040}, {0xC080}};  // 3, -4
  accumulate_first(sum.data(), gradient.data(), 0.5F, 2, GetParam());
  EXPECT_EQ(sum, (std::vector<float>{1.5F, -2}));
}

TEST_P(Accumulate, RoundsOnce) {
  // (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24; its last term survives only if the product is not rounded.
  const float x = 1.0F + std::ldexp(1.0F, -12);
  std::vector<float> sum{-1.0F};
  accumulate(sum.data(), &x, x, 1, GetParam());
  EXPECT_EQ(sum[0], std::ldexp(1.0F, -11) + std::ldexp(1.0F, -24));
}

template <class Grad>
void expect_scalar_bits(Isa isa) {
  for (const std::size_t n : kSizes) {
    const auto gradient = any_bits<Grad>(n + 1, 1);
    auto sum = any_bits<float>(n + 1, 2);
    auto first = sum;
    auto scalar_sum = sum;
    auto scalar_first = sum;
    accumulate(scalar_sum.data(), gradient.data() + 1, 0.3F, n, Isa::kScalar);
    accumulate_first(scalar_first.data(), gradient.data() + 1, 0.3F, n, Isa::kScalar);
    accumulate(sum.data(), gradient.data() + 1, 0.3F, n, isa);
    accumulate_first(first.data(), gradient.data() + 1, 0.3F, n, isa);
    EXPECT_EQ(comparable(sum), comparable(scalar_sum)) << n;
    EXPECT_EQ(comparable(first), comparable(scalar_first)) << n;
  }
}

TEST_P(Accumulate, GivesTheBitsOfTheReference) {
  expect_scalar_bits<float>(GetParam());
  expect_scalar_bits<Bf16>(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Isas, Accumulate, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return to_string(isa.param); });

}  // namespace
}  // namespace zenflow::kernels
