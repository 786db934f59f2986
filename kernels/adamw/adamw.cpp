#include "kernels/adamw/adamw.h"

#include <cassert>
#include <cmath>

#include "kernels/adamw/adamw_versions.h"

namespace zenflow::kernels {
namespace {

template <class Call>
void run(const Call& call, Isa isa) {
  if constexpr (kIsX86) {
    if (isa == Isa::kAvx512) return adamw_avx512(call);
    if (isa == Isa::kAvx2) return adamw_avx2(call);
  }
  assert(isa == Isa::kScalar);
  adamw_scalar(call);
}

template <class Call>
void run_columns(const Call& call, Isa isa) {
  if constexpr (kIsX86) {
    if (isa == Isa::kAvx512) return adamw_columns_avx512(call);
    if (isa == Isa::kAvx2) return adamw_columns_avx2(call);
  }
  assert(isa == Isa::kScalar);
  adamw_columns_scalar(call);
}

}  // namespace

AdamWFactors factors_of(const AdamWSettings& settings, float gradient_scale) {
  return {.gradient_scale = gradient_scale,
          .beta1 = settings.beta1,
          .one_minus_beta1 = 1.0F - settings.beta1,
          .beta2 = settings.beta2,
          .one_minus_beta2 = 1.0F - settings.beta2,
          .epsilon = settings.epsilon,
          .decay = static_cast<float>(static_cast<double>(settings.learning_rate) *
                                      static_cast<double>(settings.weight_decay))};
}

BiasCorrection bias_correction(const AdamWSettings& settings, std::uint64_t updates) {
  assert(updates >= 1);
  const auto t = static_cast<double>(updates);
  const double correction1 = 1.0 - std::pow(static_cast<double>(settings.beta1), t);
  const double correction2 = 1.0 - std::pow(static_cast<double>(settings.beta2), t);
  return {static_cast<float>(static_cast<double>(settings.learning_rate) / correction1),
          static_cast<float>(1.0 / std::sqrt(correction2))};
}

template <class Param, class Moment, class Grad>
void adamw(const AdamWSettings& settings, BiasCorrection correction, float gradient_scale,
           std::size_t n, AdamWState<Param, Moment> state, const Grad* gradient, Isa isa) {
  run(AdamWCall<Param, Moment, Grad, NoCopy>{factors_of(settings, gradient_scale), correction, n,
                                             state, gradient, nullptr},
      isa);
}

template <class Param, class Moment, class Grad, class Out>
void adamw(const AdamWSettings& settings, BiasCorrection correction, float gradient_scale,
           std::size_t n, AdamWState<Param, Moment> state, const Grad* gradient, Out* copy,
           Isa isa) {
  if (copy == nullptr) return adamw(settings, correction, gradient_scale, n, state, gradient, isa);
  run(AdamWCall<Param, Moment, Grad, Out>{factors_of(settings, gradient_scale), correction, n,
                                          state, gradient, copy},
      isa);
}

template <class Grad, class Out>
void adamw_columns(const AdamWSettings& settings, ColumnCorrections corrections,
                   float gradient_scale, std::size_t rows, std::size_t columns,
                   AdamWState<float, float> state, const Grad* gradient, ColumnScatter<Out> out,
                   Isa isa) {
  run_columns(AdamWColumnsCall<Grad, Out>{factors_of(settings, gradient_scale), corrections, rows,
                                          columns, state, gradient, out},
              isa);
}

template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<float, float>, const float*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<float, float>, const Bf16*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<Bf16, float>, const Bf16*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<Bf16, Bf16>, const Bf16*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<float, float>, const float*, float*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<float, float>, const float*, Bf16*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<float, float>, const Bf16*, float*, Isa);
template void adamw(const AdamWSettings&, BiasCorrection, float, std::size_t,
                    AdamWState<float, float>, const Bf16*, Bf16*, Isa);
template void adamw_columns(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                            std::size_t, AdamWState<float, float>, const float*,
                            ColumnScatter<float>, Isa);
template void adamw_columns(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                            std::size_t, AdamWState<float, float>, const float*,
                            ColumnScatter<Bf16>, Isa);
template void adamw_columns(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                            std::size_t, AdamWState<float, float>, const Bf16*,
                            ColumnScatter<float>, Isa);
template void adamw_columns(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                            std::size_t, AdamWState<float, float>, const Bf16*, ColumnScatter<Bf16>,
                            Isa);

}  // namespace zenflow::kernels
