/// The loop of streaming.h on vectors; kernels/simd/ comes before it.
#pragma once

#include <cstddef>

#include "tests/bench/streaming.h"

namespace zenflow::kernels::testing {
namespace {

ZENFLOW_INLINE void add_to(float* values, Block change) {
  const Block old = load<Order::kSequential>(static_cast<const float*>(values), Whole{});
  store<Order::kSequential>(values, {add(old.first, change.first), add(old.second, change.second)},
                            Whole{});
}

template <Prefetching prefetching>
ZENFLOW_TARGET void stream(std::size_t n, AdamWState<float, float> state, const float* gradient,
                           float zero) {
  const Vector factor = broadcast(zero);
  for (std::size_t i = 0; i < n; i += kBlock) {
    if constexpr (prefetching == Prefetching::kYes) {
      prefetch(gradient + i);
      prefetch(state.parameters + i);
      prefetch(state.first_moment + i);
      prefetch(state.second_moment + i);
    }
    const Block g = load<Order::kSequential>(gradient + i, Whole{});
    const Block change{multiply(factor, g.first), multiply(factor, g.second)};
    add_to(state.parameters + i, change);
    add_to(state.first_moment + i, change);
    add_to(state.second_moment + i, change);
  }
}

}  // namespace
}  // namespace zenflow::kernels::testing
