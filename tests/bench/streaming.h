/// A loop that only moves the memory that AdamW moves: how fast a kernel bound by memory can be.
#pragma once

#include <cstddef>

#include "kernels/adamw/adamw.h"

namespace zenflow::kernels::testing {

/// Does the loop ask for memory in advance, as the kernels do, or leave that to the processor?
enum class Prefetching { kNo, kYes };

/// Reads 4 arrays of [n] and writes 3, as fp32 AdamW does: adds zero * gradient to each.
/// Precondition: n is a multiple of 32.
void stream_avx2(std::size_t n, AdamWState<float, float> state, const float* gradient, float zero,
                 Prefetching prefetching);
void stream_avx512(std::size_t n, AdamWState<float, float> state, const float* gradient, float zero,
                   Prefetching prefetching);

}  // namespace zenflow::kernels::testing
