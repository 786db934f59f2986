/// Recordings of zenflow-train, fitted as runs of settings of a scenario.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/live_fit.h"
#include "sim/calibrate/live_jobs.h"
#include "sim/calibrate/trace/trace_fit.h"
#include "sim/trace/import/import_trace.h"

namespace zenflow::sim {

struct RecordedFit {
  LiveFit fit;  ///< with the base profile's numbers that recordings do not identify
  std::vector<TraceBaseline> runs;
  std::string scenario;
  std::optional<FittedNumber> jitter{};  ///< ranks.jitter of a scenario, of several ranks
};

/// `settings`: one, or one for each trace. Steps of each trace's first two windows, which lack what
/// later ones wait for, are not used. Throws Error(kInput) as reading a setting and a trace,
/// check_recorded_setting and fit_live do. Precondition: there is a trace.
[[nodiscard]] RecordedFit fit_recordings(const LiveJobs& jobs,
                                         const std::vector<std::string>& traces,
                                         const std::vector<std::string>& settings,
                                         const ReadTrace& read);

/// The fitted profile, with what is to be said of each run.
[[nodiscard]] std::string recorded_profile_text(const Node& base, const RecordedFit& fitted,
                                                const std::string& name, const std::string& date);

}  // namespace zenflow::sim
