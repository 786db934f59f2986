/// Accumulation on vectors: the body of accumulate_avx2.cpp and accumulate_avx512.cpp, which
/// include the vectors of their instruction set (kernels/simd/) before it.
#pragma once

#include "kernels/accumulate/accumulate_versions.h"

namespace zenflow::kernels {
namespace {

template <Accumulation kind, class Grad, class Extent>
ZENFLOW_INLINE void accumulate_block(float* sum, const Grad* gradient, Vector scale,
                                     Extent extent) {
  const Block g = load<Order::kSequential>(gradient, extent);
  Block result;
  if constexpr (kind == Accumulation::kFirst) {
    result = {multiply(scale, g.first), multiply(scale, g.second)};
  } else {
    const Block old = load<Order::kSequential>(static_cast<const float*>(sum), extent);
    result = {fma(scale, g.first, old.first), fma(scale, g.second, old.second)};
  }
  store<Order::kSequential>(sum, result, extent);
}

template <Accumulation kind, class Grad>
ZENFLOW_TARGET void accumulate_range(float* sum, const Grad* gradient, float scale, std::size_t n) {
  const Vector factor = broadcast(scale);
  std::size_t i = 0;
  for (; i + kBlock <= n; i += kBlock) {
    prefetch(sum + i);
    prefetch(gradient + i);
    accumulate_block<kind>(sum + i, gradient + i, factor, Whole{});
  }
  if (i < n) accumulate_block<kind>(sum + i, gradient + i, factor, Part{n - i});
}

}  // namespace
}  // namespace zenflow::kernels
