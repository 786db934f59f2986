/// The transformer's operations on the host: products by oneDNN, attention in tiles of products,
/// and the scalar references of the kernels, shared out to the threads of a pool. Results have the
/// same bits for any number of threads.
#pragma once

#include <vector>

#include "runtime/model/attention.h"
#include "runtime/model/gemm.h"
#include "runtime/model/numerics.h"
#include "runtime/model/operations.h"

namespace zenflow::runtime {

/// There is Element = float and kernels::WideBf16.
template <class Element>
class HostOperations final : public Operations<Element> {
 public:
  using Stored = kernels::ParameterOf<Element>;

  explicit HostOperations(ThreadPool& pool);
  [[nodiscard]] static OperationMemory memory();

  void linear(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
              const Element* x, RowsView<Element> y) override;
  void linear_input_gradient(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                             RowsView<const Element> dy, Element* dx, bool adds) override;
  /// Sums over rows are fp32 in the weight (oneDNN) and double in the bias.
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
  void embedding(const BatchView& batch, std::size_t columns, const Stored* words,
                 const Stored* positions, Element* y) override;
  void word_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                     std::size_t rows, bool adds, Stored* gradient) override;
  void position_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                         std::size_t places, bool adds, Stored* gradient) override;
  void gather_last(const BatchView& batch, std::size_t columns, const Element* from,
                   Element* to) override;
  void scatter_last(const BatchView& batch, std::size_t columns, const Element* from,
                    Element* to) override;
  /// Losses are kernels::RowStatistics.
  void loss(const LossRows<Element>& rows, LossPass pass) override;
  void sum_losses(const void* losses, std::size_t rows, kernels::LossSum* sum) override;

 private:
  Execution run_;
  AttentionScratch attention_;
  // In bf16 as large as the largest weight; in fp32 empty, but for gradients that are added.
  std::vector<float> weight_;
  std::vector<float> bias_;
  std::vector<float> gradient_;
};

}  // namespace zenflow::runtime
