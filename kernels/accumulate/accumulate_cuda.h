/// Accumulation on the GPU; the arithmetic is that of accumulate.h, bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/accumulate/accumulate.h"

namespace zenflow::kernels {

/// Enqueue the work on `stream` and return; all pointers are to device memory. Arrays whose
/// 16-byte packs of `sum` do not lie like packs of `gradient` are read element by element.
/// There is Grad = float and Bf16. Throws Error(kDevice) if the launch fails.
template <class Grad>
void accumulate_cuda(float* sum, const Grad* gradient, float scale, std::size_t n,
                     cudaStream_t stream);
template <class Grad>
void accumulate_first_cuda(float* sum, const Grad* gradient, float scale, std::size_t n,
                           cudaStream_t stream);

}  // namespace zenflow::kernels
