/// --trace: holds recorded runs against the simulation.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/accuracy/imported_figures.h"
#include "sim/accuracy/recorded_figures.h"
#include "sim/base/error.h"
#include "sim/calibrate/live_jobs.h"
#include "sim/calibrate/live_setting.h"
#include "tools/environment.h"
#include "tools/read_trace.h"
#include "tools/validate/validate.h"

namespace zenflow::tools {
namespace {

using sim::ComparedSetting;

/// A file, what ran and what it shows.
struct Recorded {
  std::string setting;
  std::string schedule;
  bool calibrated = false;
  sim::Job job;
  sim::ImportedTrace trace;
  sim::StepFigures figures{};
  std::int64_t first_step = 0;
  Picoseconds begin{};
  Picoseconds end{};
};

const std::string& of_file(const std::vector<std::string>& list, std::size_t i) {
  return list[std::min(i, list.size() - 1)];
}

class TraceComparison {
 public:
  TraceComparison(const ValidateOptions& options, std::string date)
      : options_(options),
        date_(std::move(date)),
        jobs_(options.scenario, options.profile, options.set,
              profile_directories(options.scenario)) {
    import_.rules = options.rules.empty() ? sim::default_rules() : sim::read_rules(options.rules);
    import_.steps = options.steps;
  }

  Comparison take() {
    for (std::size_t i = 0; i < options_.traces.size(); ++i) {
      sim::ImportedTrace trace = read_trace(options_.traces[i], import_, !options_.quiet);
      for (const std::string& problem : trace.problems) note(i, problem);
      recorded_.push_back(options_.settings.empty() ? of_another_program(i, std::move(trace))
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
    const std::string name = options_.traces[file].generic_string();
    return text.starts_with(name) ? text : name + ": " + text;
  }

  Recorded of_zenflow_train(std::size_t i, sim::ImportedTrace trace) {
    const std::string& text = of_file(options_.settings, i);
    const sim::OffloadSetup point = jobs_.point(text);
    Recorded one{to_string(point), sim::schedule_of(point), is_calibrated(point), jobs_.job(point),
                 std::move(trace)};
    // Steps are written before their work: what is cut off would count as nothing done.
    if (!one.trace.problems.empty()) {
      throw Error(ErrorKind::kInput,
                  named(i, one.trace.problems.front()) + "; --setting needs a whole recording");
    }
    sim::check_recorded_setting(options_.traces[i].generic_string(), one.trace.timeline, point,
                                one.job);
    const std::int64_t window = sim::as_scheduled(point).update_interval;
    one.first_step = options_.first_step >= 0 ? options_.first_step : 2 * window;
    const sim::RecordedSteps steps =
        sim::recorded_steps(one.trace.timeline, one.first_step, window);
    one.figures = sim::recorded_figures(one.trace.timeline, steps);
    one.begin = steps.begin;
    one.end = steps.finish;
    return one;
  }

  Recorded of_another_program(std::size_t i, sim::ImportedTrace trace) {
    const std::string name = schedule_name(i);
    const sim::Schedule& schedule = sim::find_schedule(name);
    Recorded one{name, name, false, jobs_.job(schedule), std::move(trace)};
    for (const std::string& text : sim::ignored_settings(schedule, one.job)) note(i, text);
    const auto window =
        static_cast<std::int64_t>(sim::simulate_schedule(one.job, schedule).step_times.size());
    one.first_step = std::max<std::int64_t>(0, options_.first_step);
    sim::ImportedFigures found = sim::imported_figures(
        one.trace, options_.traces[i].generic_string(), import_.rules, one.first_step, window);
    for (const std::string& text : found.notes) note(i, text);
    one.figures = std::move(found.figures);
    one.begin = found.begin;
    one.end = found.end;
    return one;
  }

  std::string schedule_name(std::size_t i) const {
    if (!options_.schedules.empty()) return of_file(options_.schedules, i);
    const std::vector<std::string> of_scenario = jobs_.schedules();
    if (of_scenario.size() == 1) return of_scenario.front();
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected --schedule NAME, since the scenario has {}; or, for "
                            "traces of zenflow-train, --setting",
                            options_.traces[i].generic_string(), of_scenario.size()));
  }

  bool is_calibrated(const sim::OffloadSetup& point) const {
    if (!options_.calibrate_given) return false;
    return std::any_of(options_.calibrate.begin(), options_.calibrate.end(),
                       [&](const std::string& text) { return jobs_.point(text) == point; });
  }

  void check_calibrated() const {
    if (!options_.calibrate_given) return;
    for (const std::string& text : options_.calibrate) {
      const std::string name = to_string(jobs_.point(text));
      const bool is_there = std::any_of(recorded_.begin(), recorded_.end(),
                                        [&](const Recorded& one) { return one.setting == name; });
      if (is_there) continue;
      throw Error(ErrorKind::kInput,
                  fmt::format("--calibrate {}: no --trace is of this --setting", text));
    }
  }

  void fit() {
    std::vector<sim::LiveRecording> recordings;
    for (const Recorded& one : recorded_) {
      if (!one.calibrated) continue;
      recordings.push_back({&one.job, one.schedule, &one.trace.timeline, one.first_step});
    }
    if (recordings.empty()) return;
    result_.fit = sim::fit_live(recordings);
    result_.base_profile = jobs_.hardware();
    result_.fitted_to = fmt::format("{} recorded runs of {}, zenflow-validate --trace, {}",
                                    recordings.size(), result_.scenario, date_);
  }

  /// Traces of one setting are runs of it. The timelines that are shown leave `recorded_`.
  void compare() {
    for (Recorded& one : recorded_) {
      const auto is_known = [&](const ComparedSetting& known) { return known.name == one.setting; };
      if (std::any_of(result_.settings.begin(), result_.settings.end(), is_known)) continue;
      std::vector<sim::StepFigures> runs;
      std::vector<double> steps;
      for (const Recorded& other : recorded_) {
        if (other.setting != one.setting) continue;
        runs.push_back(other.figures);
        steps.push_back(*other.figures[sim::Metric::kStep]);
      }
      ComparedSetting& setting = result_.settings.emplace_back();
      setting.name = one.setting;
      setting.schedule = one.schedule;
      setting.calibrated = one.calibrated;
      setting.measured = sim::median_of(runs);
      setting.runs = std::ssize(steps);
      setting.run_times = std::move(steps);
      sim::Job job = one.job;
      if (result_.fit) job.scenario.hardware = result_.fit->profile;
      // Of a log only durations are known.
      const bool is_shown = !options_.overlay.empty() && one.end > one.begin;
      OverlayPart* part = is_shown ? &result_.overlay.emplace_back() : nullptr;
      if (part != nullptr) {
        part->measured = std::move(one.trace.timeline);
        part->measured_stretch = {nullptr, one.begin, one.end};
      }
      predict_setting(job, sim::find_schedule(one.schedule), setting, part);
    }
  }

  const ValidateOptions& options_;
  std::string date_;
  sim::LiveJobs jobs_;
  sim::ImportOptions import_;
  std::vector<Recorded> recorded_;
  Comparison result_;
};

}  // namespace

Comparison compare_traces(const ValidateOptions& options, const std::string& date) {
  return TraceComparison(options, date).take();
}

}  // namespace zenflow::tools
