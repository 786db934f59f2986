/// Arrays between fp32 and bfloat16.
///
/// Arithmetic: `round_to_bf16` and `to_float` (bf16.h) of every element; all implementations
/// agree bit for bit, NaNs included. Widening keeps the bits of a NaN.
///
/// Cost: 6 bytes an element (8 and 10 with the read for ownership); bound by memory.
#pragma once

#include <cstddef>

#include "kernels/bf16/bf16.h"
#include "kernels/dispatch.h"

namespace zenflow::kernels {

/// Arrays of [n] that do not overlap.
void to_bf16(const float* values, std::size_t n, Bf16* rounded, Isa isa = best_isa());
void to_float(const Bf16* values, std::size_t n, float* widened, Isa isa = best_isa());

}  // namespace zenflow::kernels
