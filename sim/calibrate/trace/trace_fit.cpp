#include "sim/calibrate/trace/trace_fit.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/trace/clock_tick.h"
#include "sim/calibrate/trace/trace_machines.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/calibrate/trace/traced_job.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/launches.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

constexpr double kGiga = 1e9;

/// The shortest kernels compute next to nothing: what they take is what any kernel costs. To be
/// among the shortest is to have been rounded down, for all of them: their mean is as uncertain as
/// one.
TimedGroup shortest_kernels(const Timeline& timeline, const MeasuredTime& gap) {
  constexpr std::size_t kFewest = 40;
  constexpr std::size_t kShare = 20;
  constexpr std::size_t kFewestGaps = 8;
  TimedGroup group{.what = "the shortest twentieth of the kernels, with the gap before them",
                   .seconds = {},
                   .amounts = {},
                   .amount_name = "",
                   .predict = {},
                   .only = {"gpu.kernel_launch"}};
  if (gap.samples < kFewestGaps) return group;
  for (const TimelineSpan& span : timeline.spans) {
    if (kind_of(timeline, span) != SpanKind::kKernel || span.end <= span.start) continue;
    group.seconds.push_back(seconds_of(span) + gap.median);
  }
  std::sort(group.seconds.begin(), group.seconds.end());
  group.seconds.resize(group.seconds.size() < kFewest ? 0 : group.seconds.size() / kShare);
  group.amounts = group.seconds;
  group.clock_errors.assign(
      group.seconds.size(),
      clock_error(clock_tick(timeline, is_gpu_work), static_cast<double>(group.seconds.size())));
  group.predict = [count = group.seconds.size()](const HardwareProfile& profile) {
    return std::vector<double>(count, profile.gpu.kernel_launch.value());
  };
  return group;
}

bool has_gpu_work(const Timeline& timeline) {
  return std::any_of(timeline.spans.begin(), timeline.spans.end(), [&](const TimelineSpan& span) {
    return is_gpu_work(kind_of(timeline, span));
  });
}

TraceWork recorded_work(const FitTrace& one, const TraceFitInput& input,
                        const LaunchTimes& launch) {
  const Timeline& timeline = one.trace->timeline;
  const bool knows_steps = one.job != nullptr && may_repeat_steps(*one.trace, *one.job);
  TraceWork work = shaped_kernel_work(timeline, input.base, launch.gap.median);
  const bool has_shapes = !work.groups.empty();
  if (!has_shapes) {
    work.add(shortest_kernels(timeline, launch.gap));
    work.notes.emplace_back(
        "no shapes of the operations that launched its kernels (record_shapes of the PyTorch "
        "profiler)");
    if (knows_steps) work.add(model_kernel_work(timeline, *one.job, launch.gap.median));
  }
  if (one.job != nullptr && !knows_steps) {
    work.notes.emplace_back(
        std::string(kStepsOrLayers) +
        " They are too short for a step of this batch, and nothing is fitted to "
        "them (--steps)");
  }
  if (one.job == nullptr && !has_shapes) {
    work.notes.emplace_back("without a model nothing is known of what its kernels computed");
  }
  work.add(collective_work(timeline, input.base));
  if (knows_steps) work.add(host_update_work(timeline, *one.job, input.rules));
  if (timeline.steps.empty()) work.notes.emplace_back("no steps were found");
  return work;
}

TraceWork work_of(const FitTrace& one, const TraceFitInput& input, const LaunchTimes& launch) {
  const Timeline& timeline = one.trace->timeline;
  TraceWork work;
  if (one.trace->timers) {
    if (one.job == nullptr) {
      work.notes.emplace_back("a log of timers tells constants only with a model");
      return work;
    }
    return log_work(*one.trace, *one.job);
  }
  if (is_of_zenflow_train(timeline)) {
    work.notes.emplace_back("recorded by zenflow-train: name its setting (--setting) to fit to it");
    return work;
  }
  if (is_simulated(timeline) && one.job != nullptr) {
    Job job = *one.job;
    job.scenario.hardware = input.base;
    return simulated_work(timeline, job);
  }
  if (!has_gpu_work(timeline)) {
    work.notes.emplace_back(
        "no kernels and no copies: nothing ran on a GPU, or it was not recorded");
    if (one.job != nullptr) work.add(host_update_work(timeline, *one.job, input.rules));
    return work;
  }
  if (is_simulated(timeline)) {
    work.notes.emplace_back("a simulated run without its scenario: only copies are looked at");
    return work;
  }
  return recorded_work(one, input, launch);
}

