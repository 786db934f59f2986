/// Bytes of activations that zenflow-train's transformers take, for one micro-batch.
///
/// That on a GPU (runtime/model/block.h, head.h, runtime/cuda_model/operations.cpp) keeps less than
/// autograd does in Hugging Face's modules: nothing in fp32 but statistics, no dropout masks, one
/// result of an activation, logits in the element type that become their own gradients. With T
/// tokens, L layers, b bytes of an element, h hidden, q = heads * head_dim, v = kv_heads *
/// head_dim, f intermediate, a heads, s sequences, V outputs of the head up to a multiple of 64:
/// n norms of the stream in a block; p = q + v and r rows of a token where queries and keys have
/// norms, else 0:
///
///   block     T (b ((n + 1) h + 2 q + 2 v + p + m f) + 8 (n + r) + 4 a)
///             m = 3 with a gate, 2 without one
///   kept      (L + 1) T b h + L blocks; with checkpointing one block
///   work      T (b (4 h + max(2 f, 2 q + 2 v)) + 4 a + 16) + s b h + b C V + sums over rows:
///             4 * ceil(T / 64) * max(2 h, q + 2 v, f, and with norms of queries 2 q)
///   C         tokens of a chunk of logits: all of them, unless b T V exceeds `logit_bytes` and, in
///             bf16, the 4 h V bytes that sums over chunks then take in fp32, which are added
///
/// Arrays begin at multiples of 256 bytes, which is not counted: below 4 KiB a layer.
///
/// That on the host (runtime/model/host_operations.cpp) has the same arrays in fp32 containers for
/// any element type, two statistics of attention, and other losses; M is its largest matrix, J the
/// outputs of the head:
///
///   block     4 T ((n + 1) h + 2 q + 2 v + p + m f + 2 (n + r) + 2 a)
///   kept      4 (L + 1) T h + L blocks; with checkpointing one block
///   work      4 T (3 h + 2 q + 2 v + 2 f + 2) + 24 T + 4 (s h + C J) + w M
///             and 4 T h more with norms on both sides of the branches
///   C         min(T, max(64, 2^24 / J)), but s at least
///   w         8 in bf16, where weights and their gradients are widened; in fp32 4 if gradients are
///             added to others, else 0
///
/// Small arrays (rows of norms, scores of a tile of queries for each thread) are not counted.
#pragma once

#include <cstdint>

#include "sim/base/units.h"
#include "sim/config/scenario.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

/// Both are there as long as the model.
struct TrainerActivations {
  Bytes kept;  ///< from forward to backward
  Bytes work;  ///< what one block or the head uses, the logits among it
};

/// On a GPU. `logit_bytes` is CudaTransformerSettings's.
[[nodiscard]] TrainerActivations trainer_activations(const ModelSpec& model,
                                                     const TrainingSettings& training,
                                                     std::int64_t logit_bytes = std::int64_t{1}
                                                                                << 30);

/// On the host. `accumulates`: a step has several micro-batches.
[[nodiscard]] TrainerActivations host_trainer_activations(const ModelSpec& model,
                                                          const TrainingSettings& training,
                                                          bool accumulates);

}  // namespace zenflow::sim
