/// One decoder layer of either family, forward and backward:
///   x = x + attention(norm(x)),  x = x + feed_forward(norm(x))
///
/// The sums of residuals are part of the norms that follow them: a block leaves its output as two
/// parts, `middle` and `delta`, which the norm of whoever comes next adds up.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "runtime/model/arena.h"
#include "runtime/model/operations.h"
#include "runtime/model/transformer.h"

namespace zenflow::runtime {

/// What forward keeps for backward, for at most `tokens` tokens. Bytes per token, with b bytes of
/// an element: b (3 h + 2 q + 2 v + 2 f) and b f more with a gate, for normed, middle,
/// normed_middle, qkv, attention, gate, activated and up; 16 for the norms' statistics and 4 a for
/// each of attention's (h hidden, q = heads * head_dim, v = kv_heads * head_dim, f intermediate, a
/// heads). The input, b h more, is the caller's.
template <class Element>
struct BlockActivations {
  BlockActivations(const TransformerConfig& config, std::int64_t tokens,
                   const OperationMemory& memory, Arena& arena);

  Element* normed;                ///< [tokens, hidden]
  Element* qkv;                   ///< [tokens, (heads + 2 kv_heads) * head_dim]
  Element* attention;             ///< [tokens, heads * head_dim]
  Element* middle;                ///< [tokens, hidden], after attention
  Element* normed_middle;         ///< [tokens, hidden]
  Element* gate;                  ///< [tokens, intermediate], before the activation
  Element* up;                    ///< the same; null without a gate
  Element* activated;             ///< [tokens, intermediate]
  std::array<float*, 2> mean;     ///< [tokens], of both norms
  std::array<float*, 2> inverse;  ///< [tokens]
  float* lse;                     ///< [tokens, heads], or several of those
};

/// What only lives while a block runs; shared by all blocks.
template <class Element>
struct BlockWorkspace {
  BlockWorkspace(const TransformerConfig& config, std::int64_t tokens,
                 const OperationMemory& memory, Arena& arena);

  Element* delta;          ///< [tokens, hidden]: what is still to be added to the stream
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
  double gradient_scale = 1.0;     ///< of the losses of single targets
  bool trains = true;              ///< backward follows
  bool adds = false;               ///< to the gradients that are there
  kernels::RotaryAngles angles{};  ///< null with learned positions

  [[nodiscard]] std::int64_t tokens() const { return batch.tokens(); }
};

/// What a norm reads: x, or x + delta, which it then stores at `sum`.
template <class Element>
struct ResidualStream {
  const Element* x;
  const Element* delta;  ///< null: none
  Element* sum;
};

/// A norm with its places in the table, for blocks and the head.
template <class Element>
class Norm {
 public:
  Norm(const TransformerConfig& config, const NormPlaces& places)
      : places_(places),
        columns_(as_size(config.model.hidden)),
        is_layer_norm_(!config.is_llama_like()),
        epsilon_(static_cast<float>(config.norm_epsilon)) {}

  void forward(Operations<Element>& run, const Pass& pass, const ResidualStream<Element>& in,
               Element* y, float* mean, float* inverse) const;
  /// dx = or, with `adds_to_dx`, += the gradient by x; and those of weight and bias.
  void backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                const kernels::NormBackward<Element>& values) const;

 private:
  [[nodiscard]] kernels::NormShape shape(const Pass& pass) const {
    return {as_size(pass.tokens()), columns_, is_layer_norm_, epsilon_};
  }

  NormPlaces places_;
  std::size_t columns_;
  bool is_layer_norm_;
  float epsilon_;
};

template <class Element>
class Block {
 public:
  Block(const TransformerConfig& config, const ParameterTable& table, std::int64_t layer);

  /// From `in`, which it leaves as one array at in.sum (or in.x), to kept.middle and, unless
  /// `recomputes`, work.delta.
  void forward(Operations<Element>& run, const Pass& pass, const ResidualStream<Element>& in,
               const BlockActivations<Element>& kept, const BlockWorkspace<Element>& work,
               bool recomputes) const;
  /// x: the block's input. dx: on entry the gradient by the output, on return that by x.
  void backward(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                const Element* x, Element* dx, const BlockActivations<Element>& kept,
                const BlockWorkspace<Element>& work) const;

 private:
  [[nodiscard]] kernels::AttentionShape attention_shape(const Pass& pass) const;
  void rotate(Operations<Element>& run, const Pass& pass, kernels::RotaryDirection direction,
              Element* qkv) const;
  void attention_forward(Operations<Element>& run, const Pass& pass,
                         const BlockActivations<Element>& kept,
                         const BlockWorkspace<Element>& work) const;
  void feed_forward(Operations<Element>& run, const Pass& pass,
                    const BlockActivations<Element>& kept) const;
  void feed_forward_gradients(Operations<Element>& run, const Pass& pass,
                              GradientPointers gradients, const Element* dx,
                              const BlockActivations<Element>& kept,
                              const BlockWorkspace<Element>& work) const;
  void attention_gradients(Operations<Element>& run, const Pass& pass, GradientPointers gradients,
                           const Element* dx, const BlockActivations<Element>& kept,
                           const BlockWorkspace<Element>& work) const;

  BlockLayout layout_;
  std::array<Norm<Element>, 2> norms_;
  bool is_rotary_;
  kernels::ActivationFunction activation_;
};

}  // namespace zenflow::runtime
