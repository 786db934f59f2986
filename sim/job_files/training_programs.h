/// Training files of each program, and what it does where they say nothing.
#pragma once

#include <optional>
#include <string>

#include "sim/job_files/training_reader.h"

namespace zenflow::sim {

/// transformers' TrainingArguments, and what TRL's commands take besides.
void read_trainer(TrainingReader& from);
/// What it leaves open, TRL's commands otherwise than transformers' own scripts.
void assume_trainer_defaults(TrainingReader& from);
void read_llama_factory(TrainingReader& from);
void read_axolotl(TrainingReader& from);
void read_swift(TrainingReader& from);

inline constexpr const char* kTrainerDefaults = "transformers 5.23's TrainingArguments";

}  // namespace zenflow::sim
