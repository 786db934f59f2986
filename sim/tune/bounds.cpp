#include "sim/tune/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>

#include "sim/cost/cpu_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/offload.h"
#include "sim/simulate/simulation.h"
#include "sim/tune/live_bounds.h"
#include "sim/tune/published_bounds.h"
#include "sim/tune/step_facts.h"
#include "sim/tune/window_path.h"
#include "sim/tune/worker_effect.h"
#include "sim/tune/zenflow_windows.h"

namespace zenflow::sim {
namespace {

/// Sums of rounded times against one rounded sum, and the engine's count of work in doubles.
constexpr double kRounding = 1 - 1e-7;

/// What a worker of these rates does, remembered.
class WorkerEffects {
 public:
  const WorkerEffect& of(const Scenario& scenario, const RankRates& rates) {
    const Key key = {rates.cpu_update.value(), rates.cpu_accumulate.value(),
                     rates.optimizer_shares_cores ? 1.0 : 0.0, static_cast<double>(scenario.gpus)};
    const auto known = known_.find(key);
    if (known != known_.end()) return known->second;
    return known_.emplace(key, worker_effect(scenario, rates)).first->second;
  }

 private:
  using Key = std::array<double, 4>;
  std::map<Key, WorkerEffect> known_;
};

class Computer {
 public:
  Computer(const Job& job, const BufferFacts& buffers, StepFacts& steps, WorkerEffects& workers)
      : job_(job),
        config_(job.deepspeed),
        hardware_(job.scenario.hardware),
        buffers_(buffers),
        steps_(steps),
        workers_(workers),
        group_(communicator(hardware_, job.scenario.gpus, job.scenario.nodes)),
        bytes_(static_cast<double>(bytes_per_element(job.scenario.training.dtype))),
        partition_(job.partition()),
        ranks_(static_cast<double>(job.scenario.ranks())) {}

  [[nodiscard]] double gpu_only() const {
    const double steps = accumulation();
    const double owned = config_.zero_stage == 0 ? steps_.parameters : partition_;
    const double update = stream(owned * gpu_adam_bytes(job_.scenario.training.dtype));
    const bool gathers = config_.zero_stage == 1 || config_.zero_stage == 2;
    const double gather = gathers ? all_gather(bytes_ * steps_.parameters) : 0;
    const double path = steps * steps_.forward_backward + steps_.last_reduce + update + gather;
    const double stage3 = config_.zero_stage == 3 ? 2 * steps_.gathers : 0;
    return std::max(path, steps * (steps_.reduce + stage3) + gather) / steps;
  }

  [[nodiscard]] double deepspeed_zero() const {
    const double steps = accumulation();
    const bool gathers = config_.zero_stage == 1 || config_.zero_stage == 2;
    const double gather = gathers ? all_gather(bytes_ * steps_.parameters) : 0;
    const double update = picoseconds(deepspeed_zero_update(job_));
    const double reductions = config_.zero_stage < 2 ? 1 : steps;
    // Where reductions are not overlapped, and in stage 0 always, they follow what is computed.
    const bool overlaps = config_.zero_stage > 0 && overlaps_communication(job_);
    const double waits = overlaps ? steps_.last_reduce : reductions * steps_.reduce;
    const double path = steps * steps_.forward_backward + waits + update + gather;
    const double fetches = config_.zero_stage == 3 ? steps * steps_.gathers : 0;
    const double collectives = reductions * steps_.reduce + fetches + gather;
    return std::max(path, collectives) / steps;
  }

  /// The published schedules' work on the CPU, `share` of the parameters.
  [[nodiscard]] double published_offload() const {
    const double steps = accumulation();
    const double cores = all_cores();
    const CpuCosts costs = cpu_costs(job_, cores, cores, config_.gradient_accumulation_steps == 1);
    const double update = update_by_buckets(costs, partition_);
    const double up = copy(Direction::kH2D, bytes_ * partition_);
    const double gather = config_.zero_stage == 3 ? 0 : all_gather(bytes_ * steps_.parameters);
    const double path = steps * steps_.forward_backward + update + up + gather;
    const double down = copy(Direction::kD2H, bytes_ * partition_);
    return std::max({path / steps, down});
  }

  [[nodiscard]] double deepspeed_offload() {
    const std::int64_t steps = config_.gradient_accumulation_steps;
    const double cores = all_cores();
    const DeepSpeedCpu cpu = deepspeed_cpu(job_, cores, cores, OptimizerPlace::kTraining);
    // What moves in the steps of older releases differs: compute alone.
    const double window = !job_.has(Change::kZenFlow)
                              ? static_cast<double>(steps) * steps_.forward_backward
                          : ranks_ == 1 ? steps_.isolated_in_window(steps)
                                        : steps_.path_of_window(steps);
    return (window + blocking(cpu)) / static_cast<double>(steps);
  }

