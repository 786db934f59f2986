/// What a layer computes and keeps, guessed from the names and shapes of its weights.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/model/model_spec.h"

namespace zenflow::sim::hub {

/// A tensor of a layer: "self_attn.q_proj.weight", [4096, 4096].
struct LayerTensor {
  std::string name;
  std::vector<std::int64_t> shape;
};

/// What is known of a stack of layers besides their weights; 0: nothing.
struct StackFacts {
  std::int64_t width = 0;  ///< elements a token of the stream
  std::int64_t heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t experts_per_token = 0;
  bool causal = true;
  bool rotary = true;  ///< positions are no learnt table
};

/// What was taken without a source, for the sentence that says so.
struct Assumptions {
  std::set<std::int64_t> head_dims;
  std::set<std::pair<std::int64_t, std::int64_t>> experts;  ///< how many of how many
  bool without_attention = false;                           ///< in some layer none was recognised
};

/// The layer with all of `tensors`, named below `prefix` ("model.layers.{}.").
///
/// Matrices are products, [out, in] as torch.nn.Linear's. Attention is found by its projections'
/// names (q_proj, query, c_attn, qkv_proj, ...), a gated MLP by its shapes: twice as many columns
/// up as down. Experts, stacked or one by one, see their share of the tokens. Norms are vectors
/// called so, one before attention, one before the MLP, and others before sums. What is kept is
/// that of eager modules, as layer_builder.h has it.
[[nodiscard]] Layer estimate_layer(const std::string& prefix, std::vector<LayerTensor> tensors,
                                   const StackFacts& facts, Assumptions& assumptions);

}  // namespace zenflow::sim::hub
