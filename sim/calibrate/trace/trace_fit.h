/// A hardware profile from recorded runs of any program, and what the recordings show by
/// themselves.
///
/// Traces of the PyTorch profiler, Nsight Systems, our CUPTI recorder, zenflow-sim's simulations,
/// and logs of DeepSpeed; recordings of zenflow-train go to fit_live (live_fit.h), which knows
/// their operations by name. Formulas: trace_work.h. Method: constant_fit.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/fitted_profile.h"
#include "sim/calibrate/trace/launch_times.h"
#include "sim/schedule/job.h"
#include "sim/trace/analysis/trace_analysis.h"

namespace zenflow::sim {

struct FitTrace {
  std::string name;  ///< in messages: the file's
  const ImportedTrace* trace = nullptr;
  /// What was trained how; nullptr: not known, and what needs it is not fitted. Its hardware is not
  /// looked at.
  const Job* job = nullptr;
  std::vector<std::string> remarks{};  ///< what its caller has to say of it, a sentence each
};

struct TraceFitInput {
  HardwareProfile base;
  std::vector<FitTrace> traces;
  TraceRules rules = default_rules();
};

/// What a recording shows without any model: the run as it was.
struct TraceBaseline {
  std::string name;
  /// From one step's start to the next's, mean over the usual ones; of a log that of its usual
  /// steps.
  std::optional<double> step_seconds;
  std::size_t counted = 0;  ///< how many steps that is the mean of
  std::string steps{};  ///< which those are: "19 steps, without ..."; empty: it is not their mean
  /// Per device: phases, idle by cause, copies; steps. Without GPU work: no devices.
  TraceAnalysis analysis;
  LaunchTimes launch;
  /// A sentence each: what is wrong with the file, what of it was not read, what the fit did not
  /// use, what it assumed.
  std::vector<std::string> remarks{};
};

struct TraceFit {
  HardwareProfile profile;
  /// Every constant of the profile that times depend on, fitted or not.
  std::vector<FittedNumber> numbers;
  std::vector<TraceBaseline> baselines;  ///< by trace
  std::vector<std::string> remarks;      ///< the remarks of all, each after the trace's name
};

/// Throws Error(kInput) if there is no trace, if none has anything that a constant can be fitted to
/// or they determine none (says what each lacks), or if a simulated run is not of its job.
[[nodiscard]] TraceFit fit_traces(const TraceFitInput& input);

/// What the importer says of a file: its damage, then what was not read of it.
[[nodiscard]] std::vector<std::string> import_remarks(const std::string& name,
                                                      const ImportedTrace& trace);

[[nodiscard]] TraceBaseline trace_baseline(const FitTrace& trace, const TraceRules& rules);

}  // namespace zenflow::sim
