/// A mark of a text, the same in every run and on every machine.
#pragma once

#include <cstdint>
#include <string_view>

namespace zenflow {

/// FNV-1a, 64 bits. Source: Fowler, Noll and Vo.
[[nodiscard]] constexpr std::uint64_t fnv1a(std::string_view text) {
  constexpr std::uint64_t kOffset = 0xCBF29CE484222325;
  constexpr std::uint64_t kPrime = 0x100000001B3;
  std::uint64_t hash = kOffset;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * kPrime;
  return hash;
}

}  // namespace zenflow
