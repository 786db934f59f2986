/// What the transformer is made of: operations on arrays of one element type, in the memory of the
/// host or of a GPU. block.h, head.h and network.h say which follow each other; host_operations.cpp
/// and runtime/cuda_model/operations.cpp do them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/norm/norm.h"
#include "kernels/rotary/rotary.h"
#include "runtime/model/batch_arrays.h"
#include "runtime/model/block_layout.h"

namespace zenflow::runtime {

[[nodiscard]] constexpr std::size_t as_size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

/// Rows `stride` elements apart.
template <class Element>
struct RowsView {
  Element* values;
  std::int64_t stride;
};

/// Which rows of a product over rows a call has, if several calls sum to one gradient.
struct RowsPart {
  bool is_first = true;
  bool is_last = true;
  float* sums = nullptr;  ///< for sums of several parts, if OperationMemory::sums_parts_apart
};

enum class LossPass : std::uint8_t {
  kLoss,             ///< the logits stay
  kLossAndGradient,  ///< the logits become their gradients
  kGradientAgain,    ///< the same, and the losses of these logits are there
};

template <class Element>
struct LossRows {
  RowsView<Element> logits;
  std::int64_t rows;
  std::int64_t outputs;
  const std::int32_t* classes;  ///< [rows], each below `outputs` or kIgnoredTarget
  const float* values;          ///< of a regression, [rows]; else null
  void* losses;                 ///< [rows], in a form of the implementation's
  double scale;                 ///< of gradients
  float cap = 0.0F;             ///< of a language model's logits; 0: none
};

/// Memory that an implementation asks for.
struct OperationMemory {
  std::int64_t row_loss_bytes;
  /// Logits of a language model above this are computed in chunks of tokens (head.h).
  std::int64_t logit_bytes;
  std::int64_t logit_multiple = 1;        ///< of elements between rows of logits
  std::int64_t attention_statistics = 1;  ///< floats a token and head, kept for backward
  std::int64_t attention_scratch = 0;     ///< the same, not kept
  std::int64_t scratch_bytes = 0;         ///< for sums over rows; one operation uses it at a time
  /// Which arrays that are never needed together share memory: those of backward's two halves, or
  /// else a block's last sum in forward and a gradient.
  bool halves_share = true;
  bool sums_parts_apart = false;  ///< RowsPart::sums, in fp32
};

/// Each operation takes what the one before left, on the calling thread or, on a GPU, enqueued on a
/// stream. Activations are rounded as Element says, parameters and their gradients are ParameterOf
/// it. `adds`: a gradient is added to what is there.
template <class Element>
class Operations {
 public:
  using Stored = kernels::ParameterOf<Element>;

  virtual ~Operations() = default;

  /// y[rows, out] = x[rows, in] * weight + bias.
  virtual void linear(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                      const Element* x, RowsView<Element> y) = 0;
  /// The same and GELU by its tanh approximation: y = gelu(before), both [rows, out] contiguous.
  /// An implementation may take y from the fp32 sums and not from `before`, which is rounded.
  virtual void linear_gelu(const LinearPlaces& linear, WeightPointers weights, std::int64_t rows,
                           const Element* x, Element* before, Element* y) {
    this->linear(linear, weights, rows, x, {before, linear.shape.out});
    activation(kernels::ActivationFunction::kGeluTanh, as_size(rows * linear.shape.out), before, y);
  }
  /// dx[rows, in] = or += dy[rows, out] * weight^T.
  virtual void linear_input_gradient(const LinearPlaces& linear, WeightPointers weights,
                                     std::int64_t rows, RowsView<const Element> dy, Element* dx,
                                     bool adds) = 0;
  /// The gradients of weight and bias. Layers that come in parts have no bias.
  virtual void linear_weight_gradients(const LinearPlaces& linear, GradientPointers gradients,
                                       std::int64_t rows, const Element* x,
                                       RowsView<const Element> dy, bool adds,
                                       const RowsPart& part = {}) = 0;

  virtual void norm(const kernels::NormShape& shape,
                    const kernels::NormForward<Element>& values) = 0;
  virtual void norm_gradient(const kernels::NormShape& shape,
                             const kernels::NormBackward<Element>& values) = 0;
  virtual void norm_weight_gradients(const kernels::NormShape& shape,
                                     const kernels::NormWeightGradients<Element>& values) = 0;

  virtual void rotary(const kernels::RotaryShape& shape, kernels::RotaryAngles angles,
                      kernels::RotaryDirection direction, Element* x) = 0;
  /// `lse` has OperationMemory::attention_statistics floats for each token and head.
  virtual void attention(const kernels::AttentionShape& shape,
                         const kernels::AttentionForward<Element>& values) = 0;
  virtual void attention_gradient(const kernels::AttentionShape& shape,
                                  const kernels::AttentionBackward<Element>& values) = 0;

  virtual void activation(kernels::ActivationFunction f, std::size_t n, const Element* x,
                          Element* y) = 0;
  virtual void activation_gradient(kernels::ActivationFunction f, std::size_t n,
                                   const kernels::ActivationGradient<Element>& values) = 0;
  virtual void gated(kernels::ActivationFunction f, std::size_t n, const Element* gate,
                     const Element* up, Element* y) = 0;
  virtual void gated_gradient(kernels::ActivationFunction f, std::size_t n,
                              const kernels::GatedGradient<Element>& values) = 0;

  /// As in kernels/embedding/embedding.h, for the batch's tokens.
  virtual void embedding(const BatchView& batch, std::size_t columns, float scale,
                         const Stored* words, const Stored* positions, Element* y) = 0;
  virtual void word_gradient(const BatchView& batch, std::size_t columns, float scale,
                             const Element* dy, std::size_t rows, bool adds, Stored* gradient) = 0;
  virtual void position_gradient(const BatchView& batch, std::size_t columns, const Element* dy,
                                 std::size_t first, std::size_t places, bool adds,
                                 Stored* gradient) = 0;
  /// to[sequences, columns]: the rows of the sequences' last tokens.
  virtual void gather_last(const BatchView& batch, std::size_t columns, const Element* from,
                           Element* to) = 0;
  /// to[tokens, columns]: 0 but for those rows.
  virtual void scatter_last(const BatchView& batch, std::size_t columns, const Element* from,
                            Element* to) = 0;

  virtual void loss(const LossRows<Element>& rows, LossPass pass) = 0;
  virtual void sum_losses(const void* losses, std::size_t rows, kernels::LossSum* sum) = 0;
};

}  // namespace zenflow::runtime
