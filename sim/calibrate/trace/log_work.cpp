#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/calibrate/trace/clock_tick.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/cost/cpu_cost.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/deepspeed_step.h"
#include "sim/schedule/step_plan.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

/// What each of an update's calls of CPU Adam works on, of a rank: in stage 3 its sub-groups, but
/// those that stay on the GPU, else its part of the parameters.
std::vector<double> adam_calls(const Job& job) {
  if (job.deepspeed.zero_stage != 3) return {job.partition()};
  const SubGroups groups = sub_groups(job);
  return {groups.elements.begin() + static_cast<std::ptrdiff_t>(groups.on_gpu),
          groups.elements.end()};
}

/// One call while all ranks of the node work.
double call_seconds(const HardwareProfile& profile, const Job& job, double parameters) {
  const HostProfile& host = profile.host;
  const double rate =
      adam_rate(host, rank_threads(job).cores).value() / static_cast<double>(job.scenario.gpus);
  return host.adam_launch.value() + optimizer_bytes(job).traffic * parameters / rate;
}

double adam_seconds(const HardwareProfile& profile, const Job& job) {
  double seconds = 0;
  for (const double parameters : adam_calls(job)) {
    seconds += call_seconds(profile, job, parameters);
  }
  return seconds;
}

double forward_seconds(const HardwareProfile& profile, Job job) {
  job.scenario.hardware = profile;
  double total = 0;
  for (const PlannedLayer& layer : plan_step(job).layers)
    total += to_seconds(layer.forward).value();
  return total;
}

/// Times that one value predicts, each off by `clock` seconds; those of zero and less are no times.
template <class Predict>
TimedGroup group_of(std::string what, const std::vector<double>& seconds, double clock,
                    const char* tells, Predict predict) {
  TimedGroup group{.what = std::move(what),
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = 1e-3,
                   .amount_name = "ms",
                   .predict = {},
                   .only = {tells}};
  for (const double one : seconds) {
    if (one > 0) group.seconds.push_back(one);
  }
  group.amounts = group.seconds;
  group.clock_errors.assign(group.seconds.size(), clock);
  group.predict = [count = group.seconds.size(), predict](const HardwareProfile& profile) {
    return std::vector<double>(count, predict(profile));
  };
  return group;
}

constexpr double kMilli = 1e-3;

std::vector<double> in_seconds(const TimerSeries& series, double parts) {
  std::vector<double> found;
  for (const double one : series.values) found.push_back(kMilli * one / parts);
  return found;
}

/// A timer's value is rounded once: half of a difference's variance.
double rounding_of(const TimerSeries& series, double parts) {
  return clock_error(kMilli * decimal_tick(series.values), 0.5) / parts;
}

/// The updates of each step that has any, if each has a range for every call: one by one.
std::optional<TimedGroup> calls_of_steps(const Timeline& timeline, const Intervals& updates,
                                         double clock, const Job& job) {
  const std::vector<double> parameters = adam_calls(job);
  if (parameters.size() < 2) return std::nullopt;
  TimedGroup group{.what = "calls of the CPU optimizer",
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = 1e6,
                   .amount_name = "M parameters",
                   .predict = {},
                   .only = {"host.adam_bandwidth", "host.adam_launch"}};
  for (const TimelineStep& step : timeline.steps) {
    std::vector<double> seconds;
    for (const Interval& one : updates) {
      if (one.start < step.start || one.start >= step.end) continue;
      seconds.push_back(to_seconds(one.end - one.start).value());
    }
    if (seconds.empty()) continue;
    if (seconds.size() != parameters.size()) return std::nullopt;
    group.seconds.insert(group.seconds.end(), seconds.begin(), seconds.end());
    group.amounts.insert(group.amounts.end(), parameters.begin(), parameters.end());
  }
  if (group.seconds.empty()) return std::nullopt;
  group.clock_errors.assign(group.seconds.size(), clock);
  group.predict = [job, calls = group.amounts](const HardwareProfile& profile) {
    std::vector<double> times;
    for (const double one : calls) times.push_back(call_seconds(profile, job, one));
    return times;
  };
  return group;
}

}  // namespace

