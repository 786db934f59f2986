/// A simulated run as a Timeline, and its tasks' names.
#pragma once

#include <string>

#include "sim/simulate/simulation.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// "forward block 3", "Memcpy DtoH (Device -> Pinned)", "cpu_update bucket 7".
[[nodiscard]] std::string task_name(const Job& job, const TaskLabel& label);

[[nodiscard]] Timeline simulated_timeline(const Job& job, const std::string& schedule,
                                          const FullRun& run);

}  // namespace zenflow::sim
