#include "kernels/bf16/bf16.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

namespace zenflow::kernels {
namespace {

std::uint16_t rounded(std::uint32_t bits) {
  return round_to_bf16(std::bit_cast<float>(bits)).bits;
}

TEST(Bf16, RoundsToTheNearest) {
  EXPECT_EQ(rounded(0x3F800000), 0x3F80);  // 1
  EXPECT_EQ(rounded(0x3F807FFF), 0x3F80);  // just below half way to the next
  EXPECT_EQ(rounded(0x3F808001), 0x3F81);  // just above
  EXPECT_EQ(rounded(0xBF808001), 0xBF81);
}

TEST(Bf16, RoundsTiesToEven) {
  EXPECT_EQ(rounded(0x3F808000), 0x3F80);
  EXPECT_EQ(rounded(0x3F818000), 0x3F82);
  EXPECT_EQ(rounded(0x3FFF8000), 0x4000);  // carries into the exponent
}

TEST(Bf16, OverflowsToInfinityHalfWayBeyondTheLargest) {
  EXPECT_EQ(rounded(0x7F7F7FFF), 0x7F7F);
  EXPECT_EQ(rounded(0x7F7F8000), 0x7F80);
  EXPECT_EQ(rounded(0xFF7FFFFF), 0xFF80);
  EXPECT_EQ(rounded(0x7F800000), 0x7F80);
}

TEST(Bf16, KeepsZerosAndDenormals) {
  EXPECT_EQ(rounded(0x80000000), 0x8000);
  EXPECT_EQ(rounded(0x00010000), 0x0001);
  EXPECT_EQ(rounded(0x00008000), 0x0000);  // a tie
  EXPECT_EQ(rounded(0x00008001), 0x0001);
  EXPECT_EQ(rounded(0x007FFFFF), 0x0080);  // the largest denormal: the smallest normal
}

TEST(Bf16, EveryNaNBecomesOne) {
  for (const std::uint32_t nan : {0x7FC00000U, 0x7F800001U, 0xFFFFFFFFU, 0xFF800001U}) {
    EXPECT_EQ(rounded(nan), kBf16NaN.bits) << std::hex << nan;
  }
}

TEST(Bf16, WideningAndRoundingGiveTheSameBits) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const Bf16 value{static_cast<std::uint16_t>(bits)};
    const float widened = to_float(value);
    if (std::isnan(widened)) continue;
    ASSERT_EQ(round_to_bf16(widened).bits, bits);
  }
}

}  // namespace
}  // namespace zenflow::kernels
