/// Runs a command with variables added to its environment, passing signals on.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace zenflow::tools {

/// Runs `command` (looked up in PATH) to its end, with this program's streams. SIGTERM and SIGINT
/// that somebody sends to this program are sent on; those of a terminal the command gets anyway.
/// Returns its exit code, or 128 + the number of the signal that ended it.
/// Throws Error(kInput) if it cannot be started.
[[nodiscard]] int run_traced(const std::vector<std::string>& command,
                             const std::vector<std::pair<std::string, std::string>>& variables);

}  // namespace zenflow::tools
