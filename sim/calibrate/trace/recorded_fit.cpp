#include "sim/calibrate/trace/recorded_fit.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/live_setting.h"
#include "sim/calibrate/rank_collectives.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {

namespace {

RankPlace rank_place(const Timeline& timeline) {
  const auto run = recorded_run(timeline);
  if (!run) return {};
  return {static_cast<int>(run->among.rank), static_cast<int>(run->among.ranks)};
}

}  // namespace

RecordedFit fit_recordings(const LiveJobs& jobs, const std::vector<std::string>& traces,
                           const std::vector<std::string>& settings, const ReadTrace& read) {
  // Kept alive while the recordings refer to them.
  std::vector<Job> of_trace;
  std::vector<ImportedTrace> imported;
  of_trace.reserve(traces.size());
  imported.reserve(traces.size());
  std::vector<LiveRecording> recordings;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const OffloadSetup point = jobs.point(settings[std::min(i, settings.size() - 1)]);
    of_trace.push_back(jobs.job(point));
    imported.push_back(read(traces[i], {}));
    check_recorded_setting(traces[i], imported.back().timeline, point, of_trace.back());
    recordings.push_back({&of_trace.back(), schedule_of(point), &imported.back().timeline,
                          2 * as_scheduled(point).update_interval, 0,
                          rank_place(imported.back().timeline), traces[i]});
  }
  const Scenario& scenario = of_trace.front().scenario;
  RecordedFit found{fit_live(recordings), {}, scenario.name};
  const bool is_fitted =
      std::any_of(found.fit.numbers.begin(), found.fit.numbers.end(),
                  [](const FittedNumber& one) { return one.fitted && !one.adjusted; });
  if (!is_fitted) {
    throw Error(ErrorKind::kInput,
                "nothing to fit to: the recordings determine no constant; they may be too short");
  }
  add_unidentified(scenario.hardware, found.fit.numbers);
  if (const auto jitter = rank_jitter(recordings)) {
    found.jitter = {.path = "ranks.jitter", .value = *jitter, .unit = "", .adjusted = true};
    found.jitter->reason = "a scenario's, not the profile's";
  }
  for (std::size_t i = 0; i < traces.size(); ++i) {
    found.runs.push_back(trace_baseline({traces[i], &imported[i]}, default_rules()));
    found.runs.back().remarks = import_remarks(traces[i], imported[i]);
  }
  return found;
}

std::string recorded_profile_text(const Node& base, const RecordedFit& fitted,
                                  const std::string& name, const std::string& date) {
  std::vector<std::string> remarks;
  for (const TraceBaseline& run : fitted.runs) {
    for (const std::string& one : run.remarks) remarks.push_back(run.name + ": " + one);
  }
  return fitted_profile_text(base, fitted.fit, name,
                             fmt::format("{} recorded runs of {}, zenflow-calibrate fit, {}",
                                         fitted.runs.size(), fitted.scenario, date),
                             remarks);
}

}  // namespace zenflow::sim
