/// Why a step takes as long as it does, and what would make it shorter.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate/simulation.h"

namespace zenflow::sim {

/// A resource of the machine that can be made faster on paper.
enum class Resource : std::uint8_t { kGpu, kHostLink, kCpuOptimizer, kDram, kGpuLink, kNvme };
[[nodiscard]] std::string to_string(Resource resource);

/// The machine with one resource `factor` times as fast. Precondition: factor > 0.
[[nodiscard]] HardwareProfile scaled(HardwareProfile hardware, Resource resource, double factor);

struct WhatIf {
  Resource resource;
  double step_time = 0;  ///< picoseconds, with the resource twice as fast
};

/// Part of the chain that decides a window's length.
struct PathShare {
  std::string what;  ///< "cpu_update"
  double time = 0;   ///< picoseconds a step
};

struct Explanation {
  SimulationResult result;
  std::vector<PathShare> path;  ///< largest first; adds up to the step time
  std::vector<WhatIf> what_if;  ///< largest gain first; resources that the machine has
  std::string bound;            ///< the resource that bounds the step and what to do, one sentence
};

/// `path` follows, from the end of the last averaged window back to its start, what each task
/// waited for last: dependencies and lane order both count, so it fills the window without gaps.
[[nodiscard]] Explanation explain(const Job& job, const Schedule& schedule);

}  // namespace zenflow::sim
