/// What the versions of AdamW for each instruction set are called with; not for callers.
#pragma once

#include "kernels/adamw/adamw.h"

namespace zenflow::kernels {

/// The factors of adamw.h, worked out once a call.
struct AdamWFactors {
  float gradient_scale;
  float beta1;
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float epsilon;
  float decay;
};

[[nodiscard]] AdamWFactors factors_of(const AdamWSettings& settings, float gradient_scale);

/// `Out` of a version that writes no copy.
struct NoCopy {};

template <class Param, class Moment, class Grad, class Out>
struct AdamWCall {
  AdamWFactors factors;
  BiasCorrection correction;
  std::size_t n;
  AdamWState<Param, Moment> state;
  const Grad* gradient;
  Out* copy;
};

template <class Grad, class Out>
struct AdamWColumnsCall {
  AdamWFactors factors;
  ColumnCorrections corrections;
  std::size_t rows;
  std::size_t columns;
  AdamWState<float, float> state;
  const Grad* gradient;
  ColumnScatter<Out> out;
};

template <class Param, class Moment, class Grad, class Out>
void adamw_scalar(const AdamWCall<Param, Moment, Grad, Out>& call);
template <class Param, class Moment, class Grad, class Out>
void adamw_avx2(const AdamWCall<Param, Moment, Grad, Out>& call);
template <class Param, class Moment, class Grad, class Out>
void adamw_avx512(const AdamWCall<Param, Moment, Grad, Out>& call);

template <class Grad, class Out>
void adamw_columns_scalar(const AdamWColumnsCall<Grad, Out>& call);
template <class Grad, class Out>
void adamw_columns_avx2(const AdamWColumnsCall<Grad, Out>& call);
template <class Grad, class Out>
void adamw_columns_avx512(const AdamWColumnsCall<Grad, Out>& call);

}  // namespace zenflow::kernels
