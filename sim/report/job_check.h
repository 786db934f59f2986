/// The short answer on a job: does it fit, how long is a step, where does the GPU wait, what will
/// DeepSpeed refuse or ignore, and what would help most.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/deepspeed/lint.h"
#include "sim/job_files/job_inputs.h"
#include "sim/report/explain.h"
#include "sim/report/fit.h"

namespace zenflow::sim {

enum class Verdict : std::uint8_t { kFits, kUncertain, kDoesNotFit };
/// "fits", "UNCERTAIN", "DOES NOT FIT".
[[nodiscard]] std::string to_string(Verdict verdict);

/// A change that was simulated.
struct JobChange {
  std::vector<std::string> set;  ///< each "PATH=VALUE", as --set takes it
  std::string what;              ///< for people: "OMP_NUM_THREADS=16"
  std::string but;               ///< what else it changes; empty: nothing
  double step_time = 0;          ///< picoseconds
  double tokens_per_second = 0;
  double gain = 0;  ///< tokens per second against the job as it is; of one that does not fit 0
};

/// Of a job that nothing tried makes fit: the change with which least is missing.
struct NearMiss {
  std::vector<std::string> set;
  std::string what;
  std::string exceeded;  ///< "RAM of the node: 174.25 GiB of 59.60 GiB"
};

struct JobCheck {
  Verdict verdict = Verdict::kFits;
  std::string decided_by;  ///< "GPU memory: 21.3 of 23.6 GiB"
  Fit fit;
  Explanation explanation;
  /// Step times, picoseconds, with a host half and twice as fast, as far as it is estimated; both
  /// the explained one if nothing is.
  double fastest = 0;
  double slowest = 0;
  std::vector<Finding> findings;   ///< of lint, for who launches it
  std::vector<JobChange> changes;  ///< at most three, the most useful first
  /// If the job does not fit, and none of the changes that train the same do.
  std::optional<NearMiss> nearest{};
};

/// `overrides` are the user's own. Throws Error(kInput) as reading the scenario does.
[[nodiscard]] JobCheck check_job(const JobScenario& scenario, const ScenarioTree& tree,
                                 const std::vector<Override>& overrides);

/// What of predicted memory and measured memory differed by, typically: jobs whose need comes
/// nearer to a limit than this share of it are uncertain. Source: docs/accuracy.md and
/// docs/accuracy/h200, where GPU peaks of ordinary jobs were 1 to 6 % off.
inline constexpr double kMemoryMargin = 0.06;

}  // namespace zenflow::sim
