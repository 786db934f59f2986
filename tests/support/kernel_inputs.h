/// Inputs for kernel tests, and the comparison of their results by bits.
#pragma once

#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "kernels/bf16/bf16.h"

namespace zenflow::kernels::testing {

/// Around the widths of vectors and blocks, and none.
inline constexpr std::size_t kSizes[] = {0,  1,  7,  8,  9,  15, 16,  17,  31,
                                         32, 33, 47, 63, 64, 65, 100, 1000};

/// Rows and columns of kernels of matrices: none, one, around 16, around a warp, many.
inline constexpr std::size_t kMatrixSizes[] = {0, 1, 15, 16, 17, 31, 1000};

/// NaN compares equal to NaN: kernels do not define the bits of an fp32 NaN.
inline std::uint32_t comparable(float value) {
  return std::isnan(value) ? 0x7FC00000U : std::bit_cast<std::uint32_t>(value);
}
/// All bits count.
inline std::uint32_t comparable(Bf16 value) {
  return value.bits;
}

template <class Element>
std::vector<std::uint32_t> comparable(const std::vector<Element>& values) {
  std::vector<std::uint32_t> result;
  result.reserve(values.size());
  for (const Element value : values) result.push_back(comparable(value));
  return result;
}

template <class Element>
Element from_pattern(std::uint32_t pattern) {
  if constexpr (std::same_as<Element, Bf16>) {
    return {static_cast<std::uint16_t>(pattern >> 16U)};
  } else {
    return std::bit_cast<float>(pattern);
  }
}

inline float magnitude(float value) {
  return std::fabs(value);
}
inline Bf16 magnitude(Bf16 value) {
  return {static_cast<std::uint16_t>(value.bits & 0x7FFFU)};
}

/// Numbers between 2^-10 and 2^2 in magnitude, of both signs.
template <class Element>
std::vector<Element> ordinary(std::size_t n, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Element> values(n);
  for (Element& value : values) {
    const auto bits = static_cast<std::uint32_t>(random());
    const std::uint32_t exponent = 117 + bits % 12;
    value = from_pattern<Element>((bits & 0x807FFFFFU) | (exponent << 23U));
  }
  return values;
}

/// Any bit pattern, every third one an extreme: zeros, denormals, the largest, infinities, NaNs.
template <class Element>
std::vector<Element> any_bits(std::size_t n, std::uint32_t seed) {
  static constexpr std::uint32_t kExtremes[] = {
      0x00000000U, 0x80000000U, 0x00000001U, 0x80010000U, 0x007FFFFFU, 0x00800000U,
      0x7F7FFFFFU, 0xFF7FFFFFU, 0x7F7F7FFFU, 0x7F7F8000U, 0x7F800000U, 0xFF800000U,
      0x7FC00000U, 0xFFA00001U, 0x3F800000U, 0x3F808000U, 0x3F818000U, 0x3F817FFFU};
  std::mt19937 random(seed);
  std::vector<Element> values(n);
  for (Element& value : values) {
    const auto pattern = static_cast<std::uint32_t>(random());
    const bool is_extreme = random() % 3 == 0;
    value = from_pattern<Element>(is_extreme ? kExtremes[pattern % std::size(kExtremes)] : pattern);
  }
  return values;
}

}  // namespace zenflow::kernels::testing
