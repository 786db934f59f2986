/// A model that no row knows, from the shapes of its weights.
#pragma once

#include <string>

#include "sim/config/document.h"
#include "sim/config/hub/model_files.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim::hub {

/// Tensors and their number are those of the files. What is computed with them is estimated:
/// ModelSpec::estimate says so, and what was assumed.
///
/// `config`: of an unknown model_type, whose usual keys are taken (num_attention_heads, head_dim,
/// num_experts_per_tok, ...); or null.
/// Throws Error(kInput) "WEIGHTS: ..." if there are no layers, if their numbers have holes, or if
/// the weights are quantised.
[[nodiscard]] ModelSpec read_weight_model(const Node& config, const ModelWeights& weights,
                                          const std::string& name);

}  // namespace zenflow::sim::hub
