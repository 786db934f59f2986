/// The sum of squares on vectors: the body of square_sum_avx2.cpp and square_sum_avx512.cpp, which
/// include the vectors of their instruction set (kernels/simd/) before it.
#pragma once

#include "kernels/square_sum/square_sum_versions.h"

namespace zenflow::kernels {
namespace {

/// The sum of at most kSquareBlock elements.
/// An fma here rounds as often as a multiplication and an addition: the product is exact.
template <class Element>
ZENFLOW_TARGET double square_sum_block(const Element* values, std::size_t n) {
  constexpr std::size_t kBlocks = kSquareSums / kBlock;
  DoubleBlock sums[kBlocks];
  for (DoubleBlock& sum : sums) sum = zero_doubles();
  std::size_t i = 0;
  for (; i + kSquareSums <= n; i += kSquareSums) {
    for (std::size_t b = 0; b < kBlocks; ++b) {
      prefetch_far(values + i + b * kBlock);
      add_squares(sums[b], load<Order::kSequential>(values + i + b * kBlock, Whole{}));
    }
  }
  // What a part leaves out is 0, and adds nothing to a sum that is not negative.
  for (std::size_t b = 0; i < n; i += kBlock, ++b) {
    if (i + kBlock <= n) {
      add_squares(sums[b], load<Order::kSequential>(values + i, Whole{}));
    } else {
      add_squares(sums[b], load<Order::kSequential>(values + i, Part{n - i}));
    }
  }
  double all[kSquareSums];
  for (std::size_t b = 0; b < kBlocks; ++b) store(all + b * kBlock, sums[b]);
  return total(all);
}

template <class Element>
double square_sum_range(const Element* values, std::size_t n) {
  return sum_of_blocks(values, n, [](const Element* block, std::size_t length) {
    return square_sum_block(block, length);
  });
}

}  // namespace
}  // namespace zenflow::kernels
