/// Activations on the GPU; the arithmetic is that of activation.h. One thread for up to 16 bytes of
/// every array.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/activation/activation.h"

namespace zenflow::kernels {

/// Enqueue on `stream` and return; all pointers are to device memory. There is Element = float and
/// Bf16. Throw Error(kDevice) if the launch fails.
template <class Element>
void activation_cuda(ActivationFunction f, std::size_t n, const Element* x, Element* y,
                     cudaStream_t stream);
template <class Element>
void activation_gradient_cuda(ActivationFunction f, std::size_t n,
                              const ActivationGradient<Element>& values, cudaStream_t stream);
template <class Element>
void gated_cuda(ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
                Element* y, cudaStream_t stream);
template <class Element>
void gated_gradient_cuda(ActivationFunction f, std::size_t n, const GatedGradient<Element>& values,
                         cudaStream_t stream);

}  // namespace zenflow::kernels
