/// Norms on the GPU; the arithmetic is that of norm.h, with sums in fp32.
///
/// One warp for each row, which reads it again from the caches for each of its sums; the sums over
/// rows are those of column_sums.cuh. Rows that begin at multiples of 16 bytes move 16 at a time.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/norm/norm.h"

namespace zenflow::kernels {

/// Enqueue on `stream` and return; all pointers are to device memory. There is Element = float and
/// Bf16. Throw Error(kDevice) if a launch fails.
template <class Element>
void norm_forward_cuda(const NormShape& shape, const NormForward<Element>& values,
                       cudaStream_t stream);
template <class Element>
void norm_backward_cuda(const NormShape& shape, const NormBackward<Element>& values,
                        cudaStream_t stream);

/// Bytes of device memory, aligned for float, that nothing else uses until the work has completed.
[[nodiscard]] std::size_t norm_weight_gradients_workspace(const NormShape& shape);
template <class Element>
void norm_weight_gradients_cuda(const NormShape& shape, const NormWeightGradients<Element>& values,
                                void* workspace, cudaStream_t stream);

}  // namespace zenflow::kernels
