#include "sim/report/explain.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include <fmt/format.h>

#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

void scale_path(HostPath& path, double factor) {
  path.h2d = factor * path.h2d;
  path.d2h = factor * path.d2h;
  path.bidirectional = factor * path.bidirectional;
}

void scale_gpu(GpuProfile& gpu, double factor) {
  gpu.memory_bandwidth = factor * gpu.memory_bandwidth;
  gpu.kernel_launch = gpu.kernel_launch / factor;
  for (auto& [dtype, peak] : gpu.peak) peak = factor * peak;
}

void scale_host_link(HostLinkProfile& link, double factor) {
  scale_path(link.pinned, factor);
  link.pageable_h2d = factor * link.pageable_h2d;
  link.pageable_d2h = factor * link.pageable_d2h;
  for (HostSwitch& one : link.switches) scale_path(one.path, factor);
}

bool has(const Job& job, Resource resource) {
  if (resource == Resource::kGpuLink) return job.scenario.ranks() > 1;
  if (resource == Resource::kNvme) return job.scenario.hardware.nvme.has_value();
  return true;
}

SimulationResult with_hardware(const Job& job, const Schedule& schedule, Resource resource,
                               double factor) {
  Job changed = job;
  changed.scenario.hardware = scaled(job.scenario.hardware, resource, factor);
  return simulate_schedule(changed, schedule);
}

/// The lane kind, or for work on the GPU and on collectives what it does.
std::string path_name(const Program& program, TaskId id) {
  const LaneKind lane = program.lanes[program.graph.tasks()[id].lane].kind;
  if (lane == LaneKind::kCompute || lane == LaneKind::kCollective || lane == LaneKind::kGather) {
    return std::string(simulated_name(program.labels[id].operation));
  }
  return std::string(simulated_name(lane));
}

std::vector<PathShare> binding_path(const FullRun& run) {
  const std::size_t last = run.measured_end;
  const std::vector<ChainLink> chain =
      binding_chain(run.program, run.execution, run.program.windows[last].marker,
                    run.execution.spans[run.program.windows[run.measured_begin].marker].start);
  std::map<std::string, double> by_name;
  for (const ChainLink& link : chain) {
    const auto time = static_cast<double>(link.time.count);
    const double slowed = std::min(time, slowed_by_update(run.program, run.execution, link.task));
    by_name[path_name(run.program, link.task)] += time - slowed;
    if (slowed > 0) by_name[std::string(simulated_name(LaneKind::kCpuUpdate))] += slowed;
  }
  double steps = 0;
  for (std::size_t i = run.measured_begin; i < last; ++i) steps += run.program.shapes[i].steps;
  std::vector<PathShare> path;
  path.reserve(by_name.size());
  for (const auto& [name, time] : by_name) path.push_back({name, time / steps});
  std::stable_sort(path.begin(), path.end(),
                   [](const PathShare& a, const PathShare& b) { return a.time > b.time; });
  return path;
}

/// What the explanation's sentence is made from.
struct Facts {
  const Job& job;
  const Schedule& schedule;
  const SimulationResult& result;
  double update = 0;  ///< CPU optimizer time of one window, picoseconds
  double window = 0;  ///< GPU time of one window
};

double stall(const SimulationResult& result, WaitCause cause) {
  return result.stall_by_cause[static_cast<std::size_t>(cause)];
}

/// Whether the GPU no longer waits for the CPU optimizer, by update_interval auto's rule.
bool cpu_keeps_up(const SimulationResult& result) {
  return stall(result, WaitCause::kCpuUpdate) <= 0.005 * result.step_time;
}

