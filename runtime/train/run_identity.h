/// What a checkpoint must have in common with the run that goes on from it.
#pragma once

#include <string>

#include "runtime/train/trainer.h"

namespace zenflow::runtime {

/// One "key: value" line for each thing that decides which numbers come out. The number of steps,
/// threads and evaluations are not among them: a resumed run may change those.
[[nodiscard]] std::string run_identity(const TrainOptions& options, const TransformerConfig& config,
                                       const ParameterTable& table, const Fingerprint& data);

/// Throws Error(kInput) that names the lines in which they differ.
void check_identity(const std::string& saved, const std::string& here,
                    const std::filesystem::path& checkpoint);

}  // namespace zenflow::runtime
