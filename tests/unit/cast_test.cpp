#include "kernels/cast/cast.h"

#include <bit>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/kernel_inputs.h"

namespace zenflow::kernels {
namespace {

using testing::any_bits;
using testing::kSizes;
using testing::ordinary;

class Cast : public ::testing::TestWithParam<Isa> {};

TEST_P(Cast, RoundsEachElementOfAnArray) {
  for (const std::size_t n : kSizes) {
    const auto values = any_bits<float>(n + 1, 1);
    std::vector<Bf16> rounded(n + 1, Bf16{0x1234});
    to_bf16(values.data() + 1, n, rounded.data(), GetParam());  // not aligned either
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(rounded[i].bits, round_to_bf16(values[i + 1]).bits) << i << " of " << n;
    }
    EXPECT_EQ(rounded[n].bits, 0x1234) << "wrote past the end";
  }
}

/// Every upper half with the lower halves that decide about rounding.
TEST_P(Cast, RoundsEveryUpperHalf) {
  std::vector<float> values;
  for (std::uint32_t upper = 0; upper <= 0xFFFF; ++upper) {
    for (const std::uint32_t lower : {0x0000U, 0x0001U, 0x7FFFU, 0x8000U, 0x8001U, 0xFFFFU}) {
      values.push_back(std::bit_cast<float>((upper << 16U) | lower));
    }
  }
  std::vector<Bf16> rounded(values.size());
  to_bf16(values.data(), values.size(), rounded.data(), GetParam());
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(rounded[i].bits, round_to_bf16(values[i]).bits)
        << std::hex << std::bit_cast<std::uint32_t>(values[i]);
  }
}

TEST_P(Cast, WidensEveryBf16Exactly) {
  std::vector<Bf16> values;
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    values.push_back({static_cast<std::uint16_t>(bits)});
  }
  std::vector<float> widened(values.size());
  to_float(values.data(), values.size(), widened.data(), GetParam());
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(widened[bits]), bits << 16U);
  }
}

TEST_P(Cast, WidensPartsOfBlocks) {
  for (const std::size_t n : kSizes) {
    const auto values = ordinary<Bf16>(n + 1, 2);
    std::vector<float> widened(n + 1, -1.0F);
    to_float(values.data() + 1, n, widened.data(), GetParam());
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(widened[i], to_float(values[i + 1]));
    EXPECT_EQ(widened[n], -1.0F) << "wrote past the end";
  }
}

INSTANTIATE_TEST_SUITE_P(Isas, Cast, ::testing::ValuesIn(available_isas()),
                         [](const auto& isa) { return to_string(isa.param); });

}  // namespace
}  // namespace zenflow::kernels
