/// The final norm, the projection to logits, and the loss, on the device: the operations of
/// runtime/model/output_head.h.
///
/// Logits of a language model exist for a chunk of tokens at a time, in the element type, and
/// become their own gradients. If one chunk has all tokens, forward leaves the gradients for
/// backward; otherwise backward computes the logits again, and in bf16 sums the projection's
/// gradient over the chunks in fp32.
#pragma once

#include <cstdint>

#include "kernels/cross_entropy/cross_entropy.h"
#include "kernels/embedding/embedding.h"
#include "runtime/cuda_model/block.h"

namespace zenflow::runtime {

/// What the outputs are compared with; on the device. What the task does not use is null.
struct CudaTargets {
  const std::int32_t* classes;    ///< [tokens], or of a classification [sequences]
  const float* values;            ///< of a regression, [sequences]
  const std::int32_t* last;       ///< token of the batch that ends each sequence, [sequences]
  const std::uint32_t* counting;  ///< 0, 1, ... [sequences + 1]
  float scale;                    ///< of gradients: the micro-batch's weight over what counts
};

template <class Element>
class CudaHead {
 public:
  /// The chunk is all tokens, unless its logits take more than `logit_bytes`, and more than a
  /// chunked backward would save.
  CudaHead(const TransformerConfig& config, const ParameterTable& table, std::int64_t sequences,
           std::int64_t tokens, std::int64_t logit_bytes, Arena& arena);

  /// Writes *sum (on the device). `trains`: backward follows.
  void forward(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
               const CudaTargets& targets, const ResidualStream<Element>& in, bool trains,
               kernels::LossSum* sum) const;
  /// x: what forward left of `in`. dx[tokens, hidden] is written. `hidden`: [tokens, hidden].
  void backward(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                GradientPointers gradients, bool adds, const CudaTargets& targets, const Element* x,
                Element* dx, Element* hidden) const;
  /// After a forward that does not train: logits of the sequences' last tokens, where they are.
  [[nodiscard]] RowsView<Element> last_logits(const CudaExecution& run, TokenGrid grid,
                                              WeightPointers weights,
                                              const std::int32_t* last) const;
  [[nodiscard]] std::int64_t outputs() const { return projection_.shape.out; }
  [[nodiscard]] std::int64_t rows_per_chunk() const { return chunk_; }

 private:
  [[nodiscard]] kernels::NormShape norm_shape(TokenGrid grid) const;
  void project(const CudaExecution& run, WeightPointers weights, std::int64_t rows,
               const Element* x) const;
  void lose(const CudaExecution& run, const CudaTargets& targets, std::int64_t first,
            std::int64_t rows, bool writes_gradient) const;
  void gather_last(const CudaExecution& run, TokenGrid grid, const std::int32_t* last) const;
  void backward_tokens(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                       GradientPointers gradients, bool adds, const CudaTargets& targets,
                       Element* d_normed) const;
  void backward_sequences(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                          GradientPointers gradients, bool adds, const CudaTargets& targets,
                          Element* d_normed) const;
  void store_chunked_gradient(const CudaExecution& run, void* gradient) const;

  Task task_;
  std::int64_t hidden_;
  bool is_layer_norm_;
  float epsilon_;
  NormPlaces norm_places_;
  LinearPlaces projection_;
  std::int64_t chunk_;
  std::int64_t logit_stride_;  // outputs, up to a multiple of 64: rows begin at 128 bytes
  Element* normed_;            // [tokens, hidden]
  float* mean_;                // [tokens]
  float* inverse_;
  Element* last_;             // [sequences, hidden]
  Element* logits_;           // [chunk, logit_stride]
  kernels::RowLoss* losses_;  // [tokens]
  float* chunked_gradient_;   // [outputs, hidden], of several chunks in bf16; else null
};

}  // namespace zenflow::runtime
