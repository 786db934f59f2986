#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/accuracy/imported_figures.h"
#include "sim/accuracy/recorded_figures.h"
#include "sim/accuracy/setting_comparison.h"
#include "sim/base/error.h"
#include "sim/calibrate/live_jobs.h"
#include "sim/calibrate/live_setting.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/calibrate/trace/traced_job.h"
#include "sim/schedule/live_work.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// A file, what ran and what it shows.
struct Recorded {
  std::string setting;
  std::string schedule;
  bool calibrated = false;
  Job job;
  ImportedTrace trace;
  StepFigures figures{};
  std::int64_t first_step = 0;
  Picoseconds begin{};
  Picoseconds end{};
};

const std::string& of_file(const std::vector<std::string>& list, std::size_t i) {
  return list[std::min(i, list.size() - 1)];
}

class TraceComparison {
 public:
  TraceComparison(const ComparisonFlags& flags, const ReadTrace& read, std::string date)
      : flags_(flags),
        read_(read),
        date_(std::move(date)),
        jobs_(flags.scenario, flags.profile, flags.set, flags.profile_directories) {
    import_.rules = flags.rules.empty() ? default_rules() : read_rules(flags.rules);
    import_.steps = flags.steps;
  }

  Comparison take() {
    for (std::size_t i = 0; i < flags_.traces.size(); ++i) {
      ImportedTrace trace = read_(flags_.traces[i], import_);
      for (const std::string& problem : trace.problems) note(i, problem);
      recorded_.push_back(flags_.settings.empty() ? of_another_program(i, std::move(trace))
                                                  : of_zenflow_train(i, std::move(trace)));
    }
    check_calibrated();
    result_.scenario = recorded_.front().job.scenario.name;
    const std::vector<std::string>& devices = recorded_.front().trace.timeline.devices;
    result_.device = devices.empty() || devices.front().empty() ? "not stated" : devices.front();
    result_.machine = "a machine that the traces do not name";
    fit();
    compare();
    return std::move(result_);
  }

 private:
  void note(std::size_t file, const std::string& text) {
    result_.notes.push_back(named(file, text));
  }

  /// Some problems name their file.
  [[nodiscard]] std::string named(std::size_t file, const std::string& text) const {
    const std::string name = flags_.traces[file].generic_string();
    return text.starts_with(name) ? text : name + ": " + text;
  }

  Recorded of_zenflow_train(std::size_t i, ImportedTrace trace) {
    const std::string& text = of_file(flags_.settings, i);
    const OffloadSetup point = jobs_.point(text);
    Recorded one{to_string(point), schedule_of(point), is_calibrated(point), jobs_.job(point),
                 std::move(trace)};
    // Steps are written before their work: what is cut off would count as nothing done.
    if (!one.trace.problems.empty()) {
      throw Error(ErrorKind::kInput,
                  named(i, one.trace.problems.front()) + "; --setting needs a whole recording");
    }
    check_recorded_setting(flags_.traces[i].generic_string(), one.trace.timeline, point, one.job);
    const std::int64_t window = as_scheduled(point).update_interval;
    one.first_step = flags_.first_step >= 0 ? flags_.first_step : 2 * window;
    const RecordedSteps steps = recorded_steps(one.trace.timeline, one.first_step, window);
    one.figures = recorded_figures(one.trace.timeline, steps);
    one.begin = steps.begin;
    one.end = steps.finish;
    return one;
  }

  Recorded of_another_program(std::size_t i, ImportedTrace trace) {
    const std::string name = schedule_name(i);
    const Schedule& schedule = find_schedule(name);
    Recorded one{name, name, false, jobs_.job(schedule), std::move(trace)};
    refuse_another_schedule(i, one);
    for (const std::string& text : ignored_settings(schedule, one.job)) note(i, text);
    for (const std::string& text : job_notes(one.job)) note(i, text);
    const auto window =
        static_cast<std::int64_t>(simulate_schedule(one.job, schedule).step_times.size());
    one.first_step = std::max<std::int64_t>(0, flags_.first_step);
    ImportedFigures found = imported_figures(one.trace, flags_.traces[i].generic_string(),
                                             import_.rules, one.first_step, window);
    for (const std::string& text : found.notes) note(i, text);
    note_differences(i, one);
    one.figures = std::move(found.figures);
    one.begin = found.begin;
    one.end = found.end;
    return one;
  }