namespace {

constexpr const char* kUpdate = "optimizer_step";
constexpr const char* kSwapIn = "optimizer_swap_in_state";
constexpr const char* kSwapOut = "optimizer_swap_out_state";

/// What an update moves between NVMe and RAM, of all ranks of a node, which share it: sub-group
/// after sub-group, state and gradients in, state out. Source: deepspeed_stage3.cpp.
std::vector<Bytes> swaps(const Job& job, NvmeAccess access) {
  const OptimizerBytes bytes = optimizer_bytes(job);
  const double state = bytes.master + bytes.states;
  const double each = access == NvmeAccess::kRead ? state + bytes.gradient : state;
  const auto ranks = static_cast<double>(job.scenario.gpus);
  std::vector<Bytes> all;
  for (const double parameters : adam_calls(job)) all.emplace_back(ranks * each * parameters);
  return all;
}

double swap_seconds(const HardwareProfile& profile, const Job& job, NvmeAccess access) {
  Seconds sum{};
  for (const Bytes bytes : swaps(job, access)) sum += nvme_time(*profile.nvme, access, bytes);
  return sum.value();
}

/// With pipeline_write: writes take no longer than the update that hides them.
std::string hidden_writes(const Job& job, const TimerSeries* update) {
  std::string text = fmt::format(
      "timer \"{}\" not used: with pipeline_write it is the wait for the last writes alone",
      kSwapOut);
  if (update == nullptr || update->mean() <= 0) return text;
  Bytes bytes{};
  for (const Bytes one : swaps(job, NvmeAccess::kWrite)) bytes += one;
  return text + fmt::format("; NVMe writes at least {:.2g} GB/s, what passes in an update",
                            1e-9 * bytes.value() / (kMilli * update->mean()));
}

/// The update's time without the swaps, of each step.
TimerSeries without_swaps(const TimerSeries& update, const TimerSeries& in,
                          const TimerSeries& out) {
  TimerSeries rest{update.name, {}};
  const std::size_t steps = std::min({update.values.size(), in.values.size(), out.values.size()});
  for (std::size_t i = 0; i < steps; ++i) {
    rest.values.push_back(update.values[i] - in.values[i] - out.values[i]);
  }
  return rest;
}

void add_cpu_update(const TimerSeries& update, const Job& job, const char* what, TraceWork& work) {
  work.add(group_of(what, in_seconds(update, 1), rounding_of(update, 1), "host.adam_bandwidth",
                    [job](const HardwareProfile& profile) { return adam_seconds(profile, job); }));
}

/// Of a job whose optimizer state is on NVMe: the disks by the swap timers, CPU Adam by the rest.
void add_swaps(const TimerLog& log, const Job& job, TraceWork& work) {
  const TimerSeries* const in = log.find(kSwapIn);
  const TimerSeries* const out = log.find(kSwapOut);
  const TimerSeries* const update = log.find(kUpdate);
  if (in == nullptr || out == nullptr || !job.scenario.hardware.nvme) {
    work.notes.emplace_back(
        "optimizer timers not used: without swap timers beside them nothing says what of them NVMe "
        "took");
    return;
  }
  const auto add = [&](const TimerSeries& series, NvmeAccess access, const char* tells) {
    work.add(group_of(fmt::format("timer \"{}\"", series.name), in_seconds(series, 1),
                      rounding_of(series, 1), tells, [job, access](const HardwareProfile& profile) {
                        return swap_seconds(profile, job, access);
                      }));
  };
  add(*in, NvmeAccess::kRead, "nvme.read");
  if (!job.deepspeed.pipeline_write) {
    add(*out, NvmeAccess::kWrite, "nvme.write");
  } else {
    work.notes.push_back(hidden_writes(job, update));
  }
  if (update == nullptr) return;
  const TimerSeries rest = without_swaps(*update, *in, *out);
  add_cpu_update(rest, job, "timer \"optimizer_step\" without swaps", work);
  work.notes.emplace_back(
      "timer \"optimizer_step\" without the swap timers is taken for CPU Adam alone: what else it "
      "holds lowers the rate");
  if (job.deepspeed.pipeline_read && in->mean() > 0) {
    work.notes.push_back(fmt::format(
        "timer \"{}\" is what the update waited for: with pipeline_read up to {:.0f} % more may "
        "have passed unseen behind CPU Adam, and NVMe read slower by as much",
        kSwapIn, 100 * std::max(0.0, rest.mean()) / in->mean()));
  }
}

void add_update(const TimerLog& log, const Job& job, TraceWork& work) {
  const TimerSeries* const update = log.find(kUpdate);
  if (job.deepspeed.offload_optimizer == OffloadDevice::kNvme) return add_swaps(log, job, work);
  if (job.deepspeed.offload_optimizer != OffloadDevice::kCpu) {
    work.notes.emplace_back(
        "optimizer timers not used: the configuration does not offload the optimizer to the CPU");
  } else if (log.find(kSwapIn) != nullptr) {
    work.notes.emplace_back(
        "optimizer timers not used: they also hold the transfers of optimizer state from NVMe, "
        "which the configuration does not use");
  } else if (update != nullptr) {
    add_cpu_update(*update, job, "timer \"optimizer_step\"", work);
    work.notes.emplace_back(
        "timer \"optimizer_step\" is taken for CPU Adam alone: what else it holds lowers the rate");
  }
}

}  // namespace