std::string advice_on_interval(const Facts& facts) {
  const std::int64_t own = *facts.result.update_interval;
  // hf and accelerate have windows of gradient_accumulation_steps.
  const Job longer = with_update_interval(facts.job, own + 1);
  if (facts.schedule.zenflow(longer)->update_interval == own) {
    return "raise gradient_accumulation_steps, which its windows are under this launcher, whatever "
           "update_interval says";
  }
  for (std::int64_t interval = *facts.result.update_interval + 1;; ++interval) {
    const Job job = with_update_interval(facts.job, interval);
    if (facts.schedule.closed_form(job).staleness_steps.max > job.scenario.max_staleness) break;
    const SimulationResult tried = simulate_schedule(job, facts.schedule);
    if (cpu_keeps_up(tried)) {
      return fmt::format("raise update_interval to {} (step {}, staleness up to {})", interval,
                         format_seconds(tried.step_time), tried.staleness.max);
    }
  }
  return fmt::format("raising update_interval does not hide it within {} steps of staleness",
                     facts.job.scenario.max_staleness);
}

/// By how much the optimizer's memory bandwidth, and DRAM's with it, has to grow: tried in
/// tenths, since what follows the update (the upload) has to fit the window too.
std::string advice_on_bandwidth(const Facts& facts) {
  constexpr int kMost = 100;
  for (int tenths = 11; tenths <= kMost; ++tenths) {
    const double factor = tenths / 10.0;
    Job faster = facts.job;
    faster.scenario.hardware =
        scaled(scaled(facts.job.scenario.hardware, Resource::kCpuOptimizer, factor),
               Resource::kDram, factor);
    if (cpu_keeps_up(simulate_schedule(faster, facts.schedule))) {
      return fmt::format(", or give the optimizer {:.1f} times the memory bandwidth", factor);
    }
  }
  return "; ten times the optimizer's memory bandwidth would not hide it";
}

/// Updates that overlap steps are hidden, and the GPU waits for what else is done with gradients in
/// host memory.
std::string explain_cpu_besides_updates(const Facts& facts) {
  return fmt::format(
      "the GPU waits {} of every {} step for the CPU, and not for the optimizer, whose {} end "
      "within a window of {}: the training process sums, scales and casts gradients in host "
      "memory, less often with a larger micro batch, and faster with more memory bandwidth and "
      "cores",
      format_seconds(stall(facts.result, WaitCause::kCpuUpdate)),
      format_seconds(facts.result.step_time), format_seconds(facts.update),
      format_seconds(facts.window));
}

std::string explain_cpu_with_zenflow(const Facts& facts) {
  constexpr double kHidden = 0.8;  // of a window, the upload besides
  const auto& zenflow = facts.job.deepspeed.zenflow;
  if (zenflow && zenflow->overlap_step && facts.update < kHidden * facts.window) {
    return explain_cpu_besides_updates(facts);
  }
  const auto steps = static_cast<std::uint64_t>(*facts.result.update_interval);
  return fmt::format("the CPU optimizer needs {} for a {} window of {}: {}{}",
                     format_seconds(facts.update), format_seconds(facts.window),
                     counted(steps, "step"), advice_on_interval(facts), advice_on_bandwidth(facts));
}

/// Whether more threads would shorten the step, and by how much: both times.
std::string advice_on_threads(const Facts& facts) {
  const auto threads = advised_threads(facts.job);
  if (!threads || !facts.schedule.runs_deepspeed()) return "";
  Job more = facts.job;
  more.scenario.omp_num_threads = *threads;
  const double step = simulate_step_time(more, facts.schedule);
  constexpr double kWorthSaying = 0.98;
  if (step > kWorthSaying * facts.result.step_time) return "";
  const RankThreads now = rank_threads(facts.job);
  return fmt::format("{} optimizer thread{} ({}): set OMP_NUM_THREADS={} (step {} to {}); ",
                     now.of_rank == 1 ? "one" : std::to_string(now.of_rank),
                     now.of_rank == 1 ? "" : "s a rank", now.why, *threads,
                     format_seconds(facts.result.step_time), format_seconds(step));
}

