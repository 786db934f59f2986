/// One decoder layer on the device, forward and backward: the operations of
/// runtime/model/decoder_block.h, with the sums of residuals fused into the norms that follow them.
///
/// A block leaves its output as two parts, `middle` and `delta`; the norm of whoever comes next
/// adds them up. What each operation rounds is as on the host (runtime/model/numerics.h).
#pragma once

#include <array>
#include <cstdint>

#include "kernels/activation/activation.h"
#include "kernels/attention/attention.h"
#include "kernels/norm/norm.h"
#include "kernels/rotary/rotary.h"
#include "runtime/cuda_model/arena.h"
#include "runtime/cuda_model/linear.h"
#include "runtime/model/block_layout.h"

namespace zenflow::runtime {

/// What forward keeps for backward, for at most `tokens` tokens. Bytes per token, with b bytes of
/// an element: b (3 h + 2 q + 2 v + 2 f) and b f more with a gate, for normed, middle,
/// normed_middle, qkv, attention, gate, activated and up; 16 for the norms' statistics and 4 a for
/// the log-sum-exp (h hidden, q = heads * head_dim, v = kv_heads * head_dim, f intermediate, a
/// heads). The input, b h more, is the caller's.
template <class Element>
struct CudaBlockActivations {
  CudaBlockActivations(const TransformerConfig& config, std::int64_t tokens, Arena& arena);

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
  float* lse;                     ///< [tokens, heads]
};

/// What only lives while a block runs; shared by all blocks.
template <class Element>
struct CudaWorkspace {
  CudaWorkspace(const TransformerConfig& config, std::int64_t tokens, Arena& arena);

  Element* delta;        ///< [tokens, hidden]: what is still to be added to the stream
  Element* hidden;       ///< [tokens, hidden]
  Element* d_activated;  ///< [tokens, intermediate]
  Element* d_gate;       ///< [tokens, intermediate]
  Element* d_attention;  ///< [tokens, heads * head_dim]; these two share memory with those two
  Element* d_qkv;
  float* attention_delta;  ///< [tokens, heads]
  std::byte* scratch;      ///< for sums over rows
};

/// What a norm reads: x, or x + delta, which it then stores at `sum`.
template <class Element>
struct ResidualStream {
  const Element* x;
  const Element* delta;  ///< null: none
  Element* sum;
};

/// Norms with stored weights, for blocks and the head.
template <class Element>
void cuda_norm_forward(const CudaExecution& run, const kernels::NormShape& shape,
                       const NormPlaces& places, WeightPointers weights,
                       const ResidualStream<Element>& in, Element* y, float* mean, float* inverse);
/// dx = or += the gradient by x; the gradients of weight and bias are written or added to.
template <class Element>
struct CudaNormBackward {
  const Element* x;
  const float* mean;
  const float* inverse;
  const Element* dy;
  Element* dx;
  bool adds_to_dx;
  bool adds_to_gradients;
};
template <class Element>
void cuda_norm_backward(const CudaExecution& run, const kernels::NormShape& shape,
                        const NormPlaces& places, WeightPointers weights,
                        GradientPointers gradients, const CudaNormBackward<Element>& values);

template <class Element>
class CudaBlock {
 public:
  CudaBlock(const TransformerConfig& config, const ParameterTable& table, std::int64_t layer);

  /// From `in`, which it leaves as one array at in.sum (or in.x), to kept.middle and, unless
  /// `recomputes`, work.delta.
  void forward(const CudaExecution& run, TokenGrid grid, kernels::RotaryAngles angles,
               WeightPointers weights, const ResidualStream<Element>& in,
               const CudaBlockActivations<Element>& kept, const CudaWorkspace<Element>& work,
               bool recomputes) const;
  /// x: the block's input. dx: on entry the gradient by the output, on return that by x.
  void backward(const CudaExecution& run, TokenGrid grid, kernels::RotaryAngles angles,
                WeightPointers weights, GradientPointers gradients, bool adds, const Element* x,
                Element* dx, const CudaBlockActivations<Element>& kept,
                const CudaWorkspace<Element>& work) const;

 private:
  [[nodiscard]] kernels::AttentionShape attention_shape(TokenGrid grid) const;
  [[nodiscard]] kernels::RotaryShape rotary_shape(TokenGrid grid) const;
  [[nodiscard]] kernels::NormShape norm_shape(TokenGrid grid) const;
  void attention_forward(const CudaExecution& run, TokenGrid grid, kernels::RotaryAngles angles,
                         WeightPointers weights, const CudaBlockActivations<Element>& kept,
                         const CudaWorkspace<Element>& work) const;
  void feed_forward(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                    const CudaBlockActivations<Element>& kept) const;
  void feed_forward_gradients(const CudaExecution& run, TokenGrid grid, WeightPointers weights,
                              GradientPointers gradients, bool adds, const Element* dx,
                              const CudaBlockActivations<Element>& kept,
                              const CudaWorkspace<Element>& work) const;
  void attention_gradients(const CudaExecution& run, TokenGrid grid, kernels::RotaryAngles angles,
                           WeightPointers weights, GradientPointers gradients, bool adds,
                           const Element* dx, const CudaBlockActivations<Element>& kept,
                           const CudaWorkspace<Element>& work) const;

  BlockLayout layout_;
  bool is_llama_like_;
  float epsilon_;
  kernels::ActivationFunction activation_;
};

}  // namespace zenflow::runtime