/// Fitted constants as numbers of a profile that its reader accepts: shares of at most all, rates
/// within those that bound them.
class NumberList {
 public:
  NumberList(const HardwareProfile& base, const std::vector<ProfileConstant>& constants,
             const ConstantFit& fit)
      : profile_(fit.profile) {
    for (std::size_t c = 0; c < constants.size(); ++c) {
      const ConstantEstimate& one = fit.estimates[c];
      const double value = one.value / constants[c].scale;
      std::string range = one.range;
      if (one.identifiable) range += (range.empty() ? "" : ", ") + one.group;
      numbers_.push_back({constants[c].path, value, constants[c].unit, one.identifiable, false,
                          one.identifiable ? value * one.relative_error : 0,
                          one.identifiable ? one.samples : 0, one.residual, std::move(range),
                          one.reason, one.identifiable ? one.damped : 0,
                          one.identifiable ? one.set_aside : 0});
    }
    const double old_peak_scale =
        scale_of_shares({"gpu.gemm_efficiency", "gpu.attention_efficiency"},
                        {&profile_.gpu.gemm_efficiency, &profile_.gpu.attention_efficiency});
    if (old_peak_scale > 1) {
      for (auto& [dtype, peak] : profile_.gpu.peak) {
        peak = old_peak_scale * peak;
        adjust("gpu.peak." + to_string(dtype), peak.value() / kGiga, "GFLOPS");
      }
    }
    double ignored = profile_.gpu.column_share_of_bandwidth();
    double& columns = profile_.gpu.column_efficiency ? *profile_.gpu.column_efficiency : ignored;
    const double wider = scale_of_shares(
        {"gpu.elementwise_efficiency", "gpu.streaming_efficiency", "gpu.column_efficiency"},
        {&profile_.gpu.elementwise_efficiency, &profile_.gpu.streaming_efficiency, &columns});
    if (wider > 1) {
      profile_.gpu.memory_bandwidth = wider * profile_.gpu.memory_bandwidth;
      adjust("gpu.memory_bandwidth", profile_.gpu.memory_bandwidth.value() / kGiga, "GB/s");
    }
    bound("host_link", profile_.host_link.pinned);
    for (const SwitchGroup& group : switch_groups(base.host_link)) {
      for (const std::size_t member : group.members) {
        bound(group.path, profile_.host_link.switches[member].path);
      }
    }
    bound_memory();
  }

  HardwareProfile profile() const { return profile_; }
  std::vector<FittedNumber> take() { return std::move(numbers_); }

 private:
  void adjust(const std::string& path, double value, const char* unit) {
    for (FittedNumber& one : numbers_) {
      if (one.path != path) continue;
      one = {path, value, unit, false, true};
      return;
    }
    numbers_.push_back({path, value, unit, false, true});
  }

  /// Divides all by the largest if that is above 1, and returns it.
  double scale_of_shares(const std::vector<std::string>& paths,
                         const std::vector<double*>& shares) {
    double scale = 1;
    for (const double* share : shares) scale = std::max(scale, *share);
    if (scale == 1) return 1;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      *shares[i] /= scale;
      for (FittedNumber& one : numbers_) {
        if (one.path != paths[i]) continue;
        one.value = *shares[i];
        one.standard_error /= scale;
        one.adjusted = !one.fitted;
      }
    }
    return scale;
  }

  /// Both directions together carry at least what one does, and no more than each alone.
  void bound(const std::string& name, HostPath& path) {
    const BytesPerSecond both =
        std::clamp(path.bidirectional, std::max(path.h2d, path.d2h), path.h2d + path.d2h);
    if (both != path.bidirectional) {
      path.bidirectional = both;
      adjust(name + ".bidirectional", both.value() / kGiga, "GB/s");
    }
  }

  [[nodiscard]] bool is_fitted(const char* path) const {
    return std::any_of(numbers_.begin(), numbers_.end(),
                       [&](const FittedNumber& one) { return one.path == path && one.fitted; });
  }

  /// Where DRAM is known, what is not known beside it is no faster; else it has room for all.
  void bound_memory() {
    HostProfile& host = profile_.host;
    const bool dram_is_known = is_fitted("host.dram_bandwidth");
    BytesPerSecond most = host.dram_bandwidth;
    const auto bound = [&](const char* path, BytesPerSecond& rate) {
      if (!dram_is_known || is_fitted(path)) {
        most = std::max(most, rate);
      } else if (rate > host.dram_bandwidth) {
        rate = host.dram_bandwidth;
        adjust(path, rate.value() / kGiga, "GB/s");
      }
    };
    bound("host.adam_bandwidth", host.adam_bandwidth);
    bound("host.elementwise_bandwidth", host.elementwise_bandwidth);
    if (host.worker_adam_bandwidth) {
      bound("host.worker_adam_bandwidth", *host.worker_adam_bandwidth);
    }
    if (most > host.dram_bandwidth) {
      host.dram_bandwidth = most;
      adjust("host.dram_bandwidth", most.value() / kGiga, "GB/s");
    }
  }

  HardwareProfile profile_;
  std::vector<FittedNumber> numbers_;
};