  void note_differences(std::size_t i, const Recorded& one) {
    const TracedJob traced = traced_job({&one.trace});
    std::vector<std::string> found = differences(traced, one.job);
    if (!is_simulated(one.trace.timeline)) {
      for (std::string& text : differences(traced, one.job.scenario.hardware)) {
        found.push_back(std::move(text));
      }
    }
    for (const std::string& text : found) {
      note(i, text + ": another job is predicted than was recorded");
    }
  }

  /// Throws for a recording of our own runtime that is of another schedule of it.
  void refuse_another_schedule(std::size_t i, const Recorded& one) const {
    const auto run = recorded_run(one.trace.timeline);
    if (!run || !live_kind(one.schedule) || live_kind(one.schedule) == run->schedule) return;
    throw Error(ErrorKind::kInput,
                named(i, fmt::format("it was recorded under {}, which --schedule {} does not "
                                     "predict: give its --setting",
                                     to_string(run->schedule), one.schedule)));
  }

  std::string schedule_name(std::size_t i) const {
    if (!flags_.schedules.empty()) return of_file(flags_.schedules, i);
    const std::vector<std::string> of_scenario = jobs_.schedules();
    if (of_scenario.size() == 1) return of_scenario.front();
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected --schedule NAME, since the scenario has {}; or, for "
                            "traces of zenflow-train, --setting",
                            flags_.traces[i].generic_string(), of_scenario.size()));
  }

  bool is_calibrated(const OffloadSetup& point) const {
    if (!flags_.calibrate_given) return false;
    return std::any_of(flags_.calibrate.begin(), flags_.calibrate.end(),
                       [&](const std::string& text) { return jobs_.point(text) == point; });
  }

  void check_calibrated() const {
    if (!flags_.calibrate_given) return;
    for (const std::string& text : flags_.calibrate) {
      const std::string name = to_string(jobs_.point(text));
      const bool is_there = std::any_of(recorded_.begin(), recorded_.end(),
                                        [&](const Recorded& one) { return one.setting == name; });
      if (is_there) continue;
      throw Error(ErrorKind::kInput,
                  fmt::format("--calibrate {}: no --trace is of this --setting", text));
    }
  }

  void fit() {
    std::vector<LiveRecording> recordings;
    for (const Recorded& one : recorded_) {
      if (!one.calibrated) continue;
      recordings.push_back({&one.job, one.schedule, &one.trace.timeline, one.first_step});
    }
    if (recordings.empty()) return;
    result_.fit = fit_live(recordings);
    result_.base_profile = jobs_.hardware();
    result_.fitted_to = fmt::format("{} recorded runs of {}, zenflow-validate --trace, {}",
                                    recordings.size(), result_.scenario, date_);
  }

  /// Traces of one setting are runs of it. The timelines that are shown leave `recorded_`.
  void compare() {
    for (Recorded& one : recorded_) {
      const auto is_known = [&](const ComparedSetting& known) { return known.name == one.setting; };
      if (std::any_of(result_.settings.begin(), result_.settings.end(), is_known)) continue;
      std::vector<StepFigures> runs;
      std::vector<double> steps;
      for (const Recorded& other : recorded_) {
        if (other.setting != one.setting) continue;
        runs.push_back(other.figures);
        steps.push_back(*other.figures[Metric::kStep]);
      }
      ComparedSetting& setting = result_.settings.emplace_back();
      setting.name = one.setting;
      setting.schedule = one.schedule;
      setting.calibrated = one.calibrated;
      setting.measured = median_of(runs);
      setting.runs = std::ssize(steps);
      setting.run_times = std::move(steps);
      Job job = one.job;
      if (result_.fit) job.scenario.hardware = result_.fit->profile;
      // A log has only durations.
      const bool is_shown = flags_.wants_overlay() && one.end > one.begin;
      OverlayPart* part = is_shown ? &result_.overlay.emplace_back() : nullptr;
      if (part != nullptr) {
        part->measured = std::move(one.trace.timeline);
        part->measured_stretch = {nullptr, one.begin, one.end};
      }
      predict_setting(job, find_schedule(one.schedule), setting, part);
    }
  }

  const ComparisonFlags& flags_;
  const ReadTrace& read_;
  std::string date_;
  LiveJobs jobs_;
  ImportOptions import_;
  std::vector<Recorded> recorded_;
  Comparison result_;
};

}  // namespace

Comparison compare_traces(const ComparisonFlags& flags, const ReadTrace& read,
                          const std::string& date) {
  return TraceComparison(flags, read, date).take();
}

}  // namespace zenflow::sim
