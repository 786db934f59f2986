/// The parts of a step that a recording times, held against the simulated step of the own setting.
#pragma once

#include <string>
#include <vector>

#include "sim/schedule/job.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/tune/candidates.h"

namespace zenflow::sim {

/// Of a log "forward", "backward" and "optimizer", by its timers; of a trace what its GPUs did not
/// compute for, by cause, and "compute".
struct RecordedPart {
  std::string name;
  double seconds = 0;  ///< of a step of the recorded batch
};

/// Of a log the medians of its timers; of a trace, shares of its GPUs' spans, by mean, of
/// `step_seconds`. None where neither is known.
[[nodiscard]] std::vector<RecordedPart> recorded_parts(const ImportedTrace& trace,
                                                       const TraceAnalysis& analysis,
                                                       double step_seconds,
                                                       std::int64_t micro_steps);

struct PartTime {
  std::string name;
  double recorded = 0;   ///< seconds
  double simulated = 0;  ///< seconds
};

/// The same parts of the simulated step. A timer's holds what its thread waits for: backward the
/// copies down and the collectives, the optimizer the update, NVMe and the copies up.
[[nodiscard]] std::vector<PartTime> part_times(const std::vector<RecordedPart>& recorded,
                                               const Job& job, const Evaluation& own);
/// Those that miss: by more than 15 % of what was recorded or simulated, and 3 % of the step;
/// largest first.
[[nodiscard]] std::vector<PartTime> missed_parts(std::vector<PartTime> parts, double step_seconds);

}  // namespace zenflow::sim