/// A profile of which nothing is fitted would only look as if it were of the machine.
void check_something_is_identifiable(const std::vector<ProfileConstant>& constants,
                                     const ConstantFit& fit,
                                     const std::vector<std::string>& notes) {
  std::string why;
  for (std::size_t c = 0; c < constants.size(); ++c) {
    if (fit.estimates[c].identifiable) return;
    if (fit.estimates[c].samples == 0) continue;
    why += fmt::format("\n  {}: {}", constants[c].path, fit.estimates[c].reason);
  }
  for (const std::string& note : notes) why += "\n  " + note;
  throw Error(ErrorKind::kInput, "the traces determine no constant:" + why);
}

}  // namespace

TraceBaseline trace_baseline(const FitTrace& one, const TraceRules& rules) {
  const ImportedTrace& trace = *one.trace;
  TraceBaseline baseline;
  baseline.name = one.name;
  baseline.analysis = analyze(trace, rules);
  // Simulated launches stand where a step begins and cost nothing.
  if (!is_simulated(trace.timeline)) {
    baseline.launch = launch_times(trace.timeline, launch_of_spans(trace.timeline));
  }
  const std::vector<StepAnalysis>& steps = baseline.analysis.steps;
  const UsualMean intervals = usual_interval(steps);
  if (trace.timers) {
    const UsualSteps usual = trace.timers->usual_steps();
    baseline.counted = usual.usual.size();
    if (!usual.usual.empty()) {
      baseline.step_seconds = 1e-3 * mean(usual.usual);
      baseline.steps = usual.text();
    } else if (std::isfinite(trace.timers->step_ms)) {
      baseline.step_seconds = 1e-3 * trace.timers->step_ms;
    }
  } else if (intervals.milliseconds) {
    baseline.step_seconds = 1e-3 * *intervals.milliseconds;
    baseline.counted = intervals.steps;
    baseline.steps =
        fmt::format("{} steps, each to the next one's start{}", intervals.steps, apart_text(steps));
  } else if (steps.size() > 1) {
    const double whole = to_seconds(steps.back().start - steps.front().start).value();
    baseline.counted = steps.size() - 1;
    baseline.step_seconds = whole / static_cast<double>(baseline.counted);
  } else if (steps.size() == 1) {
    baseline.step_seconds = to_seconds(steps.front().duration).value();
    baseline.counted = 1;
  }
  return baseline;
}

namespace {

void remark_another_device(const FitTrace& one, const HardwareProfile& base,
                           TraceBaseline& baseline) {
  if (is_simulated(one.trace->timeline)) return;
  for (const std::string& text : differences(traced_job({one.trace}), base)) {
    baseline.remarks.push_back(text + ": what is fitted to it may be wrong");
  }
}

/// A card's peak is no estimate: what is faster was counted wrongly.
void remark_raised_peaks(const HardwareProfile& base, TraceFit& fit) {
  double times = 1;
  for (const auto& [dtype, peak] : fit.profile.gpu.peak) {
    times = std::max(times, peak / base.gpu.peak.at(dtype));
  }
  constexpr double kNoise = 1.02;
  if (times <= kNoise) return;
  const std::string text = fmt::format(
      "products are {:.3g} times as fast as the base profile's peak, which is raised: precision, "
      "batch, model or GPU may not be those of what was recorded",
      times);
  fit.baselines.front().remarks.push_back(text);
  fit.remarks.push_back(fmt::format("{}: {}", fit.baselines.front().name, text));
}

/// A rank's optimizer that is no faster than one thread streams is one thread, or several on a
/// core.
void remark_one_thread(const TraceFitInput& input, TraceFit& fit) {
  const bool is_fitted = std::any_of(
      fit.numbers.begin(), fit.numbers.end(),
      [](const FittedNumber& one) { return one.path == "host.adam_bandwidth" && one.fitted; });
  const auto of_job = std::find_if(input.traces.begin(), input.traces.end(),
                                   [](const FitTrace& one) { return one.job != nullptr; });
  if (!is_fitted || of_job == input.traces.end()) return;
  const auto ranks = static_cast<double>(of_job->job->scenario.gpus);
  const BytesPerSecond of_rank = fit.profile.host.adam_bandwidth / ranks;
  if (of_rank > fit.profile.host.core_bandwidth) return;
  const std::string text = fmt::format(
      "the CPU optimizer of a rank moves {:.2g} GB/s, no more than one thread does (up to {:.2g} "
      "GB/s): OMP_NUM_THREADS is 1, as torchrun sets it, or its threads share a core",
      of_rank.value() / kGiga, fit.profile.host.core_bandwidth.value() / kGiga);
  TraceBaseline& baseline =
      fit.baselines.at(static_cast<std::size_t>(of_job - input.traces.begin()));
  baseline.remarks.push_back(text);
  fit.remarks.push_back(fmt::format("{}: {}", baseline.name, text));
}

}  // namespace

