/// Casts on the GPU; the same bits as those of cast.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cast/cast.h"

namespace zenflow::kernels {

/// Enqueue the work on `stream` and return; all pointers are to device memory. Arrays whose packs
/// of 4 elements do not lie alike are read element by element.
/// Throws Error(kDevice) if the launch fails.
void to_bf16_cuda(const float* values, std::size_t n, Bf16* rounded, cudaStream_t stream);
void to_float_cuda(const Bf16* values, std::size_t n, float* widened, cudaStream_t stream);

}  // namespace zenflow::kernels
