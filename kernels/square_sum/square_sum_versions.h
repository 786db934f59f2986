/// What the versions of the sum of squares for each instruction set share; not for callers.
#pragma once

#include "kernels/square_sum/square_sum.h"

namespace zenflow::kernels {

inline constexpr std::size_t kSquareSums = 32;

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

}  // namespace zenflow::kernels