std::vector<std::string> import_remarks(const std::string& name, const ImportedTrace& trace) {
  std::vector<std::string> remarks;
  for (const std::string& problem : trace.problems) {
    const std::string prefix = name + ": ";
    remarks.push_back(problem.starts_with(prefix) ? problem.substr(prefix.size()) : problem);
  }
  std::vector<LeftOut> kinds = trace.left_out;
  if (kinds.empty()) return remarks;
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const LeftOut& a, const LeftOut& b) { return a.count > b.count; });
  constexpr std::size_t kShown = 3;
  std::string text = "not read:";
  for (std::size_t i = 0; i < std::min(kShown, kinds.size()); ++i) {
    text += fmt::format("{} {} {}", i > 0 ? "," : "", kinds[i].count, kinds[i].what);
  }
  if (kinds.size() > kShown) text += fmt::format(" and {} further kinds", kinds.size() - kShown);
  remarks.push_back(text + " (--analyze lists all, with their time)");
  return remarks;
}

TraceFit fit_traces(const TraceFitInput& input) {
  if (input.traces.empty()) throw Error(ErrorKind::kInput, "fit: expected a trace");
  TraceFit fit;
  std::vector<TraceWork> works;
  for (const FitTrace& one : input.traces) {
    fit.baselines.push_back(trace_baseline(one, input.rules));
    fit.baselines.back().remarks = import_remarks(one.name, *one.trace);
    remark_another_device(one, input.base, fit.baselines.back());
    for (const std::string& text : one.remarks) fit.baselines.back().remarks.push_back(text);
    works.push_back(work_of(one, input, fit.baselines.back().launch));
  }
  std::vector<bool> tells;
  for (const TraceWork& work : works) tells.push_back(!work.groups.empty());
  for (const std::vector<std::size_t>& machine : machines_of(input.traces, fit.baselines)) {
    std::vector<const Timeline*> timelines;
    for (const std::size_t i : machine) timelines.push_back(&input.traces[i].trace->timeline);
    TraceWork copies = copy_work(timelines, input.base);
    if (!copies.groups.empty()) {
      for (const std::size_t i : machine) tells[i] = true;
      remark_unseen_gpus(input.traces, input.base, machine, fit.baselines[machine.front()]);
    }
    works[machine.front()].add(std::move(copies));
  }
  TraceWork all;
  for (std::size_t i = 0; i < works.size(); ++i) {
    TraceBaseline& baseline = fit.baselines[i];
    if (!tells[i]) works[i].notes.emplace_back("nothing in it tells a constant");
    for (std::string& note : works[i].notes) baseline.remarks.push_back(std::move(note));
    works[i].notes.clear();
    for (const std::string& one : baseline.remarks) {
      fit.remarks.push_back(fmt::format("{}: {}", baseline.name, one));
    }
    all.add(std::move(works[i]));
  }
  if (all.groups.empty()) {
    std::string why;
    for (const std::string& one : fit.remarks) why += "\n  " + one;
    throw Error(ErrorKind::kInput, "nothing to fit to:" + why);
  }
  const std::vector<ProfileConstant> constants = profile_constants(input.base);
  const ConstantFit found = fit_constants(input.base, constants, all.groups);
  check_something_is_identifiable(constants, found, fit.remarks);
  NumberList numbers(input.base, constants, found);
  fit.profile = numbers.profile();
  fit.numbers = numbers.take();
  remark_raised_peaks(input.base, fit);
  remark_one_thread(input, fit);
  return fit;
}

}  // namespace zenflow::sim
