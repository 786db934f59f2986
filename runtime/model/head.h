/// The final norm, the projection to logits, and the loss.
///
/// Logits of a language model exist for a chunk of tokens at a time and become their own gradients.
/// If one chunk has all tokens, forward leaves the gradients for backward; otherwise backward
/// computes the logits again.
#pragma once

#include <cstdint>

#include "runtime/model/block.h"

namespace zenflow::runtime {

template <class Element>
class Head {
 public:
  /// The chunk is all tokens, unless its logits take more than OperationMemory::logit_bytes, and
  /// more than a chunked backward would save.
  Head(const TransformerConfig& config, const ParameterTable& table,
       const TransformerSettings& settings, const OperationMemory& memory, Arena& arena);

  /// Writes *sum.
  void forward(Operations<Element>& run, const Pass& pass, const ResidualStream<Element>& in,
               kernels::LossSum* sum) const;
  /// x: what forward left of `in`. dx[tokens, hidden] is written. `hidden`: [tokens, hidden].
  void backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                const Element* x, Element* dx, Element* hidden) const;
  /// After a forward that does not train: logits of the sequences' last tokens, where they are,
  /// before they are capped.
  [[nodiscard]] RowsView<const Element> last_logits(Operations<Element>& run,
                                                    const Pass& pass) const;

 private:
  [[nodiscard]] std::int64_t outputs() const { return projection_.shape.out; }
  void project(Operations<Element>& run, const Pass& pass, std::int64_t rows,
               const Element* x) const;
  void lose(Operations<Element>& run, const Pass& pass, std::int64_t first, std::int64_t rows,
            LossPass what) const;
  void backward_tokens(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                       Element* d_normed) const;
  void backward_sequences(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                          Element* d_normed) const;

  Task task_;
  std::int64_t hidden_;
  Norm<Element> norm_;
  float logit_cap_;  // 0: none
  LinearPlaces projection_;
  std::int64_t chunk_;
  std::int64_t logit_stride_;
  std::int64_t row_loss_bytes_;
  Element* normed_;  // [tokens, hidden]
  float* mean_;      // [tokens]
  float* inverse_;
  Element* last_;            // [sequences, hidden]
  Element* logits_;          // [chunk, logit_stride]
  std::byte* losses_;        // [tokens]
  float* chunked_gradient_;  // [outputs, hidden], for RowsPart; else null
};

}  // namespace zenflow::runtime
