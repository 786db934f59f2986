/// The columns with the largest norms, chosen on the GPU: the columns that top_k.h chooses.
///
/// Sorted by CUB's radix sort, which keeps the order of equal keys and so the lower index first.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime_api.h>

namespace zenflow::kernels {

/// Bytes of device memory for top_k_cuda() with these numbers.
/// Throws Error(kDevice) if CUB cannot tell.
[[nodiscard]] std::size_t top_k_workspace(std::size_t n, std::size_t k);

/// Enqueues columns[0..k) = the indices, ascending, of the k largest of `norms`, [n], on `stream`
/// and returns; all pointers are to device memory. `workspace` is top_k_workspace(n, k) bytes,
/// aligned as cudaMalloc aligns, that nothing else uses until the work has completed.
/// Throws Error(kDevice) if the work cannot be enqueued. Preconditions: k <= n < 2^32.
void top_k_cuda(const float* norms, std::size_t n, std::size_t k, std::uint32_t* columns,
                void* workspace, cudaStream_t stream);

}  // namespace zenflow::kernels
