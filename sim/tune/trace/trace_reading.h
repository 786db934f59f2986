/// From traces to the job that they are of: shared by recordings of other programs and of
/// zenflow-train.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/fitted_profile.h"
#include "sim/calibrate/trace/traced_job.h"
#include "sim/calibrate/trace/traced_scenario.h"
#include "sim/deepspeed/overrides.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/tune/trace/traced_request.h"

namespace zenflow::sim {

[[noreturn]] void insufficient(const std::string& what);

/// What has been found so far.
struct TraceReading {
  const TraceFlags& options;
  std::vector<ImportedTrace> traces;
  TracedJob traced;
  Node hardware;                    ///< the base profile, with overrides
  std::vector<Override> overrides;  ///< others
  TracedRequest& result;
  /// What the traces say of the batch or the ranks and --base or a flag says otherwise: they are of
  /// another job, and none of the times is comparable.
  std::vector<std::string> contradictions{};

  [[nodiscard]] bool sets(std::string_view path) const { return sim::sets(overrides, path); }
  [[nodiscard]] std::string file(std::size_t trace) const {
    return options.traces[trace].filename().generic_string();
  }
  /// The job with the base profile. Remembers the facts.
  [[nodiscard]] Job job(const TracedScenario& scenario) const;
};

/// What was fitted, and what a step took.
struct FittedJob {
  TracedScenario scenario;
  std::vector<FittedNumber> numbers;
  std::optional<double> measured_step;  ///< seconds, of the global batch
  std::optional<RecordedRun> run{};     ///< how zenflow-train ran
};
/// Says what the traces of another program than zenflow-train lack if nothing ran on a GPU.
void require_gpu_work(const TraceReading& reading);
/// Precondition of the first: a DeepSpeed file is given. Both add facts and what is not told.
[[nodiscard]] FittedJob fit_deepspeed_job(TraceReading& reading);
[[nodiscard]] FittedJob fit_recorded_runs(TraceReading& reading);

}  // namespace zenflow::sim
