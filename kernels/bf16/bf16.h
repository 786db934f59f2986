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

}  // namespace zenflow::kernels
