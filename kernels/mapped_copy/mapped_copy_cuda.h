/// A copy by the GPU's own loads and stores, for what must not wait behind other copies.
#pragma once

#include <cstddef>

#include <cuda_runtime_api.h>

namespace zenflow::kernels {

/// Enqueues to[0..bytes) = from[0..bytes) on `stream`. One of them may be page-locked host memory,
/// which the GPU then reads or writes over the link, between the packets of its copy engines
/// instead of behind them. For a few KiB: each thread has one word on its way.
/// Throws Error(kDevice) if the launch fails.
void mapped_copy_cuda(void* to, const void* from, std::size_t bytes, cudaStream_t stream);

}  // namespace zenflow::kernels
