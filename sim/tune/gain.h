/// What the chosen setting gains, and what it takes of its limits, in numbers.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "sim/tune/tuned_answer.h"

namespace zenflow::sim {

/// How many times as good as `other` `one` is, by the objective.
[[nodiscard]] double times_better(const TuneAnswer& answer, const Simulated& one,
                                  const Simulated& other);
/// The user's setting as it was simulated. Precondition: it was.
[[nodiscard]] Simulated simulated_own(const TuneAnswer& answer);

/// Where the time of a step of the global batch goes, in picoseconds.
struct StepBreakdown {
  double compute = 0;
  StallTimes stall{};
};
[[nodiscard]] StepBreakdown step_breakdown(const Evaluation& one);

/// What the GPU waits for longest, and for how long it waits in all; in picoseconds of a micro
/// step.
struct LongestWait {
  WaitCause cause = WaitCause::kNone;
  double time = 0;
  double all = 0;
};
[[nodiscard]] LongestWait longest_wait(const Evaluation& one);

/// Bytes that the chosen setting takes of what the machine has, or of the user's own limit if that
/// is less; memory without a limit is not among them.
struct MemoryUse {
  std::string_view what;
  double need = 0;
  double most = 0;
};
[[nodiscard]] std::vector<MemoryUse> memory_uses(const TuneAnswer& answer);

/// Share of the squared gradient norm that the chosen setting defers; empty: that has no limit, or
/// it defers nothing.
[[nodiscard]] std::optional<double> deferred_share(const TuneAnswer& answer);

/// Which settings kept the choice below the slack: a proposal is slower than none of them.
struct Ceilings {
  bool own = false;
  bool published = false;
};
[[nodiscard]] Ceilings ceilings(const TuneAnswer& answer, const Simulated& best);

}  // namespace zenflow::sim
