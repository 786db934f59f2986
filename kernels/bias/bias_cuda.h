/// Biases on the GPU; the arithmetic is that of bias.h.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/bias/bias.h"

namespace zenflow::kernels {

/// Enqueue on `stream` and return; all pointers are to device memory. There is Element = float and
/// Bf16. Throw Error(kDevice) if a launch fails.
template <class Element>
void add_bias_cuda(std::size_t rows, std::size_t columns, std::size_t stride, const Element* bias,
                   Element* y, cudaStream_t stream);

/// Bytes of device memory, aligned for float, that nothing else uses until the work has completed.
[[nodiscard]] std::size_t bias_gradient_workspace(std::size_t rows, std::size_t columns);
template <class Element>
void bias_gradient_cuda(const MatrixView<Element>& dy, bool adds, Element* d_bias, void* workspace,
                        cudaStream_t stream);

}  // namespace zenflow::kernels
