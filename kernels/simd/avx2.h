/// AVX2 and FMA3 vectors under the names of avx512.h, which explains them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <immintrin.h>

#include "kernels/bf16/bf16.h"

#define ZENFLOW_TARGET __attribute__((target("avx2,fma")))
#define ZENFLOW_INLINE ZENFLOW_TARGET __attribute__((always_inline)) inline

namespace zenflow::kernels {
namespace {

using Vector = __m256;
inline constexpr std::size_t kBlock = 16;

struct Block {
  Vector first;
  Vector second;
};
enum class Order { kSequential, kInterleaved };
enum class Nan { kPossible, kAbsent };

struct Part {
  std::size_t count;
};
struct Whole {};

ZENFLOW_INLINE Vector broadcast(float value) {
  return _mm256_set1_ps(value);
}
ZENFLOW_INLINE Vector add(Vector a, Vector b) {
  return _mm256_add_ps(a, b);
}
ZENFLOW_INLINE Vector multiply(Vector a, Vector b) {
  return _mm256_mul_ps(a, b);
}
ZENFLOW_INLINE Vector fma(Vector a, Vector b, Vector c) {
  return _mm256_fmadd_ps(a, b, c);
}
ZENFLOW_INLINE Vector fnma(Vector a, Vector b, Vector c) {
  return _mm256_fnmadd_ps(a, b, c);
}
ZENFLOW_INLINE Vector divide(Vector a, Vector b) {
  return _mm256_div_ps(a, b);
}
ZENFLOW_INLINE Vector square_root(Vector a) {
  return _mm256_sqrt_ps(a);
}
ZENFLOW_INLINE Vector magnitude(Vector a) {
  return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x7FFFFFFF)));
}

template <class Element>
ZENFLOW_INLINE void prefetch(const Element* block) {
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(block) + 2048;
  for (std::size_t line = 0; line < kBlock * sizeof(Element); line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T0);
  }
}

template <class Element>
ZENFLOW_INLINE void prefetch_far(const Element* block) {
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(block) + 8192;
  for (std::size_t line = 0; line < kBlock * sizeof(Element); line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T1);
  }
}

template <Order>
ZENFLOW_INLINE Block load(const float* values, Whole /*all*/) {
  return {_mm256_loadu_ps(values), _mm256_loadu_ps(values + 8)};
}

template <Order, Nan = Nan::kPossible>
ZENFLOW_INLINE void store(float* values, Block block, Whole /*all*/) {
  _mm256_storeu_ps(values, block.first);
  _mm256_storeu_ps(values + 8, block.second);
}

template <Order order>
ZENFLOW_INLINE Block load(const Bf16* values, Whole /*all*/) {
  __m256i first;
  __m256i second;
  if constexpr (order == Order::kInterleaved) {
    __m256i pairs;
    std::memcpy(&pairs, values, sizeof pairs);
    first = _mm256_slli_epi32(pairs, 16);
    second = _mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xFFFF0000U)));
  } else {
    __m128i halves[2];
    std::memcpy(halves, values, sizeof halves);
    first = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves[0]), 16);
    second = _mm256_slli_epi32(_mm256_cvtepu16_epi32(halves[1]), 16);
  }
  return {_mm256_castsi256_ps(first), _mm256_castsi256_ps(second)};
}

ZENFLOW_INLINE bool any_nan(Block block) {
  const Vector first = _mm256_cmp_ps(block.first, block.first, _CMP_UNORD_Q);
  const Vector second = _mm256_cmp_ps(block.second, block.second, _CMP_UNORD_Q);
  return _mm256_movemask_ps(_mm256_or_ps(first, second)) != 0;
}

/// round_to_bf16 of every element, in the upper half of its lane.
template <Nan nan>
ZENFLOW_INLINE __m256i rounded(Vector value) {
  const __m256i bits = _mm256_castps_si256(value);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i number = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  if constexpr (nan == Nan::kAbsent) return number;
  const Vector is_nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
  const Vector canonical = _mm256_castsi256_ps(_mm256_set1_epi32(0x7FC00000));
  return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(number), canonical, is_nan));
}

template <Order order, Nan nan = Nan::kPossible>
ZENFLOW_INLINE void store(Bf16* values, Block block, Whole /*all*/) {
  const __m256i first = _mm256_srli_epi32(rounded<nan>(block.first), 16);
  const __m256i second = rounded<nan>(block.second);
  __m256i words;
  if constexpr (order == Order::kInterleaved) {
    words = _mm256_blend_epi16(first, second, 0xAA);
  } else {
    // Packing works within 128-bit lanes: put their quarters in order again.
    words = _mm256_packus_epi32(first, _mm256_srli_epi32(second, 16));
    words = _mm256_permute4x64_epi64(words, 0xD8);
  }
  std::memcpy(values, &words, sizeof words);
}

/// There are no masks for 16-bit elements: parts go through a block of their own.
template <Order order, class Element>
ZENFLOW_INLINE Block load(const Element* values, Part part) {
  Element block[kBlock] = {};
  std::memcpy(block, values, part.count * sizeof(Element));
  return load<order>(block, Whole{});
}

template <Order order, Nan nan = Nan::kPossible, class Element>
ZENFLOW_INLINE void store(Element* values, Block block, Part part) {
  Element all[kBlock];
  store<order, nan>(all, block, Whole{});
  std::memcpy(values, all, part.count * sizeof(Element));
}

struct DoubleBlock {
  __m256d quarter[4];
};

ZENFLOW_INLINE DoubleBlock zero_doubles() {
  const __m256d zero = _mm256_setzero_pd();
  return {{zero, zero, zero, zero}};
}

ZENFLOW_INLINE __m256d add_square(__m256d sum, __m128 values) {
  const __m256d x = _mm256_cvtps_pd(values);
  return _mm256_fmadd_pd(x, x, sum);
}

ZENFLOW_INLINE void add_squares(DoubleBlock& sums, Block block) {
  sums.quarter[0] = add_square(sums.quarter[0], _mm256_castps256_ps128(block.first));
  sums.quarter[1] = add_square(sums.quarter[1], _mm256_extractf128_ps(block.first, 1));
  sums.quarter[2] = add_square(sums.quarter[2], _mm256_castps256_ps128(block.second));
  sums.quarter[3] = add_square(sums.quarter[3], _mm256_extractf128_ps(block.second, 1));
}

ZENFLOW_INLINE void store(double* values, const DoubleBlock& block) {
  for (std::size_t k = 0; k < 4; ++k) _mm256_storeu_pd(values + 4 * k, block.quarter[k]);
}

}  // namespace
}  // namespace zenflow::kernels
