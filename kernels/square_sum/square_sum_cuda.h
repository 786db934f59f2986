/// The sum of squares on the GPU; the arithmetic is that of square_sum.h, bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/square_sum/square_sum.h"

namespace zenflow::kernels {

/// Bytes of device memory that the sums of blocks of [n] elements take.
[[nodiscard]] std::size_t square_sum_workspace(std::size_t n);

/// Enqueues *sum = the sum of squares of `values`, [n], on `stream` and returns; all pointers are
/// to device memory. `workspace` is square_sum_workspace(n) bytes, aligned for double, that nothing
/// else uses until the work has completed. `values` that do not begin at a multiple of 16 bytes are
/// read element by element. There is Element = float and Bf16.
/// Throws Error(kDevice) if a launch fails.
template <class Element>
void square_sum_cuda(const Element* values, std::size_t n, double* sum, void* workspace,
                     cudaStream_t stream);

}  // namespace zenflow::kernels
