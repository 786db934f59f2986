/// bfloat16: the upper half of an fp32.
#pragma once

#include <bit>
#include <cstdint>

namespace zenflow::kernels {

struct Bf16 {
  std::uint16_t bits;
};

/// Exact: every bfloat16 is an fp32.
[[nodiscard]] constexpr float to_float(Bf16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}
/// So that code for either element type can widen what it reads.
[[nodiscard]] constexpr float to_float(float value) {
  return value;
}

inline constexpr Bf16 kBf16NaN{0x7FC0};

/// The nearest bfloat16; of two equally near the one with an even last bit. From 2^127 * (2 - 2^-8)
/// on that is infinity. Denormals are kept. Every NaN becomes kBf16NaN, as hardware differs in
/// the bits of a computed NaN.
[[nodiscard]] constexpr Bf16 round_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return kBf16NaN;
  const std::uint32_t last = (bits >> 16U) & 1U;
  return {static_cast<std::uint16_t>((bits + 0x7FFFU + last) >> 16U)};
}

}  // namespace zenflow::kernels
