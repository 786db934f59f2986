/// Flags that describe a job in place of a scenario.
#pragma once

#include <string>
#include <vector>

#include "sim/job_files/job_inputs.h"

namespace CLI {
class App;
}

namespace zenflow::tools {

/// What --help has these flags under.
inline constexpr const char* kJobGroup = "Job, in place of a scenario";

void add_job_options(CLI::App& command, sim::JobInputs& job);

/// The job as a scenario. Looks at this machine for `--host this`.
[[nodiscard]] sim::JobScenario assemble_job(const sim::JobInputs& job,
                                            const std::vector<sim::Override>& overrides);
/// What its user should know: choices among what flags may mean, and facts that are estimates; a
/// line each.
[[nodiscard]] std::vector<std::string> assembly_notes(const sim::JobScenario& scenario);

}  // namespace zenflow::tools
