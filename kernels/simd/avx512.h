/// AVX-512 vectors under the names that the `*_vector.h` bodies use; avx2.h has the same names.
///
/// Those bodies are written once and compiled once per instruction set: a file includes either
/// this header or avx2.h, then the body. Everything is in an anonymous namespace, and every
/// function carries its target: flags for a whole file would also compile inline functions of
/// other headers for a CPU that may not be there, and the linker may keep those copies.
///
/// A block is two vectors: what one vector of bfloat16 holds.
#pragma once

#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "kernels/bf16/bf16.h"

#define ZENFLOW_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define ZENFLOW_INLINE ZENFLOW_TARGET __attribute__((always_inline)) inline

namespace zenflow::kernels {
namespace {

using Vector = __m512;
inline constexpr std::size_t kBlock = 32;

/// A block of elements. In sequence: its halves. Interleaved: its even and its odd elements,
/// which is cheaper where all arrays are bfloat16, and does for work on each element alone.
struct Block {
  Vector first;
  Vector second;
};
enum class Order { kSequential, kInterleaved };

/// Rounding to bfloat16 is cheaper for a block that is known to hold no NaN.
enum class Nan { kPossible, kAbsent };

/// The first `count` < kBlock elements of a block. What is left out reads as 0.
struct Part {
  std::size_t count;
};
struct Whole {};

ZENFLOW_INLINE Vector broadcast(float value) {
  return _mm512_set1_ps(value);
}
ZENFLOW_INLINE Vector add(Vector a, Vector b) {
  return _mm512_add_ps(a, b);
}
ZENFLOW_INLINE Vector multiply(Vector a, Vector b) {
  return _mm512_mul_ps(a, b);
}
/// a * b + c, rounded once.
ZENFLOW_INLINE Vector fma(Vector a, Vector b, Vector c) {
  return _mm512_fmadd_ps(a, b, c);
}
/// c - a * b, rounded once.
ZENFLOW_INLINE Vector fnma(Vector a, Vector b, Vector c) {
  return _mm512_fnmadd_ps(a, b, c);
}
ZENFLOW_INLINE Vector divide(Vector a, Vector b) {
  return _mm512_div_ps(a, b);
}
ZENFLOW_INLINE Vector square_root(Vector a) {
  return _mm512_sqrt_ps(a);
}
ZENFLOW_INLINE Vector magnitude(Vector a) {
  return _mm512_castsi512_ps(
      _mm512_and_epi32(_mm512_castps_si512(a), _mm512_set1_epi32(0x7FFFFFFF)));
}

ZENFLOW_INLINE std::uint32_t mask_of(Part part) {
  return (std::uint32_t{1} << part.count) - 1;
}

/// Fetches into the first level cache what is 2 KiB ahead of a block; it may lie past the end of
/// the array. For AdamW on one Emerald Rapids core 1 to 3 KiB were equally good, 4 KiB and the
/// second level worse.
template <class Element>
ZENFLOW_INLINE void prefetch(const Element* block) {
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(block) + 2048;
  for (std::size_t line = 0; line < kBlock * sizeof(Element); line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T0);
  }
}

/// Fetches into the second level cache what is 8 KiB ahead. For kernels with little arithmetic: the
/// second level keeps more lines under way (docs/performance.md).
template <class Element>
ZENFLOW_INLINE void prefetch_far(const Element* block) {
  const std::uintptr_t ahead = reinterpret_cast<std::uintptr_t>(block) + 8192;
  for (std::size_t line = 0; line < kBlock * sizeof(Element); line += 64) {
    _mm_prefetch(reinterpret_cast<const char*>(ahead + line), _MM_HINT_T1);
  }
}

template <Order>
ZENFLOW_INLINE Block load(const float* values, Whole /*all*/) {
  return {_mm512_loadu_ps(values), _mm512_loadu_ps(values + 16)};
}

template <Order>
ZENFLOW_INLINE Block load(const float* values, Part part) {
  const std::uint32_t mask = mask_of(part);
  return {_mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), values),
          _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16U), values + 16)};
}

template <Order, Nan = Nan::kPossible>
ZENFLOW_INLINE void store(float* values, Block block, Whole /*all*/) {
  _mm512_storeu_ps(values, block.first);
  _mm512_storeu_ps(values + 16, block.second);
}

template <Order, Nan = Nan::kPossible>
ZENFLOW_INLINE void store(float* values, Block block, Part part) {
  const std::uint32_t mask = mask_of(part);
  _mm512_mask_storeu_ps(values, static_cast<__mmask16>(mask), block.first);
  _mm512_mask_storeu_ps(values + 16, static_cast<__mmask16>(mask >> 16U), block.second);
}

