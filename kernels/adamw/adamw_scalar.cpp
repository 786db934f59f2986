#include <cmath>
#include <type_traits>

#include "kernels/adamw/adamw_versions.h"

namespace zenflow::kernels {
namespace {

template <class Element>
Element stored(float value) {
  if constexpr (std::is_same_v<Element, Bf16>) {
    return round_to_bf16(value);
  } else {
    return value;
  }
}

struct Element {
  float p;
  float m;
  float v;
};

Element updated(const AdamWFactors& f, BiasCorrection c, Element old, float gradient) {
  const float g = f.gradient_scale * gradient;
  const float m = std::fma(f.beta1, old.m, f.one_minus_beta1 * g);
  const float v = std::fma(f.beta2, old.v, (f.one_minus_beta2 * g) * g);
  const float d = std::fma(std::sqrt(v), c.inverse_sqrt_correction2, f.epsilon);
  const float w = std::fma(-f.decay, old.p, old.p);
  return {.p = std::fma(-c.step_size, m / d, w), .m = m, .v = v};
}

/// Updates element `i` of `state` and returns the new parameter as it is stored.
template <class Param, class Moment>
Param update(const AdamWFactors& factors, BiasCorrection correction,
             const AdamWState<Param, Moment>& state, std::size_t i, float gradient) {
  const Element old{to_float(state.parameters[i]), to_float(state.first_moment[i]),
                    to_float(state.second_moment[i])};
  const Element now = updated(factors, correction, old, gradient);
  state.first_moment[i] = stored<Moment>(now.m);
  state.second_moment[i] = stored<Moment>(now.v);
  return state.parameters[i] = stored<Param>(now.p);
}

}  // namespace

template <class Param, class Moment, class Grad, class Out>
void adamw_scalar(const AdamWCall<Param, Moment, Grad, Out>& call) {
  for (std::size_t i = 0; i < call.n; ++i) {
    const Param p =
        update(call.factors, call.correction, call.state, i, to_float(call.gradient[i]));
    if constexpr (!std::is_same_v<Out, NoCopy>) call.copy[i] = stored<Out>(to_float(p));
  }
}

template <class Grad, class Out>
void adamw_columns_scalar(const AdamWColumnsCall<Grad, Out>& call) {
  for (std::size_t r = 0; r < call.rows; ++r) {
    for (std::size_t j = 0; j < call.columns; ++j) {
      const BiasCorrection correction{call.corrections.step_size[j],
                                      call.corrections.inverse_sqrt_correction2[j]};
      const std::size_t i = r * call.columns + j;
      const float p = update(call.factors, correction, call.state, i, to_float(call.gradient[i]));
      if (call.out.values == nullptr) continue;
      const std::size_t column = call.out.column == nullptr ? j : call.out.column[j];
      call.out.values[r * call.out.row_stride + column] = stored<Out>(p);
    }
  }
}

template void adamw_scalar(const AdamWCall<float, float, float, NoCopy>&);
template void adamw_scalar(const AdamWCall<float, float, float, float>&);
template void adamw_scalar(const AdamWCall<float, float, float, Bf16>&);
template void adamw_scalar(const AdamWCall<float, float, Bf16, NoCopy>&);
template void adamw_scalar(const AdamWCall<float, float, Bf16, float>&);
template void adamw_scalar(const AdamWCall<float, float, Bf16, Bf16>&);
template void adamw_scalar(const AdamWCall<Bf16, float, Bf16, NoCopy>&);
template void adamw_scalar(const AdamWCall<Bf16, Bf16, Bf16, NoCopy>&);
template void adamw_columns_scalar(const AdamWColumnsCall<float, float>&);
template void adamw_columns_scalar(const AdamWColumnsCall<float, Bf16>&);
template void adamw_columns_scalar(const AdamWColumnsCall<Bf16, float>&);
template void adamw_columns_scalar(const AdamWColumnsCall<Bf16, Bf16>&);

}  // namespace zenflow::kernels