std::string explain_cpu(const Facts& facts) {
  std::string sentence = fmt::format("the GPU waits {} of every {} step for the CPU optimizer",
                                     format_seconds(stall(facts.result, WaitCause::kCpuUpdate)),
                                     format_seconds(facts.result.step_time));
  // What DeepSpeed would take is said by its own schedule, not by the paper's.
  const bool deepspeed = facts.schedule.name().starts_with("deepspeed-");
  const Schedule& zenflow = find_schedule(deepspeed ? "deepspeed-zenflow" : "zenflow");
  if (facts.job.deepspeed.zenflow) {
    const SimulationResult other = simulate_schedule(facts.job, zenflow);
    sentence +=
        fmt::format(": schedule {} (topk_ratio {}, update_interval {}) takes {}", zenflow.name(),
                    *other.topk_ratio, *other.update_interval, format_seconds(other.step_time));
  } else {
    sentence += fmt::format(": overlap it with the GPU (schedule {})", zenflow.name());
  }
  return sentence + ", or give the CPU more memory bandwidth and cores";
}

/// Whether a larger topk_ratio leaves less to copy; not in DeepSpeed's implementation.
bool topk_ratio_saves_traffic(const Facts& facts) {
  if (!facts.job.deepspeed.zenflow) return false;
  Job more = facts.job;
  double& ratio = more.deepspeed.zenflow->topk_ratio;
  ratio = (1 + ratio) / 2;
  return facts.schedule.closed_form(more).d2h_bytes_per_step <
         facts.schedule.closed_form(facts.job).d2h_bytes_per_step;
}

std::string explain_copies(const Facts& facts, WaitCause cause) {
  const bool down = cause == WaitCause::kD2H;
  const double bytes = down ? facts.result.d2h_bytes : facts.result.h2d_bytes;
  std::string sentence = fmt::format(
      "{} copies hold the GPU for {} of every {} step ({} a step and GPU): use a faster link or "
      "one that fewer GPUs share",
      down ? "device-to-host" : "host-to-device", format_seconds(stall(facts.result, cause)),
      format_seconds(facts.result.step_time), format_gib(bytes));
  if (topk_ratio_saves_traffic(facts)) sentence += ", raise topk_ratio";
  return sentence + ", or a larger micro batch";
}

/// Share of what counts as computing in which the GPU waits for the host to launch kernels and to
/// run DeepSpeed's hooks.
double launching_share(const Facts& facts) {
  if (live_kind(facts.schedule.name())) return 0;
  double launching = 0;
  for (const PlannedLayer& layer : plan_step(facts.job).layers) {
    launching += static_cast<double>(layer.launching.count);
  }
  return launching / facts.result.compute;
}

std::string explain_gpu(const Facts& facts) {
  constexpr double kMuch = 0.2;
  if (const double share = launching_share(facts); share > kMuch) {
    return fmt::format(
        "the host bounds the step: in {} of the time that counts as computing the GPU waits for it "
        "to launch kernels{}: a larger micro batch{} helps; a faster GPU gains little",
        format_percent(share),
        facts.job.deepspeed.zero_stage == 3 ? " and run stage 3's hooks" : "",
        facts.job.deepspeed.zero_stage == 3 ? ", or a lower stage if it fits," : "");
  }
  return fmt::format(
      "the GPU computes {} of the time, so it bounds the step: a faster GPU, less recomputation "
      "or better kernels help; faster copies or CPUs gain at most {}",
      format_percent(facts.result.compute / facts.result.step_time),
      format_percent(facts.result.stall / facts.result.step_time));
}

std::string explain_cause(const Facts& facts, WaitCause cause) {
  switch (cause) {
    case WaitCause::kCpuUpdate:
      return facts.result.update_interval ? explain_cpu_with_zenflow(facts) : explain_cpu(facts);
    case WaitCause::kD2H:
    case WaitCause::kH2D:
      return explain_copies(facts, cause);
    case WaitCause::kCollective:
      return fmt::format(
          "collectives between GPUs hold the GPU for {} of every {} step: use faster "
          "GPU links or fewer ranks",
          format_seconds(stall(facts.result, cause)), format_seconds(facts.result.step_time));
    case WaitCause::kNvme:
      return fmt::format(
          "NVMe holds the GPU for {} of every {} step: keep the optimizer in CPU "
          "memory if it fits, or use more or faster drives",
          format_seconds(stall(facts.result, cause)), format_seconds(facts.result.step_time));
    case WaitCause::kSelection:
      return "selecting columns holds the GPU: raise select_interval";
    default:  // kLaunch: no other is simulated
      return explain_gpu(facts);
  }
}

