/// Keys of training files that change a step, and are not simulated as they say.
#pragma once

#include <string>
#include <vector>

#include "sim/job_files/job_facts.h"
#include "sim/job_files/training_file.h"

namespace zenflow::sim {

/// Facts that are no keys of a scenario: JobScenario::narrow_weights, no_logits.
inline constexpr const char* kNarrowWeights = "training.narrow_weights";
inline constexpr const char* kWithoutLogits = "training.without_logits";

/// Throws Error(kInput), located, for what would make another job: one that is divided otherwise,
/// or that trains other parameters.
void refuse_unsimulated(const Node& root, TrainingProgram program, const JobFacts& facts);

/// The same of a DeepSpeed configuration: tensor and sequence parallelism.
void refuse_divided(const Node& deepspeed);

/// What a user should know of the others, each with its place. States what of them a scenario can
/// say. Precondition: the file has been read into `facts`.
void note_unsimulated(const Node& root, TrainingProgram program, JobFacts& facts,
                      std::vector<std::string>& notes);

}  // namespace zenflow::sim