  /// ZenFlow's bytes over the link, a step. `with_interval(S)`: the closed form of windows of S.
  template <class WithInterval>
  [[nodiscard]] double zenflow_traffic(const std::vector<WindowKind>& windows,
                                       WithInterval with_interval) const {
    double bytes = 0;
    for (const WindowKind& one : windows) {
      const ClosedForm form = with_interval(one.steps);
      const double step = form.d2h_bytes_per_step + form.h2d_bytes_per_step;
      // Before columns are selected anew the master is overwritten.
      const double again = one.selects ? bytes_ * partition_ : 0;
      bytes += one.share * (static_cast<double>(one.steps) * step + again);
    }
    return bytes;
  }

  /// ZeRO-Infinity and others of stage 3: gradients alone.
  [[nodiscard]] double deepspeed_gradients() {
    const std::int64_t steps = config_.gradient_accumulation_steps;
    if (!job_.has(Change::kZenFlow)) return steps_.forward_backward;
    return steps_.path_of_window(steps) / static_cast<double>(steps);
  }

  [[nodiscard]] double deepspeed_zenflow(const std::vector<WindowKind>& windows) {
    const ZenFlowSettings& zenflow = *config_.zenflow;
    const DeepSpeedCpu cpu = zenflow.overlap_step ? worker_cpu(zenflow) : training_cpu();
    // Waiting for the update before the last, a backlog may grow for long; nothing is said of it.
    const bool waits = zenflow.overlap_step && zenflow.full_warm_up_rounds > 0;
    const ZenFlowWindow window = this->window(zenflow, cpu, waits);
    double bound = 0;
    double updates = 0;
    for (const WindowKind& one : windows) {
      bound += one.share * window_path(steps_, window, one.steps, one.selects);
      updates += one.share;
    }
    if (!waits) return bound;
    const double update = picoseconds(cpu.whole_update());
    bound = std::max(bound, updates * (update + chain_to_hand_over(cpu)));
    if (cpu.rates.optimizer_shares_cores) {
      // While the optimizer works, compute has half its speed.
      const double compute = steps_.forward_backward + window.selected_update;
      bound = std::max(bound, compute + updates * update / 2);
    }
    return bound;
  }

 private:
  [[nodiscard]] double accumulation() const {
    return static_cast<double>(config_.gradient_accumulation_steps);
  }
  /// The published schedules call the optimizer once a bucket.
  [[nodiscard]] double update_by_buckets(const CpuCosts& costs, double parameters) const {
    const auto calls = static_cast<double>(steps_.plan.buckets.size());
    return picoseconds(parameters * costs.update.time + calls * costs.update.launch);
  }
  [[nodiscard]] double all_cores() const { return static_cast<double>(hardware_.host.cores); }
  [[nodiscard]] double stream(double traffic) const {
    return picoseconds(stream_time(hardware_.gpu, Bytes(traffic)));
  }
  [[nodiscard]] double all_gather(double bytes) const {
    return ranks_ > 1 ? picoseconds(all_gather_time(group_, Bytes(bytes))) : 0;
  }
  [[nodiscard]] double link_time(Direction way, bool pinned, double bytes, int pieces) const {
    const HostLinkProfile& link = hardware_.host_link;
    return picoseconds(copy_time(link, way, pinned, Bytes(bytes)) +
                       static_cast<double>(pieces - 1) * link.latency);
  }
  /// With pin_memory as configured, latencies left out: in how many pieces depends.
  [[nodiscard]] double copy(Direction way, double bytes) const {
    const double factor =
        way == Direction::kD2H ? steps_.links.d2h_factor : steps_.links.h2d_factor;
    return factor *
           picoseconds(Bytes(bytes) / copy_rate(hardware_.host_link, way, config_.pin_memory));
  }
  [[nodiscard]] double pinned_or_pageable(Direction way, double bytes) const {
    if (!config_.pin_memory) return link_time(way, false, bytes, 1);
    const double factor =
        way == Direction::kD2H ? steps_.links.d2h_factor : steps_.links.h2d_factor;
    return factor * link_time(way, true, bytes, 1);
  }