std::string bound_sentence(const Facts& facts) {
  const StallTimes& causes = facts.result.stall_by_cause;
  const auto* const largest = std::max_element(causes.begin(), causes.end());
  const std::string threads = advice_on_threads(facts);
  // The GPU bounds the step while no single wait is a tenth of what it computes.
  if (*largest < 0.1 * facts.result.compute) return threads + explain_gpu(facts);
  return threads + explain_cause(facts, static_cast<WaitCause>(largest - causes.begin()));
}

/// Time of one rank's CPU optimizer lane in the last averaged window.
double update_time(const FullRun& run) {
  const Program& program = run.program;
  const TaskId end = program.windows[run.measured_end].first;
  double time = 0;
  for (TaskId id = program.windows[run.measured_end - 1].first; id < end; ++id) {
    const LaneInfo& lane = program.lanes[program.graph.tasks()[id].lane];
    if (lane.kind != LaneKind::kCpuUpdate || lane.rank_class != 0) continue;
    const Span& span = run.execution.spans[id];
    time += static_cast<double>((span.end - span.start).count);
  }
  return time;
}

}  // namespace

std::string to_string(Resource resource) {
  switch (resource) {
    case Resource::kGpu:
      return "GPU";
    case Resource::kHostLink:
      return "GPU-host link";
    case Resource::kCpuOptimizer:
      return "CPU optimizer";
    case Resource::kDram:
      return "DRAM bandwidth";
    case Resource::kGpuLink:
      return "GPU-GPU link";
    case Resource::kNvme:
      return "NVMe";
  }
  return "";
}

HardwareProfile scaled(HardwareProfile hardware, Resource resource, double factor) {
  switch (resource) {
    case Resource::kGpu:
      scale_gpu(hardware.gpu, factor);
      break;
    case Resource::kHostLink:
      scale_host_link(hardware.host_link, factor);
      break;
    case Resource::kCpuOptimizer:
      hardware.host.adam_bandwidth = factor * hardware.host.adam_bandwidth;
      if (auto& worker = hardware.host.worker_adam_bandwidth) worker = factor * *worker;
      hardware.host.adam_launch = hardware.host.adam_launch / factor;
      hardware.host.elementwise_bandwidth = factor * hardware.host.elementwise_bandwidth;
      hardware.host.core_bandwidth = factor * hardware.host.core_bandwidth;
      break;
    case Resource::kDram:
      hardware.host.dram_bandwidth = factor * hardware.host.dram_bandwidth;
      break;
    case Resource::kGpuLink:
      hardware.gpu_link->bandwidth = factor * hardware.gpu_link->bandwidth;
      if (hardware.network) hardware.network->bandwidth = factor * hardware.network->bandwidth;
      break;
    case Resource::kNvme:
      hardware.nvme->read = factor * hardware.nvme->read;
      hardware.nvme->write = factor * hardware.nvme->write;
      break;
  }
  return hardware;
}

Explanation explain(const Job& job, const Schedule& schedule) {
  Explanation explanation;
  explanation.result = simulate_schedule(job, schedule);
  const Job fixed = explanation.result.update_interval_is_auto
                        ? with_update_interval(job, *explanation.result.update_interval)
                        : job;
  const FullRun run = simulate_fully(fixed, schedule);
  explanation.path = binding_path(run);
  for (const Resource resource : {Resource::kGpu, Resource::kHostLink, Resource::kCpuOptimizer,
                                  Resource::kDram, Resource::kGpuLink, Resource::kNvme}) {
    if (!has(job, resource)) continue;
    explanation.what_if.push_back(
        {resource, with_hardware(fixed, schedule, resource, 2.0).step_time});
  }
  std::stable_sort(explanation.what_if.begin(), explanation.what_if.end(),
                   [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; });
  const double steps = static_cast<double>(explanation.result.step_times.size());
  const Facts facts{fixed, schedule, explanation.result, update_time(run),
                    steps * explanation.result.compute};
  explanation.bound = bound_sentence(facts);
  return explanation;
}

}  // namespace zenflow::sim
