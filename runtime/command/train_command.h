/// The command of zenflow-train that does what was tuned.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sim/tune/tuned_answer.h"

namespace zenflow::runtime {

/// One line for a POSIX shell, to be run in `folder` (without one, here). `model`: the config.json;
/// else the scenario's. Where zenflow-train cannot do what was chosen it says why and ends with 1:
/// a command that trains something else would be taken for the tuned one.
[[nodiscard]] std::string train_command(const sim::TuneAnswer& answer,
                                        const std::optional<std::filesystem::path>& model,
                                        const std::optional<std::filesystem::path>& folder);

}  // namespace zenflow::runtime