  [[nodiscard]] DeepSpeedCpu training_cpu() const {
    const double cores = all_cores();
    return deepspeed_cpu(job_, cores, cores, OptimizerPlace::kTraining);
  }
  [[nodiscard]] DeepSpeedCpu worker_cpu(const ZenFlowSettings& zenflow) const {
    const double cores = all_cores();
    const double reserved = zenflow.pt_reserved_cores_perc;
    const bool split = job_.has(Change::kWorkerCores) && reserved > 0 && reserved < 1;
    DeepSpeedCpu cpu =
        deepspeed_cpu(job_, split ? reserved * cores : cores,
                      split ? (1 - reserved) * cores : cores, OptimizerPlace::kWorker);
    cpu.rates.optimizer_shares_cores = !(job_.scenario.bind_cores_to_rank && split);
    return cpu;
  }

  [[nodiscard]] double gather_weights() const {
    return config_.zero_stage == 3 ? 0 : all_gather(bytes_ * partition_ * ranks_);
  }
  /// Stage 3 copies from ordinary memory; with offload_param weights stay on the host.
  [[nodiscard]] double weights_up() const {
    const double bytes = bytes_ * partition_;
    if (config_.zero_stage != 3) {
      if (sends_fp32_weights(job_)) {
        return pinned_or_pageable(Direction::kH2D, optimizer_bytes(job_).master * partition_);
      }
      return job_.has(Change::kBufferedUpload) ? pinned_or_pageable(Direction::kH2D, bytes)
                                               : link_time(Direction::kH2D, false, bytes, 1);
    }
    if (config_.offload_param != OffloadDevice::kNone) return 0;
    return link_time(Direction::kH2D, false, bytes, 1);
  }
  [[nodiscard]] double blocking(const DeepSpeedCpu& cpu) const {
    return picoseconds(cpu.scale) + picoseconds(cpu.whole_update()) + picoseconds(cpu.cast) +
           weights_up() + gather_weights();
  }
  /// From the boundary's empty stream until the new gradients are with the worker.
  [[nodiscard]] double chain_to_hand_over(const DeepSpeedCpu& cpu) const {
    return upload(cpu) + picoseconds(cpu.scale);
  }
  [[nodiscard]] double upload(const DeepSpeedCpu& cpu) const {
    const bool wide = zenflow_uploads_fp32(job_);
    const bool on_host = config_.zero_stage == 3 && config_.offload_param != OffloadDevice::kNone;
    const double up =
        on_host ? 0 : link_time(Direction::kH2D, false, (wide ? 4 : bytes_) * partition_, 1);
    return up + (wide ? 0 : picoseconds(cpu.cast));
  }
  [[nodiscard]] double overlapped(const DeepSpeedCpu& cpu) const {
    return upload(cpu) + std::max(picoseconds(cpu.scale), gather_weights());
  }

  /// `waits`: every boundary waits for the update before.
  [[nodiscard]] ZenFlowWindow window(const ZenFlowSettings& zenflow, const DeepSpeedCpu& cpu,
                                     bool waits) {
    const bool stage3 = config_.zero_stage == 3;
    const double all = buffers_.selected * (stage3 ? ranks_ : 1);
    const auto matrix = static_cast<double>(job_.scenario.model.trained_in_matrices());
    ZenFlowWindow window;
    window.pageable_fp32 = zenflow.overlap_step;
    window.chain = zenflow.overlap_step ? overlapped(cpu) : blocking(cpu);
    window.selected_update = stream(bytes_ * (4 * matrix + 9 * all));
    window.more_of_selection = stream(bytes_ * (5 * matrix + 9 * all)) - window.selected_update;
    window.overwriting =
        link_time(Direction::kD2H, false, bytes_ * partition_, 1) + picoseconds(cpu.overwrite);
    window.broadcast = all_gather(bytes_ * all);
    if (stage3 && ranks_ > 1) {
      window.first_fetch = steps_.parts.gather[0];
      window.first_part = steps_.parts.fetch[0];
      window.second_fetch = steps_.parts.gather[1] + steps_.parts.fetch[1];
    }
    if (zenflow.offload) {
      const double moments = 2 * bytes_ * zenflow.topk_ratio *
                             static_cast<double>(job_.scenario.model.trained()) /
                             (stage3 ? ranks_ : 1);
      // The update waits for both copies; on one rank nothing holds the one up but its lane, and
      // it may be done before the step's gradients are down.
      if (ranks_ > 1) window.swap += copy(Direction::kH2D, moments);
      window.swap += copy(Direction::kD2H, moments);
      window.moments = {link_time(Direction::kH2D, config_.pin_memory, moments, 1),
                        link_time(Direction::kD2H, config_.pin_memory, moments, 1)};
    }
    WorkerEffect effect;
    if (zenflow.overlap_step) effect = workers_.of(job_.scenario, cpu.rates);
    if (waits && !effect.apart) {
      const double until = chain_to_hand_over(cpu) + picoseconds(cpu.whole_update());
      window.slow = {until, effect.compute, effect.d2h, effect.h2d};
    }
    if (ranks_ == 1 && (waits || !zenflow.overlap_step)) {
      window.isolated_after = effect.apart ? 0 : picoseconds(cpu.whole_update()) / effect.worker;
    }
    return window;
  }

