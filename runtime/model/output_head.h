/// The final norm, the projection to logits, and the loss.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/model/decoder_block.h"
#include "runtime/model/loss.h"

namespace zenflow::runtime {

/// What the outputs are compared with; one of the spans that the task does not use is empty.
struct Targets {
  std::span<const std::int32_t> classes;  ///< [tokens], or of a classification [sequences]
  std::span<const float> values;          ///< of a regression, [sequences]
  std::span<const std::int32_t> last;  ///< of a classification: the last token's place, [sequences]
  double weight = 1.0;  ///< of the batch's mean loss in the step's: gradients are times it
};

class OutputHead {
 public:
  OutputHead(const TransformerConfig& config, const ParameterTable& table, std::int64_t sequences,
             std::int64_t tokens);

  /// From x[tokens, hidden]; returns the loss. Logits of a language model are computed for a few
  /// rows at a time and not kept.
  double forward(const Execution& run, TokenGrid grid, WeightPointers weights,
                 const Targets& targets, const float* x, BlockWorkspace& work);
  /// dx[tokens, hidden] is written. Gradients of the group, and with a tied head of the embedding,
  /// are stored as `run` says.
  void backward(const Execution& run, TokenGrid grid, WeightPointers weights,
                GradientPointers gradients, const Targets& targets, const float* x, float* dx,
                BlockWorkspace& work);

  /// After forward: logits of the last token of every sequence, [sequences, outputs]. `last` holds
  /// the last token's place in each sequence.
  [[nodiscard]] std::vector<float> last_logits(const Execution& run, TokenGrid grid,
                                               WeightPointers weights,
                                               std::span<const std::int32_t> last,
                                               BlockWorkspace& work);
  /// After forward: how many targets counted, and how many of them had the largest logit.
  [[nodiscard]] std::int64_t counted() const { return counted_; }
  [[nodiscard]] std::int64_t correct() const { return correct_; }

 private:
  [[nodiscard]] std::int64_t rows_per_chunk() const;
  void gather_last(TokenGrid grid, std::span<const std::int32_t> last);
  void project(const Execution& run, WeightPointers weights, std::int64_t rows, const float* x,
               BlockWorkspace& work);
  double sum_rows(std::size_t rows);
  double forward_tokens(const Execution& run, TokenGrid grid, WeightPointers weights,
                        const Targets& targets, BlockWorkspace& work);
  double forward_sequences(const Execution& run, TokenGrid grid, WeightPointers weights,
                           const Targets& targets, BlockWorkspace& work);
  void backward_tokens(const Execution& run, TokenGrid grid, WeightPointers weights,
                       GradientPointers gradients, const Targets& targets, BlockWorkspace& work);
  void backward_sequences(const Execution& run, TokenGrid grid, WeightPointers weights,
                          GradientPointers gradients, const Targets& targets, BlockWorkspace& work);

  Task task_;
  NormShape norm_;
  NormPlaces norm_places_;
  LinearPlaces projection_;
  std::vector<float> normed_;  // [tokens, hidden]
  std::vector<float> mean_;    // [tokens]
  std::vector<float> inverse_deviation_;
  std::vector<float> last_;      // [sequences, hidden], of a classification
  std::vector<float> logits_;    // [rows of a chunk, outputs]
  std::vector<RowLoss> losses_;  // [tokens] or [sequences]
  std::int64_t counted_ = 0;
  std::int64_t correct_ = 0;
};

}  // namespace zenflow::runtime
