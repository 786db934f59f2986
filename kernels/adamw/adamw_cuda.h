/// Selective AdamW on the GPU; the arithmetic is that of adamw.h, bit for bit.
///
/// One pass over memory: 24 bytes of state an element, the gradient, and the sectors of 32 bytes
/// of the full matrix that hold a selected column, written and, in parts, read.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/adamw/adamw.h"

namespace zenflow::kernels {

/// Enqueues adamw_columns() on `stream` and returns; all pointers, also those in the structures,
/// are to device memory. No column may be named twice. State and gradient move 16 bytes at a time
/// (bfloat16 gradients 8) if packs of 4 elements lie alike in all four arrays, else element by
/// element. There is <Grad, Out> for float or Bf16 each.
/// Throws Error(kDevice) if the launch fails.
template <class Grad, class Out>
void adamw_columns_cuda(const AdamWSettings& settings, ColumnCorrections corrections,
                        float gradient_scale, std::size_t rows, std::size_t columns,
                        AdamWState<float, float> state, const Grad* gradient,
                        ColumnScatter<Out> out, cudaStream_t stream);

}  // namespace zenflow::kernels
