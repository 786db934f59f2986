/// Rotary positions as config.json says them: "rope_theta" and "rope_scaling" until transformers 4,
/// "rope_parameters" from 5 on, for some families by the kind of a layer's attention.
#pragma once

#include "runtime/model_config/transformer_config.h"
#include "sim/config/reader.h"

namespace zenflow::runtime {

/// What Hugging Face's class of a family takes where the file says nothing.
struct RotaryDefaults {
  double theta = 10000.0;
  /// Layers with a window have settings of their own; 0: they do not.
  double window_theta = 0.0;
  /// Phi3Config: a part of a head may turn, scaling "yarn" and "su" mean "longrope", and so many
  /// original positions. 0: another family.
  double phi_positions = 0.0;
};

/// Sets `rotary`, `window_rotary` and `rotary_columns`. Throws Error(kInput) at a value for another
/// scaling than linear, llama3, yarn and longrope, and for columns that do not pair.
void read_rotary(MapReader& config, const RotaryDefaults& defaults, TransformerConfig& out);

}  // namespace zenflow::runtime
