/// Bytes that the forward pass keeps for the backward pass, per token.
///
/// Counted from what autograd saves in Hugging Face's modules with fused attention; b bytes
/// of an element, h hidden, q = heads * head_dim, v = kv_heads * head_dim, f intermediate,
/// V vocabulary, a heads.
///
///   gated block     2 (4 h + 2 b h) + b (2 q + 2 v) + 4 a + 4 b f
///                   (RMSNorm's fp32 input and two narrow outputs, twice; q k v o; the
///                   log-sum-exp; gate, up, silu(gate) and their product)
///   GPT-2 block     4 b h + 2 h + b (2 q + 2 v) + 4 a + 5 b f   (dropout masks; GELU keeps x,
///                   x/2, tanh, 1 + tanh and their product)
///   OPT block       4 b h + 2 h + b (2 q + 2 v) + 4 a +   b f   (ReLU keeps its output)
///   checkpointed    b h for a block; the block under recomputation needs all of the above
///   head            its final norm's input and result, with the logits
///   logits          4 V after the forward pass, the log-softmax in fp32: the logits in b and in 4
///                   bytes are gone when the model has returned its loss. In its backward 8 V more:
///                   the loss's gradient of it, and the softmax's. Masked language models and
///                   encoder-decoders do not cast their logits: b in place of 4
///   windows         not longer than the sequence: 2 b (q - v), keys and values repeated for all
///                   heads, and a mask of b bytes a pair of a query and a key
///
/// Check: with a fused GELU (2 b f in place of 5 b f) and f = 4 h, b = 2, the GPT-2 line gives the
/// 34 h bytes a token of Korthikanti et al. 2022 (eq. 2 without its attention scores).
#pragma once

#include <vector>

#include "sim/base/units.h"
#include "sim/config/scenario.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

struct ActivationMemory {
  std::vector<Bytes> layer;       ///< kept of a layer of each kind until its backward pass
  std::vector<Bytes> recomputed;  ///< extra while one is recomputed and run backward
  Bytes embedding;                ///< of its norm and dropout, if it has them
  Bytes logits_forward;
  Bytes logits_backward;  ///< additional
};

/// For one micro-batch on one GPU.
[[nodiscard]] ActivationMemory activation_memory(const ModelSpec& model,
                                                 const TrainingSettings& training);

}  // namespace zenflow::sim
