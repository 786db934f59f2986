/// One decoder layer, forward and backward:
///   x = x + after(attention(before(x))),  x = x + after(feed_forward(before(x)))
/// with norms before the branches (Llama, GPT-2), after them (OLMo 2) or both (Gemma 2).
///
/// The sums of residuals are part of the norms next to them. Without norms after the branches a
/// block leaves its output as two parts, `middle` and `delta`, which the norm of whoever comes next
/// adds up; with them it adds the last norm to `middle` and leaves the stream whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/model/arena.h"
#include "runtime/model/operations.h"
#include "runtime/model/transformer.h"

namespace zenflow::runtime {

/// Of a norm, [rows] each.
struct NormStatistics {
  float* mean = nullptr;
  float* inverse = nullptr;
};

/// What forward keeps for backward, for at most `tokens` tokens. Bytes per token, with b bytes of
/// an element and n norms of the stream: b ((n + 1) h + 2 q + 2 v + 2 f) and b f more with a gate,
/// for middle, normed, normed_middle, attended, fed, qkv, attention, gate, activated and up; 8 n
/// for the norms' statistics and 4 a for each of attention's (h hidden, q = heads * head_dim, v =
/// kv_heads * head_dim, f intermediate, a heads). With norms of queries and keys, of r rows a
/// token, b (q + v) + 8 r more. The input, b h more, is the caller's.
template <class Element>
struct BlockActivations {
  BlockActivations(const BlockLayout& layout, std::int64_t tokens, const OperationMemory& memory,
                   Arena& arena);

  Element* normed;         ///< [tokens, hidden]; null without a norm before, as below
  Element* raw_qk;         ///< [tokens, qk_columns()], before their norms; null without
  Element* qkv;            ///< [tokens, (heads + 2 kv_heads) * head_dim]
  Element* attention;      ///< [tokens, heads * head_dim]
  Element* attended;       ///< [tokens, hidden], before the norm after attention; or null
  Element* middle;         ///< [tokens, hidden], after attention
  Element* normed_middle;  ///< [tokens, hidden]
  Element* gate;           ///< [tokens, intermediate], before the activation
  Element* up;             ///< the same; null without a gate
  Element* activated;      ///< [tokens, intermediate]
  Element* fed;            ///< [tokens, hidden], before the norm after it; or null
  std::array<NormStatistics, 2> before;
  std::array<NormStatistics, 2> after;
  std::vector<NormStatistics> qk;  ///< [tokens * rows]
  float* lse;                      ///< [tokens, heads], or several of those
};

/// What only lives while a block runs; shared by all blocks.
template <class Element>
struct BlockWorkspace {
  BlockWorkspace(const BlockLayout& layout, std::int64_t tokens, const OperationMemory& memory,
                 Arena& arena);

  /// [tokens, hidden]: what is still to be added to the stream, or with norms after the branches
  /// the gradient by what they take.
  Element* delta;
  Element* hidden;         ///< [tokens, hidden], a gradient
  float* attention_delta;  ///< [tokens, heads], if attention wants it
  std::byte* scratch;
  Element* d_activated;  ///< [tokens, intermediate]
  Element* d_gate;       ///< [tokens, intermediate]
  Element* d_attention;  ///< [tokens, heads * head_dim]; may share memory with those two
  Element* d_qkv;
};

/// What a pass is over.
struct Pass {
  const BatchView& batch;
  WeightPointers weights;
  double gradient_scale = 1.0;            ///< of the losses of single targets
  bool trains = true;                     ///< backward follows
  bool adds = false;                      ///< to the gradients that are there
  kernels::RotaryAngles angles{};         ///< null with learned positions
  kernels::RotaryAngles window_angles{};  ///< of TransformerConfig::window_rotary

  [[nodiscard]] std::int64_t tokens() const { return batch.tokens(); }
};

/// What a norm reads: x, or x + delta, which it then stores at `sum`.
template <class Element>
struct ResidualStream {
  const Element* x;
  const Element* delta;  ///< null: none
  Element* sum;
};

/// Which rows a norm is over.
struct NormRows {
  std::int64_t columns;
  std::int64_t per_token = 1;
  std::int64_t x_stride = 0;  ///< NormShape's, as below
  std::int64_t y_stride = 0;
};

/// A norm with its places in the table, for blocks and the head.
template <class Element>
class Norm {
 public:
  Norm(const NormSettings& settings, const NormPlaces& places, NormRows rows)
      : places_(places), rows_(rows), settings_(settings) {}

  /// y = norm(x + delta), and with a residual that + norm.
  void forward(Operations<Element>& run, const Pass& pass, const ResidualStream<Element>& in,
               Element* y, NormStatistics kept, const Element* residual = nullptr) const;
  /// dx = or, with `adds_to_dx`, += the gradient by x; and those of weight and bias.
  void backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                const kernels::NormBackward<Element>& values) const;

 private:
  [[nodiscard]] kernels::NormShape shape(const Pass& pass) const;

  NormPlaces places_;
  NormRows rows_;
  NormSettings settings_;
};

template <class Element>
class Block {
 public:
  Block(const TransformerConfig& config, const ParameterTable& table, std::int64_t layer);

  [[nodiscard]] const BlockLayout& layout() const { return layout_; }

  /// From `in`, which it leaves as one array at in.sum (or in.x), to kept.middle and work.delta, or
  /// with norms after the branches to `out`. Null: what is kept is computed again, and no more.
  void forward(Operations<Element>& run, const Pass& pass, const ResidualStream<Element>& in,
               const BlockActivations<Element>& kept, const BlockWorkspace<Element>& work,
               Element* out) const;
  /// x: the block's input. dx: on entry the gradient by the output, on return that by x.
  void backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                const Element* x, Element* dx, const BlockActivations<Element>& kept,
                const BlockWorkspace<Element>& work) const;

 private:
  using OptionalNorm = std::optional<Norm<Element>>;
  /// What backward of a branch takes and gives.
  struct BranchGradient {
    const Element* input;
    const Element* by_output;
    Element* by_input;
    bool adds;  ///< to by_input
  };

  [[nodiscard]] kernels::AttentionShape attention_shape(const Pass& pass) const;
  void rotate(Operations<Element>& run, const Pass& pass, kernels::RotaryDirection direction,
              Element* qkv) const;
  void project_qkv(Operations<Element>& run, const Pass& pass, const Element* input,
                   const BlockActivations<Element>& kept) const;
  void attention_forward(Operations<Element>& run, const Pass& pass, const Element* input,
                         const BlockActivations<Element>& kept,
                         const BlockWorkspace<Element>& work) const;
  void feed_forward(Operations<Element>& run, const Pass& pass, const Element* input,
                    const BlockActivations<Element>& kept) const;
  void feed_forward_gradients(Operations<Element>& run, const Pass& pass,
                              GradientPointers gradients, const BranchGradient& branch,
                              const BlockActivations<Element>& kept,
                              const BlockWorkspace<Element>& work) const;
  void attention_gradients(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                           const BranchGradient& branch, const BlockActivations<Element>& kept,
                           const BlockWorkspace<Element>& work) const;

  BlockLayout layout_;
  std::array<OptionalNorm, 2> before_;
  std::array<OptionalNorm, 2> after_;
  std::vector<Norm<Element>> qk_norms_;
  kernels::ActivationFunction activation_;
};

}  // namespace zenflow::runtime