/// Word 2i of the result is word i, word 2i + 1 is word 16 + i; or the other way round.
template <Order order>
ZENFLOW_INLINE __m512i interleave(__m512i words) {
  if constexpr (order == Order::kInterleaved) return words;
  const __m512i low = _mm512_cvtepu8_epi16(
      _mm256_setr_epi8(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26,
                       11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  return _mm512_permutexvar_epi16(low, words);
}
template <Order order>
ZENFLOW_INLINE __m512i deinterleave(__m512i words) {
  if constexpr (order == Order::kInterleaved) return words;
  const __m512i even_then_odd = _mm512_cvtepu8_epi16(
      _mm256_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30, 1, 3, 5, 7, 9, 11,
                       13, 15, 17, 19, 21, 23, 25, 27, 29, 31));
  return _mm512_permutexvar_epi16(even_then_odd, words);
}

template <Order order>
ZENFLOW_INLINE Block widen(__m512i words) {
  const __m512i pairs = interleave<order>(words);
  const __m512i odd = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16)),
          _mm512_castsi512_ps(_mm512_and_epi32(pairs, odd))};
}

template <Order order>
ZENFLOW_INLINE Block load(const Bf16* values, Whole /*all*/) {
  return widen<order>(_mm512_loadu_si512(values));
}

template <Order order>
ZENFLOW_INLINE Block load(const Bf16* values, Part part) {
  return widen<order>(_mm512_maskz_loadu_epi16(mask_of(part), values));
}

ZENFLOW_INLINE bool any_nan(Block block) {
  const __mmask16 first = _mm512_cmp_ps_mask(block.first, block.first, _CMP_UNORD_Q);
  const __mmask16 second = _mm512_cmp_ps_mask(block.second, block.second, _CMP_UNORD_Q);
  return _kortestz_mask16_u8(first, second) == 0;
}

/// round_to_bf16 of every element, in the upper half of its lane.
template <Nan nan>
ZENFLOW_INLINE __m512i rounded(Vector value) {
  const __m512i bits = _mm512_castps_si512(value);
  const __mmask16 is_odd = _mm512_test_epi32_mask(bits, _mm512_set1_epi32(0x10000));
  const __m512i even = _mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF));
  const __m512i number = _mm512_mask_add_epi32(even, is_odd, bits, _mm512_set1_epi32(0x8000));
  if constexpr (nan == Nan::kAbsent) return number;
  const __mmask16 is_nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
  return _mm512_mask_mov_epi32(number, is_nan, _mm512_set1_epi32(0x7FC00000));
}

template <Order order, Nan nan>
ZENFLOW_INLINE __m512i narrow(Block block) {
  const __m512i low = _mm512_srli_epi32(rounded<nan>(block.first), 16);
  return deinterleave<order>(_mm512_mask_blend_epi16(0xAAAAAAAA, low, rounded<nan>(block.second)));
}

template <Order order, Nan nan = Nan::kPossible>
ZENFLOW_INLINE void store(Bf16* values, Block block, Whole /*all*/) {
  _mm512_storeu_si512(values, narrow<order, nan>(block));
}

template <Order order, Nan nan = Nan::kPossible>
ZENFLOW_INLINE void store(Bf16* values, Block block, Part part) {
  _mm512_mask_storeu_epi16(values, mask_of(part), narrow<order, nan>(block));
}

/// A block in double.
struct DoubleBlock {
  __m512d quarter[4];
};

ZENFLOW_INLINE DoubleBlock zero_doubles() {
  const __m512d zero = _mm512_setzero_pd();
  return {{zero, zero, zero, zero}};
}

ZENFLOW_INLINE __m512d add_square(__m512d sum, __m256 values) {
  const __m512d x = _mm512_cvtps_pd(values);
  return _mm512_fmadd_pd(x, x, sum);
}

/// To each sum the square of the element in its place.
ZENFLOW_INLINE void add_squares(DoubleBlock& sums, Block block) {
  sums.quarter[0] = add_square(sums.quarter[0], _mm512_castps512_ps256(block.first));
  sums.quarter[1] = add_square(sums.quarter[1], _mm512_extractf32x8_ps(block.first, 1));
  sums.quarter[2] = add_square(sums.quarter[2], _mm512_castps512_ps256(block.second));
  sums.quarter[3] = add_square(sums.quarter[3], _mm512_extractf32x8_ps(block.second, 1));
}

ZENFLOW_INLINE void store(double* values, const DoubleBlock& block) {
  for (std::size_t k = 0; k < 4; ++k) _mm512_storeu_pd(values + 8 * k, block.quarter[k]);
}

}  // namespace
}  // namespace zenflow::kernels
