/// What the versions of the sum of squares for each instruction set share; not for callers.
#pragma once

#include "kernels/square_sum/square_sum.h"

namespace zenflow::kernels {

inline constexpr std::size_t kSquareSums = 32;     ///< of a block, and of step 3
inline constexpr std::size_t kSquareLanes = 1024;  ///< sums of step 2
static_assert(kSquareBlock % kSquareSums == 0 && kSquareLanes % kSquareSums == 0);

template <class Element>
double square_sum_scalar(const Element* values, std::size_t n);
template <class Element>
double square_sum_avx2(const Element* values, std::size_t n);
template <class Element>
double square_sum_avx512(const Element* values, std::size_t n);

/// `sums` are [kSquareSums].
inline double total(const double* sums) {
  double result = sums[0];
  for (std::size_t k = 1; k < kSquareSums; ++k) result += sums[k];
  return result;
}

/// The sum of squares of `values`, [n], from `block_sum(values, n)`, that of at most kSquareBlock
/// elements: steps 2 and 3.
template <class Element, class BlockSum>
double sum_of_blocks(const Element* values, std::size_t n, const BlockSum& block_sum) {
  double lanes[kSquareLanes] = {};
  for (std::size_t i = 0, lane = 0; i < n; i += kSquareBlock) {
    lanes[lane] += block_sum(values + i, n - i < kSquareBlock ? n - i : kSquareBlock);
    lane = (lane + 1) % kSquareLanes;
  }
  double sums[kSquareSums] = {};
  for (std::size_t k = 0; k < kSquareLanes; ++k) sums[k % kSquareSums] += lanes[k];
  return total(sums);
}

}  // namespace zenflow::kernels
