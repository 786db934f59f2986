/// What a checkpoint must have in common with the run that goes on from it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/train/trainer.h"

namespace zenflow::runtime {

/// One "key: value" line for each thing that decides which numbers come out. The number of steps,
/// threads and evaluations are not among them: a resumed run may change those.
[[nodiscard]] std::string run_identity(const TrainOptions& options, const TransformerConfig& config,
                                       const ParameterTable& table, const Fingerprint& data);

/// A line of which two such texts say something else.
struct Difference {
  std::string key;
  std::string there;
  std::string here;
};
[[nodiscard]] std::vector<Difference> differences(const std::string& there,
                                                  const std::string& here);

/// Throws Error(kInput) that names the lines in which they differ.
void check_identity(const std::string& saved, const std::string& here,
                    const std::filesystem::path& checkpoint);
/// The same of rank 0's text and this rank's.
void check_same_training(const std::string& first, const std::string& here);

}  // namespace zenflow::runtime
