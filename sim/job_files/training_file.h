/// A job's own file, of whichever program it is, into facts.
///
/// Sources: DeepSpeed 0.19; accelerate 1.15 (utils/dataclasses.py); transformers 5.23
/// (training_args.py); TRL 1.16 (trainer/sft_config.py, model_config.py); LLaMA-Factory 0.9.5
/// (hparams/); axolotl 0.19 (utils/schemas/); ms-swift 4.6 (arguments/, trainers/arguments.py,
/// config/).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/job_files/job_facts.h"

namespace zenflow::sim {

enum class TrainingProgram : std::uint8_t {
  kDeepSpeed,
  kAccelerate,
  kTrainer,
  kLlamaFactory,
  kAxolotl,
  kSwift,
};
/// "LLaMA-Factory"
[[nodiscard]] std::string to_string(TrainingProgram program);

/// Whose file it is by its keys; nothing if it has none of theirs.
[[nodiscard]] std::optional<TrainingProgram> recognise_training_file(const Node& root);

/// Adds what the file says, and then what its program does where it says nothing. `model` is what
/// the file calls it, a path or a Hub name. A file that it names is looked for beside the current
/// folder's files, then beside the file itself. Throws Error(kInput), located, for a file that is
/// none of these, for values of the wrong type, and for what cannot be simulated (another adapter
/// than LoRA).
/// What is simulated otherwise than the file says goes to `notes`.
TrainingProgram read_training_file(const std::filesystem::path& file, JobFacts& facts,
                                   std::vector<std::string>& notes);
/// The same of its text.
TrainingProgram read_training_text(std::string_view text, const std::filesystem::path& file,
                                   JobFacts& facts, std::vector<std::string>& notes);

}  // namespace zenflow::sim
