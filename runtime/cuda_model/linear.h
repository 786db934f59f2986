/// A matrix applied to every row on the device: torch.nn.Linear, and GPT-2's Conv1D.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "kernels/bf16/bf16.h"
#include "runtime/cuda_model/gemm.h"
#include "runtime/model/decoder_block.h"

namespace zenflow::runtime {

/// What every operation on the device runs with.
struct CudaExecution {
  DeviceGemm& gemm;
  cudaStream_t stream;
  void* scratch;  ///< for sums over rows; one operation uses it at a time
};

template <class Element>
constexpr ElementType element_type() {
  return std::is_same_v<Element, kernels::Bf16> ? ElementType::kBfloat16 : ElementType::kFloat32;
}

/// Rows `stride` elements apart.
template <class Element>
struct RowsView {
  Element* values;
  std::int64_t stride;
};

/// y[rows, out] = x[rows, in] * weight + bias. There is Element = float and Bf16.
template <class Element>
void cuda_linear_forward(const CudaExecution& run, const LinearPlaces& linear,
                         WeightPointers weights, std::int64_t rows, const Element* x,
                         RowsView<Element> y);

/// The same and GELU by its tanh approximation: y = gelu(before), both [rows, out] contiguous.
/// Where the library fuses them, y comes from the fp32 sums and not from `before`, which is
/// rounded.
template <class Element>
void cuda_linear_gelu_forward(const CudaExecution& run, const LinearPlaces& linear,
                              WeightPointers weights, std::int64_t rows, const Element* x,
                              Element* before, Element* y);

/// dx[rows, in] = or += dy[rows, out] * weight^T.
template <class Element>
void cuda_linear_backward_input(const CudaExecution& run, const LinearPlaces& linear,
                                WeightPointers weights, std::int64_t rows,
                                RowsView<const Element> dy, Element* dx, bool adds);

/// The gradients of weight and bias, written or added to what is there.
template <class Element>
void cuda_linear_backward_weights(const CudaExecution& run, const LinearPlaces& linear,
                                  GradientPointers gradients, std::int64_t rows, const Element* x,
                                  RowsView<const Element> dy, bool adds);

}  // namespace zenflow::runtime
