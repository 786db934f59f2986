/// The versions of accumulation for each instruction set; not for callers.
#pragma once

#include "kernels/accumulate/accumulate.h"

namespace zenflow::kernels {

/// Is there something in `sum` already?
enum class Accumulation { kFirst, kFurther };

template <Accumulation kind, class Grad>
void accumulate_scalar(float* sum, const Grad* gradient, float scale, std::size_t n);
template <Accumulation kind, class Grad>
void accumulate_avx2(float* sum, const Grad* gradient, float scale, std::size_t n);
template <Accumulation kind, class Grad>
void accumulate_avx512(float* sum, const Grad* gradient, float scale, std::size_t n);

}  // namespace zenflow::kernels
