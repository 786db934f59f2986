/// A model as the simulator's live schedules see it.
#pragma once

#include "runtime/model_config/transformer_config.h"
#include "sim/model/model_spec.h"

namespace zenflow::runtime {

/// A classification's head is that of a language model with as many words as there are labels.
[[nodiscard]] sim::ModelSpec simulated_model(const TransformerConfig& config);

}  // namespace zenflow::runtime
