/// A kernel that does nothing: what a launch costs.
#pragma once

#include <cuda_runtime_api.h>

namespace zenflow::kernels {

/// Enqueues it on `stream`: one block of one warp. Throws Error(kDevice) if the launch fails.
void empty_cuda(cudaStream_t stream);

}  // namespace zenflow::kernels