double micro_batch_seconds(const Job& job) {
  double total = 0;
  for (const PlannedLayer& layer : plan_step(job).layers) {
    total += to_seconds(layer.forward + layer.backward).value();
  }
  return total;
}

bool may_repeat_steps(const ImportedTrace& trace, const Job& job) {
  const std::vector<TimelineStep>& steps = trace.timeline.steps;
  if (trace.step_source != StepSource::kPeriod || steps.size() < 2) return true;
  const double whole = to_seconds(steps.back().start - steps.front().start).value();
  constexpr double kFaster = 3;  // than the profile's GPU may it be
  return kFaster * whole >= static_cast<double>(steps.size() - 1) * micro_batch_seconds(job);
}

TraceWork host_update_work(const Timeline& timeline, const Job& job, const TraceRules& rules) {
  Intervals updates;
  for (const Activity& one : host_activities(timeline, rules)) {
    if (one.cause == WaitCause::kCpuUpdate) updates.push_back({one.start, one.end});
  }
  updates = unite(std::move(updates));
  const double tick = clock_tick(timeline, [](SpanKind kind) { return !is_gpu_work(kind); });
  TraceWork work;
  if (auto calls = calls_of_steps(timeline, updates, clock_error(tick), job)) {
    work.add(std::move(*calls));
    return work;
  }
  std::vector<double> seconds;
  for (const TimelineStep& step : timeline.steps) {
    seconds.push_back(to_seconds(length_within(updates, step.start, step.end)).value());
  }
  work.add(group_of("CPU optimizer of a step", seconds, clock_error(tick), "host.adam_bandwidth",
                    [job](const HardwareProfile& profile) { return adam_seconds(profile, job); }));
  if (!updates.empty() && work.groups.empty()) {
    work.notes.emplace_back("CPU optimizer ranges left aside: none within a step");
  }
  return work;
}

TraceWork log_work(const ImportedTrace& trace, const Job& job) {
  const TimerLog& log = *trace.timers;
  const auto micro_steps = static_cast<double>(job.deepspeed.gradient_accumulation_steps);
  // Who calls the engine's step once a batch, as accelerate does, has a record of micro steps as
  // often as one of steps: all of a batch are in it.
  const auto summed = static_cast<double>(log.summed_micro_steps);
  const bool holds_several = !job.deepspeed.zenflow && summed > 0 && micro_steps > summed;
  const double in_record = holds_several ? micro_steps / summed : 1;
  TraceWork work;
  const auto forward = [&](const char* name, double parts) {
    const TimerSeries* series = log.find(name);
    if (series == nullptr || !work.groups.empty()) return;
    work.add(
        group_of(fmt::format("timer \"{}\"", name), in_seconds(*series, parts),
                 rounding_of(*series, parts), "gpu.gemm_efficiency",
                 [job](const HardwareProfile& profile) { return forward_seconds(profile, job); }));
  };
  forward("fwd_microstep", in_record);
  forward("forward_microstep", in_record);
  forward("fwd", micro_steps);
  forward("forward", micro_steps);
  if (!work.groups.empty()) {
    work.notes.emplace_back(
        "forward timers tell the products' rate alone; attention, element-wise passes and launches "
        "are taken as the base profile has them");
  }
  work.notes.emplace_back(
      "backward timers not used: they also hold the reduction and the copies of gradients");
  add_update(log, job, work);
  return work;
}

}  // namespace zenflow::sim
