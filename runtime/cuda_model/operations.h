/// The transformer's operations on the GPU: the kernels of kernels/ and products by a DeviceGemm,
/// enqueued on a stream.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "runtime/cuda_model/gemm.h"
#include "runtime/model/operations.h"

namespace zenflow::runtime {

/// What every operation on the device runs with.
struct CudaExecution {
  DeviceGemm* gemm;
  cudaStream_t stream;
  void* scratch;  ///< OperationMemory::scratch_bytes
};

/// There is Element = float and kernels::Bf16.
template <class Element>
class CudaOperations final : public Operations<Element> {
 public:
  /// `run` is read by each operation.
  explicit CudaOperations(const CudaExecution& run) : run_(run) {}
  /// For passes over at most `tokens`.
  [[nodiscard]] static OperationMemory memory(const sim::ModelSpec& model, std::int64_t tokens,
                                              std::int64_t logit_bytes);

  void linear(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
              const Element* x, RowsView<Element> y) override;
  /// Where the library fuses them, y comes from the fp32 sums.
  void linear_gelu(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                   const Element* x, Element* before, Element* y) override;
  void linear_input_gradient(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                             RowsView<const Element> dy, Element* dx, bool adds) override;
  void linear_weight_gradients(const LinearPlaces& linear, GradientPointers gradients,
                               std::int64_t rows, const Element* x, RowsView<const Element> dy,
                               bool adds, const RowsPart& part) override;
  void norm(const kernels::NormShape& shape, const kernels::NormForward<Element>& values) override;
  void norm_gradient(const kernels::NormShape& shape,
                     const kernels::NormBackward<Element>& values) override;
  void norm_weight_gradients(const kernels::NormShape& shape,
                             const kernels::NormWeightGradients<Element>& values) override;
  void rotary(const kernels::RotaryShape& shape, kernels::RotaryAngles angles,
              kernels::RotaryDirection direction, Element* x) override;
  void attention(const kernels::AttentionShape& shape,
                 const kernels::AttentionForward<Element>& values) override;
  void attention_gradient(const kernels::AttentionShape& shape,
                          const kernels::AttentionBackward<Element>& values) override;
  void activation(kernels::ActivationFunction f, std::size_t n, const Element* x,
                  Element* y) override;
  void activation_gradient(kernels::ActivationFunction f, std::size_t n,
                           const kernels::ActivationGradient<Element>& values) override;
  void gated(kernels::ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
             Element* y) override;
  void gated_gradient(kernels::ActivationFunction f, std::size_t n,
                      const kernels::GatedGradient<Element>& values) override;
  void embedding(const BatchView& batch, std::size_t columns, const Element* words,
                 const Element* positions, Element* y) override;
  void word_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                     std::size_t rows, bool adds, Element* gradient) override;
  void position_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                         std::size_t places, bool adds, Element* gradient) override;
  void gather_last(const BatchView& batch, std::size_t columns, const Element* from,
                   Element* to) override;
  void scatter_last(const BatchView& batch, std::size_t columns, const Element* from,
                    Element* to) override;
  /// Losses are kernels::RowLoss.
  void loss(const LossRows<Element>& rows, LossPass pass) override;
  void sum_losses(const void* losses, std::size_t rows, kernels::LossSum* sum) override;

 private:
  const CudaExecution& run_;
};

}  // namespace zenflow::runtime
