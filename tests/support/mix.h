/// A hash for test data that other programs reproduce: SplitMix64's output function.
#pragma once

#include <cstdint>

namespace zenflow::testing {

inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

}  // namespace zenflow::testing
