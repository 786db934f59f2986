/// Losses on the GPU; the arithmetic is that of cross_entropy.h.
///
/// One block for each row, which reads its logits once for the sum and once more, mostly from the
/// caches, to write the gradient. Rows that begin at multiples of 16 bytes move 16 at a time: pad
/// `stride` to that.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/cross_entropy/cross_entropy.h"

namespace zenflow::kernels {

/// Enqueue on `stream` and return; all pointers are to device memory. There is Element = float and
/// Bf16. Throw Error(kDevice) if a launch fails.
template <class Element>
void cross_entropy_cuda(const LogitRows<Element>& rows, cudaStream_t stream);
template <class Element>
void squared_error_cuda(const OutputRows<Element>& rows, cudaStream_t stream);
void sum_losses_cuda(const RowLoss* losses, std::size_t rows, LossSum* sum, cudaStream_t stream);

}  // namespace zenflow::kernels
