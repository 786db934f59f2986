/// Training files of each program, and what it does where they say nothing.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "sim/job_files/training_reader.h"

namespace zenflow::sim {

/// transformers' TrainingArguments, and what TRL's commands take besides.
void read_trainer(TrainingReader& from);
/// What it leaves open, TRL's commands otherwise than transformers' own scripts.
void assume_trainer_defaults(TrainingReader& from);
/// accelerate's configuration of TRL's commands, and its file: one that TRL brings along by its
/// name, or one that `named` is the path of. Throws Error(kInput), located, if there is no such.
[[nodiscard]] std::pair<Node, std::filesystem::path> trl_accelerate_config(
    const TrainingReader& from, const ValueReader& named);
void read_llama_factory(TrainingReader& from);
void read_axolotl(TrainingReader& from);
void read_swift(TrainingReader& from);
/// The configurations that ms-swift brings along, as far as they decide how a step runs.
[[nodiscard]] std::optional<std::string> swift_deepspeed(const std::string& name);

inline constexpr const char* kTrainerDefaults = "transformers 5.23's TrainingArguments";

}  // namespace zenflow::sim
