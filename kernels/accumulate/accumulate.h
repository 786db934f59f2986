/// Adds up the gradients of several steps in fp32.
///
/// Arithmetic, the same in every implementation, so that results agree bit for bit. In fp32,
/// rounded to nearest even, denormals kept; bfloat16 widens exactly:
///   accumulate:        sum = fma(scale, g, sum)
///   accumulate_first:  sum = scale * g
/// The bits of an fp32 NaN are not defined.
///
/// Cost: 12 and 8 bytes an element with fp32 gradients (the first writes what it has not read:
/// 12 with the read for ownership), 2 less with bfloat16; bound by memory.
#pragma once

#include <cstddef>

#include "kernels/bf16/bf16.h"
#include "kernels/dispatch.h"

namespace zenflow::kernels {

/// `sum` and `gradient` are arrays of [n] that do not overlap. Each element stands alone.
/// There is Grad = float and Bf16.
template <class Grad>
void accumulate(float* sum, const Grad* gradient, float scale, std::size_t n, Isa isa = best_isa());

/// The first of a series: what `sum` held does not matter.
template <class Grad>
void accumulate_first(float* sum, const Grad* gradient, float scale, std::size_t n,
                      Isa isa = best_isa());

}  // namespace zenflow::kernels
