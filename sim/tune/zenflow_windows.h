/// In the long run, how often windows of which length follow each other under DeepSpeed's ZenFlow.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/job.h"

namespace zenflow::sim {

struct WindowKind {
  std::int64_t steps = 1;
  bool selects = false;  ///< in its first step
  double share = 1;      ///< windows of this kind, of all steps
};

/// Past warm-up. A selection ends the window before it, so where select_interval is no multiple of
/// update_interval some windows are cut short; a pattern too long to be worth listing is taken to
/// be one of whole windows without selection, which has fewer updates. Shares times steps add up
/// to 1. Precondition: update_interval is a number.
[[nodiscard]] std::vector<WindowKind> long_run_windows(const Job& job);

}  // namespace zenflow::sim
