/// Keys of training files, by the names that their programs know.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/job_files/training_file.h"

namespace zenflow::sim {

/// Throws Error(kInput) for a file of a program that is not known here: torchtune's by its name.
void refuse_other_programs(const Node& root);

/// Names in `notes` each key with a value that the program does not have, with the nearest that it
/// has. Throws Error(kInput), located, if most keys are of that kind, and for one that is nearly
/// the name of a key that decides a step, if its program would stop there, too.
void check_keys(const Node& root, TrainingProgram program, const std::filesystem::path& file,
                std::vector<std::string>& notes);

}  // namespace zenflow::sim