  const Job& job_;
  const DeepSpeedConfig& config_;
  const HardwareProfile& hardware_;
  const BufferFacts& buffers_;
  StepFacts& steps_;
  WorkerEffects& workers_;
  Communicator group_;
  double bytes_;
  double partition_;
  double ranks_;
};

/// Bounds say what follows the last gradient and what is held with the first ones, which they take
/// to be the first layer's and the head's: of a model with frozen parts they are weaker.
bool is_partly_frozen(const Job& job) {
  return job.scenario.model.trained() < job.scenario.model.parameters();
}

double step_bound(const Job& job, std::string_view schedule, Computer& computer,
                  const std::vector<WindowKind>& windows, const StepFacts& steps,
                  LinkLoads& loads) {
  if (const auto live = live_kind(schedule)) return live_step_bound(job, *live);
  if (is_partly_frozen(job)) return steps.forward_backward;
  if (schedule == "gpu-only") return computer.gpu_only();
  if (schedule == "deepspeed-zero") return computer.deepspeed_zero();
  if (schedule == "zero-offload") return computer.published_offload();
  if (schedule == "zenflow") return published_zenflow_bound(job, steps, loads);
  if (schedule == "deepspeed-zero-offload") return computer.deepspeed_offload();
  if (schedule == "deepspeed-zenflow") return computer.deepspeed_zenflow(windows);
  if (schedule == "deepspeed-zero-infinity") return computer.deepspeed_gradients();
  return 0;
}

}  // namespace

struct BoundsComputer::Cache {
  std::unordered_map<std::uint64_t, BufferFacts> buffers;
  std::unordered_map<std::uint64_t, StepFacts> steps;
  WorkerEffects workers;
  LinkLoads loads;

  [[nodiscard]] const std::vector<WindowKind>& windows(const Job& job) {
    const ZenFlowSettings& zenflow = *job.deepspeed.zenflow;
    const auto [known, is_new] = windows_.try_emplace(
        {zenflow_window(job), zenflow.select_interval.value_or(0), zenflow.full_warm_up_rounds});
    if (is_new) known->second = long_run_windows(job);
    return known->second;
  }

 private:
  std::map<std::array<std::int64_t, 3>, std::vector<WindowKind>> windows_;
};

BoundsComputer::BoundsComputer() : cache_(std::make_unique<Cache>()) {}
BoundsComputer::~BoundsComputer() = default;

StepBounds BoundsComputer::bounds(const Job& job, const Schedule& schedule,
                                  std::uint64_t memory_key, std::uint64_t step_key) {
  auto buffers = cache_->buffers.find(memory_key);
  if (buffers == cache_->buffers.end()) {
    buffers = cache_->buffers.emplace(memory_key, buffer_facts(job, schedule)).first;
  }
  auto steps = cache_->steps.find(step_key);
  if (steps == cache_->steps.end()) {
    steps = cache_->steps.emplace(step_key, step_facts(job, schedule)).first;
  }
  Computer computer(job, buffers->second, steps->second, cache_->workers);
  const ClosedForm form = schedule.closed_form(job);
  const bool zenflow = schedule.name() == "deepspeed-zenflow";
  const std::vector<WindowKind> windows =
      zenflow ? cache_->windows(job) : std::vector<WindowKind>();
  StepBounds bounds;
  bounds.step_time =
      kRounding * step_bound(job, schedule.name(), computer, windows, steps->second, cache_->loads);
  const double held = is_partly_frozen(job)
                          ? 0
                          : held_in_backward(job, schedule, buffers->second, steps->second.plan);
  bounds.gpu_bytes = kRounding * (buffers->second.gpu_resident + held);
  bounds.traffic = form.d2h_bytes_per_step + form.h2d_bytes_per_step;
  if (zenflow) {
    bounds.traffic = computer.zenflow_traffic(windows, [&](std::int64_t interval) {
      if (interval == zenflow_window(job)) return form;
      return schedule.closed_form(with_update_interval(job, interval));
    });
  }
  bounds.traffic *= kRounding;
  bounds.host_needs = buffers->second.host_needs;
  for (double& need : bounds.host_needs) need *= kRounding;
  bounds.staleness = form.staleness_steps;
  return bounds;
}

}  // namespace zenflow::sim
