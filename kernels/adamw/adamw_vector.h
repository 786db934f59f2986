/// AdamW on vectors: the body of adamw_avx2.cpp and adamw_avx512.cpp, which include the vectors
/// of their instruction set (kernels/simd/) before it.
#pragma once

#include <type_traits>

#include "kernels/adamw/adamw_versions.h"

namespace zenflow::kernels {
namespace {

struct Factors {
  Vector gradient_scale;
  Vector beta1;
  Vector one_minus_beta1;
  Vector beta2;
  Vector one_minus_beta2;
  Vector epsilon;
  Vector decay;
};

ZENFLOW_INLINE Factors broadcast(const AdamWFactors& f) {
  return {broadcast(f.gradient_scale), broadcast(f.beta1),           broadcast(f.one_minus_beta1),
          broadcast(f.beta2),          broadcast(f.one_minus_beta2), broadcast(f.epsilon),
          broadcast(f.decay)};
}

/// Updates m and v and returns the new parameters.
ZENFLOW_INLINE Vector update(const Factors& f, Vector step_size, Vector inverse_sqrt_correction2,
                             Vector p, Vector& m, Vector& v, Vector gradient) {
  const Vector g = multiply(f.gradient_scale, gradient);
  m = fma(f.beta1, m, multiply(f.one_minus_beta1, g));
  v = fma(f.beta2, v, multiply(multiply(f.one_minus_beta2, g), g));
  const Vector d = fma(square_root(v), inverse_sqrt_correction2, f.epsilon);
  const Vector w = fnma(f.decay, p, p);
  return fnma(step_size, divide(m, d), w);
}

template <Order order, Nan nan, class Param, class Moment, class Extent>
ZENFLOW_INLINE void store_state(const AdamWState<Param, Moment>& state, std::size_t i, Block p,
                                Block m, Block v, Extent extent) {
  store<order, nan>(state.first_moment + i, m, extent);
  store<order, nan>(state.second_moment + i, v, extent);
  store<order, nan>(state.parameters + i, p, extent);
}

/// Square roots and divisions fill the processor's window, so that it sees too little of what is
/// to be read next: hence the prefetches. Measured, they are worth 8 % of the speed with all in
/// fp32 and 19 % with all in bfloat16.
/// `Extent` is Whole or Part. Returns the new parameters, not rounded yet.
template <Order order, class Param, class Moment, class Grad, class Extent>
ZENFLOW_INLINE Block update_block(const Factors& f, Block step_size, Block inverse_sqrt_correction2,
                                  const AdamWState<Param, Moment>& state, const Grad* gradient,
                                  std::size_t i, Extent extent) {
  if constexpr (std::is_same_v<Extent, Whole>) {
    prefetch(gradient + i);
    prefetch(state.parameters + i);
    prefetch(state.first_moment + i);
    prefetch(state.second_moment + i);
  }
  const Block g = load<order>(gradient + i, extent);
  Block p = load<order>(state.parameters + i, extent);
  Block m = load<order>(state.first_moment + i, extent);
  Block v = load<order>(state.second_moment + i, extent);
  p.first = update(f, step_size.first, inverse_sqrt_correction2.first, p.first, m.first, v.first,
                   g.first);
  p.second = update(f, step_size.second, inverse_sqrt_correction2.second, p.second, m.second,
                    v.second, g.second);
  if (std::is_same_v<Moment, float> || any_nan(p)) {
    store_state<order, Nan::kPossible>(state, i, p, m, v, extent);
  } else {  // a NaN in m or v would be one in p
    store_state<order, Nan::kAbsent>(state, i, p, m, v, extent);
  }
  return p;
}

template <class Param, class Moment, class Grad, class Out, class Extent>
ZENFLOW_INLINE void update_and_copy(const AdamWCall<Param, Moment, Grad, Out>& call,
                                    const Factors& f, Block step_size,
                                    Block inverse_sqrt_correction2, std::size_t i, Extent extent) {
  // There are copies of fp32 parameters alone, so what is copied is what was stored.
  static_assert(std::is_same_v<Out, NoCopy> || std::is_same_v<Param, float>);
  constexpr bool kAllBf16 =
      std::is_same_v<Param, Bf16> && std::is_same_v<Moment, Bf16> && std::is_same_v<Grad, Bf16>;
  constexpr Order kOrder = kAllBf16 ? Order::kInterleaved : Order::kSequential;
  const Block p = update_block<kOrder>(f, step_size, inverse_sqrt_correction2, call.state,
                                       call.gradient, i, extent);
  if constexpr (!std::is_same_v<Out, NoCopy>) store<kOrder>(call.copy + i, p, extent);
}

template <class Param, class Moment, class Grad, class Out>
ZENFLOW_TARGET void update_range(const AdamWCall<Param, Moment, Grad, Out>& call) {
  const Factors f = broadcast(call.factors);
  const Vector step_size = broadcast(call.correction.step_size);
  const Vector inverse = broadcast(call.correction.inverse_sqrt_correction2);
  std::size_t i = 0;
  for (; i + kBlock <= call.n; i += kBlock) {
    update_and_copy(call, f, {step_size, step_size}, {inverse, inverse}, i, Whole{});
  }
  if (i < call.n) {
    update_and_copy(call, f, {step_size, step_size}, {inverse, inverse}, i, Part{call.n - i});
  }
}

/// Row `r`, columns from `j` on.
template <class Grad, class Out, class Extent>
ZENFLOW_INLINE void update_columns(const AdamWColumnsCall<Grad, Out>& call, const Factors& f,
                                   std::size_t r, std::size_t j, Extent extent) {
  const Block step_size = load<Order::kSequential>(call.corrections.step_size + j, extent);
  const Block inverse =
      load<Order::kSequential>(call.corrections.inverse_sqrt_correction2 + j, extent);
  const Block p = update_block<Order::kSequential>(f, step_size, inverse, call.state, call.gradient,
                                                   r * call.columns + j, extent);
  if (call.out.values == nullptr) return;
  Out* row = call.out.values + r * call.out.row_stride;
  if (call.out.column == nullptr) return store<Order::kSequential>(row + j, p, extent);
  Out values[kBlock];
  store<Order::kSequential>(values, p, Whole{});
  std::size_t count = kBlock;
  if constexpr (std::is_same_v<Extent, Part>) count = extent.count;
  for (std::size_t k = 0; k < count; ++k) row[call.out.column[j + k]] = values[k];
}

template <class Grad, class Out>
ZENFLOW_TARGET void update_rows(const AdamWColumnsCall<Grad, Out>& call) {
  const Factors f = broadcast(call.factors);
  for (std::size_t r = 0; r < call.rows; ++r) {
    std::size_t j = 0;
    for (; j + kBlock <= call.columns; j += kBlock) update_columns(call, f, r, j, Whole{});
    if (j < call.columns) update_columns(call, f, r, j, Part{call.columns - j});
  }
}

}  // namespace
}  // namespace zenflow::kernels
