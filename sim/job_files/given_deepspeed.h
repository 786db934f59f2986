/// What a training file of another program gives to DeepSpeed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/deepspeed/accelerate.h"
#include "sim/deepspeed/ds_document.h"
#include "sim/deepspeed/launch_target.h"
#include "sim/deepspeed/trainer_arguments.h"
#include "sim/job_files/training_file.h"

namespace zenflow::sim {

struct GivenDeepSpeed {
  TrainingProgram program = TrainingProgram::kTrainer;
  std::string key;  ///< under which the program looks for DeepSpeed's: "deepspeed"
  /// Nothing: the file has nothing there, and DeepSpeed is given nothing by it.
  std::optional<DsDocument> document;
  std::optional<std::filesystem::path> file;  ///< that the document is of
  std::string built_in;                       ///< or whose it is: "zero2_offload of ms-swift 4.6"
  LaunchTarget target = LaunchTarget::kHf;
  std::optional<std::int64_t> processes;  ///< of all machines, if the file says it
  std::int64_t machines = 1;
  std::vector<LocatedKey> refused;        ///< by accelerate, beside the file
  std::vector<StatedArgument> arguments;  ///< of Trainer, as far as the file says them
};

/// Files that are named are looked for as read_training_file does; the document's values stand
/// where they are written. Throws Error(kInput), located, for a file that is missing or malformed.
/// Precondition: `root` is a file of `program`, which is not DeepSpeed.
[[nodiscard]] GivenDeepSpeed given_deepspeed(const Node& root, TrainingProgram program,
                                             const std::filesystem::path& file);

}  // namespace zenflow::sim
