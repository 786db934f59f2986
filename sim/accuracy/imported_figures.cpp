#include "sim/accuracy/imported_figures.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/median.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_parts.h"

namespace zenflow::sim {
namespace {

class Reader {
 public:
  Reader(const ImportedTrace& trace, const TraceRules& rules, const ImportedFigures& range,
         StepFigures& figures)
      : analysis_(analyze_part(trace, rules, {range.begin, range.end})),
        knows_host_(!host_activities(trace.timeline, rules).empty()),
        range_(range),
        figures_(figures) {}

  void read() {
    if (analysis_.devices.empty()) return;
    const double each =
        static_cast<double>(analysis_.devices.size()) * static_cast<double>(range_.steps);
    for (const DeviceAnalysis& device : analysis_.devices) {
      stall(device, each);
      copies(device, each);
      phases(device, each);
    }
    figures_[Metric::kStall] = *figures_[Metric::kStep] - figures_[Metric::kCompute].value_or(0);
    if (!sizes_known_) {
      figures_[Metric::kD2HBytes].reset();
      figures_[Metric::kH2DBytes].reset();
    }
  }

 private:
  void add(Metric metric, double value) { figures_[metric] = figures_[metric].value_or(0) + value; }

  void stall(const DeviceAnalysis& device, double each) {
    const auto ms = [each](Picoseconds time) { return to_milliseconds(time) / each; };
    add(Metric::kCompute, ms(device.compute_in_part));
    const auto time = [&](WaitCause cause) {
      return ms(device.stall.at(static_cast<std::size_t>(cause)));
    };
    add(stall_by(WaitCause::kD2H), time(WaitCause::kD2H));
    add(stall_by(WaitCause::kH2D), time(WaitCause::kH2D));
    add(stall_by(WaitCause::kCollective), time(WaitCause::kCollective));
    // Where no rule says what the host does, its work cannot be distinguished from late launches.
    if (!knows_host_) return;
    add(stall_by(WaitCause::kCpuUpdate), time(WaitCause::kCpuUpdate));
    add(stall_by(WaitCause::kNvme), time(WaitCause::kNvme));
    add(stall_by(WaitCause::kSelection), time(WaitCause::kSelection));
    add(stall_by(WaitCause::kLaunch), time(WaitCause::kLaunch) + time(WaitCause::kCopyOnDevice) +
                                          time(WaitCause::kOther) + time(WaitCause::kNotRecorded) +
                                          ms(std::max(Picoseconds{}, device.start - range_.begin)) +
                                          ms(std::max(Picoseconds{}, range_.end - device.end)));
  }

  void copies(const DeviceAnalysis& device, double each) {
    for (const Metric metric :
         {Metric::kD2HBytes, Metric::kH2DBytes, Metric::kCopyDown, Metric::kCopyUp}) {
      add(metric, 0);
    }
    for (const CopyStatistics& one : device.copy_statistics) {
      const bool down = one.kind.direction == CopyDirection::kD2H;
      if (!down && one.kind.direction != CopyDirection::kH2D) continue;
      sizes_known_ = sizes_known_ && one.without_bytes == 0;
      add(down ? Metric::kD2HBytes : Metric::kH2DBytes, static_cast<double>(one.bytes) / each);
      add(down ? Metric::kCopyDown : Metric::kCopyUp, to_milliseconds(one.time) / each);
    }
  }

  void phases(const DeviceAnalysis& device, double each) {
    for (const PhaseTime& one : device.phases) {
      const double time = to_milliseconds(one.time) / each;
      switch (one.phase) {
        case SpanPhase::kForward:
          add(Metric::kForward, time);
          break;
        case SpanPhase::kBackward:
          add(Metric::kBackward, time);
          break;
        case SpanPhase::kOptimizer:
          add(Metric::kGpuUpdate, time);
          break;
        case SpanPhase::kSelection:
          add(Metric::kSelection, time);
          break;
        case SpanPhase::kCollective:
          add(Metric::kCollective, time);
          break;
        case SpanPhase::kNone:
        case SpanPhase::kCopy:
        case SpanPhase::kOther:
          break;
      }
    }
  }

