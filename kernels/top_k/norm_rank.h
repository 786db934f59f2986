/// The order of norms as an order of integers, for every implementation of top_k; not for callers.
#pragma once

#include <bit>
#include <cstdint>

namespace zenflow::kernels {

/// Ascends as norms do, see top_k.h. Floats of one sign are ordered as their bits are; those below
/// zero the other way round.
[[nodiscard]] constexpr std::uint32_t norm_rank(float norm) {
  const auto bits = std::bit_cast<std::uint32_t>(norm);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return 0xFFFFFFFFU;  // a NaN
  if (magnitude == 0) return 0x80000000U;           // either zero
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace zenflow::kernels
