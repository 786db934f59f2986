/// What of a model is trained where it depends on the model: parts for images and sound, and
/// experts.
#pragma once

#include "sim/job_files/job_facts.h"
#include "sim/model/model_spec.h"

namespace zenflow::sim {

/// Facts that are no keys of a scenario. Encoders of images and sound, and what projects from them,
/// are not trained.
inline constexpr const char* kTowersFrozen = "training.towers_frozen";
/// "All linear" modules are those that the program finds in the model and names to PEFT: not the
/// stacks of experts, which PEFT's own "all-linear" means too.
inline constexpr const char* kLinearByName = "training.linear_by_name";

/// Takes both away, and states what they mean for this model: training.freeze, and other targets of
/// LoRA if they are all linear ones.
void settle_adapted_modules(const ModelSpec& model, JobFacts& facts);

}  // namespace zenflow::sim
