/// One decoder layer of either family, forward and backward:
///   x = x + attention(norm(x)),  x = x + feed_forward(norm(x))
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/model/attention.h"
#include "runtime/model/block_layout.h"
#include "runtime/model/linear.h"
#include "runtime/model/norm.h"
#include "runtime/model/rotary.h"
#include "runtime/model_config/transformer_config.h"

namespace zenflow::runtime {

/// The weights, or the gradients, of a whole table, by the parameter's place in it.
using WeightPointers = std::span<const void* const>;
using GradientPointers = std::span<void* const>;

/// What forward keeps for backward, for at most `tokens` tokens.
struct BlockActivations {
  BlockActivations(const TransformerConfig& config, std::int64_t tokens);

  std::vector<float> normed;               // [tokens, hidden]
  std::vector<float> qkv;                  // [tokens, (heads + 2 kv_heads) * head_dim]
  std::vector<float> attention;            // [tokens, heads * head_dim]
  std::vector<float> middle;               // [tokens, hidden], after attention
  std::vector<float> normed_middle;        // [tokens, hidden]
  std::vector<float> gate;                 // [tokens, intermediate], before the activation
  std::vector<float> up;                   // the same; empty without a gate
  std::vector<float> activated;            // [tokens, intermediate]
  std::array<std::vector<float>, 2> mean;  // [tokens], of both norms
  std::array<std::vector<float>, 2> inverse_deviation;  // [tokens]
  std::vector<float> maximum;                           // [tokens, heads]
  std::vector<float> inverse_sum;
};

/// What only lives while a block runs; shared by all blocks.
struct BlockWorkspace {
  BlockWorkspace(const TransformerConfig& config, std::int64_t tokens);

  LinearScratch linear;
  AttentionScratch attention;
  std::vector<float> norm_weight;
  std::vector<float> norm_bias;
  std::vector<float> d_norm_weight;
  std::vector<float> d_norm_bias;
  std::vector<float> hidden;       // [tokens, hidden]
  std::vector<float> d_activated;  // [tokens, intermediate]
  std::vector<float> d_gate;       // [tokens, intermediate]
  std::vector<float> d_attention;  // [tokens, heads * head_dim]
  std::vector<float> d_qkv;
};

/// Norms with weights of any element type, for blocks and the head.
void stored_norm_forward(const Execution& run, NormShape shape, NormPlaces places,
                         WeightPointers weights, std::int64_t rows, const float* x, float* y,
                         NormStatistics statistics, BlockWorkspace& work);
void stored_norm_backward(const Execution& run, NormShape shape, NormPlaces places,
                          WeightPointers weights, GradientPointers gradients, std::int64_t rows,
                          const float* x, NormStatistics statistics, const float* dy, float* dx,
                          BlockWorkspace& work);

[[nodiscard]] NormShape norm_shape(const TransformerConfig& config);

/// Which tokens there are.
struct TokenGrid {
  std::int64_t sequences;
  std::int64_t length;
  [[nodiscard]] std::int64_t tokens() const { return sequences * length; }
};

class DecoderBlock {
 public:
  DecoderBlock(const TransformerConfig& config, const ParameterTable& table, std::int64_t layer);

  /// y[tokens, hidden] from x; x is needed again in backward.
  void forward(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
               WeightPointers weights, const float* x, float* y, BlockActivations& kept,
               BlockWorkspace& work) const;
  /// dx: on entry the gradient by y, on return that by x.
  void backward(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
                WeightPointers weights, GradientPointers gradients, const float* x, float* dx,
                BlockActivations& kept, BlockWorkspace& work) const;

 private:
  [[nodiscard]] AttentionShape attention_shape(TokenGrid grid) const;
  void attention_gradients(const Execution& run, TokenGrid grid, const RotaryTable& rotary,
                           WeightPointers weights, GradientPointers gradients, const float* dx,
                           BlockActivations& kept, BlockWorkspace& work) const;
  void feed_forward_gradients(const Execution& run, TokenGrid grid, WeightPointers weights,
                              GradientPointers gradients, const float* dx, BlockActivations& kept,
                              BlockWorkspace& work) const;

  BlockLayout layout_;
  bool is_rotary_;
  Activation activation_;
  NormShape norm_;
};

}  // namespace zenflow::runtime
