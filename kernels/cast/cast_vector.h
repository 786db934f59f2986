/// Casts on vectors: the body of cast_avx2.cpp and cast_avx512.cpp, which include the vectors of
/// their instruction set (kernels/simd/) before it.
#pragma once

#include "kernels/cast/cast_versions.h"

namespace zenflow::kernels {
namespace {

template <class From, class To>
ZENFLOW_TARGET void cast_range(const From* values, std::size_t n, To* results) {
  constexpr Order kOrder = Order::kSequential;
  std::size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    prefetch_far(values + i);
    prefetch_far(results + i);
    store<kOrder>(results + i, load<kOrder>(values + i, Whole{}), Whole{});
  }
  const Part rest{n - i};
  if (i < n) store<kOrder>(results + i, load<kOrder>(values + i, rest), rest);
}

}  // namespace
}  // namespace zenflow::kernels