  TraceAnalysis analysis_;
  bool knows_host_;
  const ImportedFigures& range_;
  StepFigures& figures_;
  bool sizes_known_ = true;
};

[[noreturn]] void throw_no_step(const std::string& name, std::int64_t first, std::int64_t found,
                                const char* advice) {
  throw Error(ErrorKind::kInput, fmt::format("{}: no step is found from the {}-th on ({} in all){}",
                                             name, first, found, advice));
}

/// The mean of the timer that the log has under one of the names.
std::optional<double> mean_of(const TimerLog& log, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    const TimerSeries* series = log.find(name);
    if (series != nullptr && !series->values.empty()) return series->mean();
  }
  return std::nullopt;
}

/// Steps that a log has from the `first`-th on; all, also where it has means of ranks alone.
ImportedFigures of_log(const ImportedTrace& trace, const std::string& name, std::int64_t first) {
  const double step_ms = trace.timers->step_ms;
  if (!std::isfinite(step_ms)) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the log does not say how long steps take", name));
  }
  const std::vector<TimelineStep>& steps = trace.timeline.steps;
  const std::int64_t found = std::ssize(steps);
  ImportedFigures result;
  result.steps = found - first;
  result.figures[Metric::kStep] = step_ms;
  if (first > 0) {
    if (found <= first) throw_no_step(name, first, found, "");
    Picoseconds sum{};
    std::for_each(steps.begin() + first, steps.end(),
                  [&](const TimelineStep& step) { sum += step.end - step.start; });
    result.figures[Metric::kStep] = to_milliseconds(sum) / static_cast<double>(result.steps);
  }
  const TimerLog& log = *trace.timers;
  const auto take = [&](Metric metric, double value) {
    // Their means are of all steps.
    if (first == 0 && std::isfinite(value)) result.figures[metric] = value;
  };
  const auto forward = mean_of(log, {"fwd_microstep", "forward_microstep"});
  const auto backward = mean_of(log, {"bwd_microstep", "backward_microstep"});
  const auto optimizer = mean_of(log, {"step_microstep"});
  // With accumulation the others are sums over the micro steps between two updates.
  const bool has_all = forward && backward && optimizer;
  take(Metric::kTimerForward, has_all ? *forward : log.forward_ms);
  take(Metric::kTimerBackward, has_all ? *backward : log.backward_ms);
  take(Metric::kTimerStep, has_all ? *optimizer : log.optimizer_ms);
  if (has_all && first == 0 && log.iterations.values.empty()) {
    result.figures[Metric::kStep] = *forward + *backward + *optimizer;
  }
  const UsualSteps usual = log.usual_steps();
  if (first == 0 && !usual.usual.empty() && std::ssize(usual.usual) < found) {
    result.notes.push_back(fmt::format(
        "measured is the mean of all {} steps; of {} it is {:.2f} ms (--first-step leaves out "
        "those at the beginning)",
        found, usual.text(), mean(usual.usual)));
  }
  result.notes.emplace_back(
      "a log's forward, backward and optimizer times hold what the GPU waited for: they are held "
      "against the parts of the simulated step, not against its phases");
  return result;
}

}  // namespace

namespace {

/// ", without step 0 (the first, 2.500 ms)": of those from the `first`-th on, which are not like
/// the others.
std::string unlike_others(const Timeline& timeline, std::int64_t first) {
  std::vector<StepAnalysis> steps;
  for (auto step = timeline.steps.begin() + first; step != timeline.steps.end(); ++step) {
    StepAnalysis& one = steps.emplace_back();
    one.number = step->number;
    one.start = step->start;
    one.duration = step->end - step->start;
  }
  tell_steps_apart(timeline, steps);
  return apart_text(steps);
}

}  // namespace

ImportedFigures imported_figures(const ImportedTrace& trace, const std::string& name,
                                 const TraceRules& rules, std::int64_t first, std::int64_t window) {
  const Timeline& timeline = trace.timeline;
  if (trace.timers) return of_log(trace, name, first);
  const auto found = static_cast<std::int64_t>(timeline.steps.size());
  if (found <= first) {
    throw_no_step(name, first, found, "; --steps names the ranges that are steps");
  }
  ImportedFigures result;
  result.steps = found - first;
  if (result.steps >= window) {
    result.steps -= result.steps % window;
  } else {
    result.notes.push_back(fmt::format(
        "{} steps of windows of {}: which ones they are is not known, so they are held against the "
        "window's mean",
        result.steps, window));
  }
  const auto begin = timeline.steps.begin() + first;
  result.begin = begin->start;
  const auto behind = begin + result.steps;
  result.end = behind == timeline.steps.end() ? (behind - 1)->end : behind->start;
  result.figures[Metric::kStep] =
      to_milliseconds(result.end - result.begin) / static_cast<double>(result.steps);
  if (const std::string apart = unlike_others(timeline, first); !apart.empty()) {
    result.notes.push_back(fmt::format(
        "measured is the mean of {} steps; others count them{} (--first-step leaves out those at "
        "the beginning)",
        result.steps, apart));
  }
  Reader(trace, rules, result, result.figures).read();
  return result;
}

}  // namespace zenflow::sim
