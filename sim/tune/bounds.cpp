#include "sim/tune/bounds.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

#include "sim/cost/cpu_cost.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/offload.h"
#include "sim/tune/live_bounds.h"
#include "sim/tune/step_facts.h"

namespace zenflow::sim {
namespace {

/// Sums of rounded times against one rounded sum, and the engine's count of work in doubles.
constexpr double kRounding = 1 - 1e-7;

class Computer {
 public:
  Computer(const Job& job, const BufferFacts& buffers, StepFacts& steps)
      : job_(job),
        config_(job.deepspeed),
        hardware_(job.scenario.hardware),
        buffers_(buffers),
        steps_(steps),
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

  [[nodiscard]] double published_zenflow() const {
    const ZenFlowSettings& zenflow = *config_.zenflow;
    const auto s = static_cast<double>(*zenflow.update_interval);
    const double kept = 1 - zenflow.topk_ratio;
    const bool partitioned = config_.zero_stage == 3;
    const double cores = all_cores();
    const double reserved = zenflow.pt_reserved_cores_perc;
    const bool split = zenflow.overlap_step && reserved > 0 && reserved < 1;
    const CpuCosts costs = cpu_costs(job_, split ? (1 - reserved) * cores : cores,
                                     split ? reserved * cores : cores, false);
    const double selected =
        stream(zenflow.topk_ratio * partition_ * gpu_adam_bytes(job_.scenario.training.dtype));
    const double gather =
        partitioned ? 0 : all_gather(bytes_ * steps_.parameters * zenflow.topk_ratio);
    const double step = steps_.forward_backward + steps_.last_reduce + selected + gather;
    const double update = update_by_buckets(costs, kept * partition_);
    const double up = copy(Direction::kH2D, bytes_ * kept * partition_);
    const double down = copy(Direction::kD2H, bytes_ * kept * partition_);
    const double sums = picoseconds(kept * partition_ * costs.accumulate.time);
    const double hand_over = update + up;
    const double lanes = std::max({step, down, sums});
    if (zenflow.overlap_step) return std::max(lanes, hand_over / s);
    const double arrival = partitioned ? 0 : all_gather(bytes_ * steps_.parameters * kept);
    // The boundary's own gather of selected weights runs beside the update.
    return std::max(lanes, step + (hand_over + arrival - gather) / s);
  }

  [[nodiscard]] double deepspeed_offload() {
    const std::int64_t steps = config_.gradient_accumulation_steps;
    const double cores = all_cores();
    const DeepSpeedCpu cpu = deepspeed_cpu(job_, cores, cores, OptimizerPlace::kTraining);
    return (paths(steps, false) + blocking(cpu)) / static_cast<double>(steps);
  }

  /// Bytes down a step because the master is overwritten before columns are selected anew.
  [[nodiscard]] double reselection_traffic() const {
    const std::int64_t every = selects_every(zenflow_window(job_));
    return every > 0 ? bytes_ * partition_ / static_cast<double>(every) : 0;
  }

  /// ZeRO-Infinity and others of stage 3: gradients alone.
  [[nodiscard]] double deepspeed_gradients() {
    const std::int64_t steps = config_.gradient_accumulation_steps;
    return paths(steps, false) / static_cast<double>(steps);
  }

  [[nodiscard]] double deepspeed_zenflow() {
    const ZenFlowSettings& zenflow = *config_.zenflow;
    const std::int64_t steps = zenflow_window(job_);
    const auto s = static_cast<double>(steps);
    const DeepSpeedCpu cpu = zenflow.overlap_step ? worker_cpu(zenflow) : training_cpu();
    const Selected selected = selected_update(zenflow);
    const double chain = zenflow.overlap_step ? overlapped(cpu) : blocking(cpu);
    const double regular = paths(steps, zenflow.overlap_step) + (s - 1) * selected.step +
                           std::max(selected.step, chain);
    double bound = regular / s;
    if (const std::int64_t every = selects_every(steps); every > 0) {
      // Once an interval the master is overwritten, beside the boundary's own work.
      const double copied = link_time(Direction::kD2H, false, bytes_ * partition_, 1);
      const double again = std::max(chain, selected.step + copied) - std::max(selected.step, chain);
      const double extra = steps > 1 ? selected.extra_of_selection : 0;
      bound += (std::max(again, 0.0) + extra) / static_cast<double>(every);
    }
    if (!zenflow.overlap_step) return bound;
    const double update = picoseconds(cpu.whole_update());
    // Waiting for the update before the last, a backlog may grow for long; nothing is said of it.
    const bool deep = zenflow.full_warm_up_rounds == 0;
    if (!deep) bound = std::max(bound, (update + chain_to_hand_over(cpu)) / s);
    if (!deep && cpu.rates.optimizer_shares_cores) {
      // While the optimizer works, compute has half its speed.
      const double compute = s * (steps_.forward_backward + selected.update);
      bound = std::max(bound, (compute + update / 2) / s);
    }
    return bound;
  }

 private:
  /// Steps from one selection to the next where it is at a window's begin each time, else 0: then
  /// nothing is said of it.
  [[nodiscard]] std::int64_t selects_every(std::int64_t window) const {
    const ZenFlowSettings& zenflow = *config_.zenflow;
    if (job_.target != LaunchTarget::kDeepSpeed || zenflow.select_strategy != "step") return 0;
    const std::int64_t every = zenflow.select_interval.value_or(0);
    return every % window == 0 ? every : 0;
  }
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
    const double factor = way == Direction::kD2H ? steps_.d2h_factor : steps_.h2d_factor;
    return factor *
           picoseconds(Bytes(bytes) / copy_rate(hardware_.host_link, way, config_.pin_memory));
  }
  [[nodiscard]] double pinned_or_pageable(Direction way, double bytes) const {
    if (!config_.pin_memory) return link_time(way, false, bytes, 1);
    const double factor = way == Direction::kD2H ? steps_.d2h_factor : steps_.h2d_factor;
    return factor * link_time(way, true, bytes, 1);
  }

  [[nodiscard]] double path(bool first, bool boundary, bool pageable) {
    const std::size_t which = (first ? 1U : 0U) + (boundary ? 2U : 0U) + (pageable ? 4U : 0U);
    if (!steps_.paths[which]) {
      steps_.paths[which] = step_path(steps_.parts, {first, boundary}, pageable);
    }
    return steps_.paths[which]->drained;
  }
  /// Of a window's micro steps, each until its reduction stream is empty.
  [[nodiscard]] double paths(std::int64_t steps, bool pageable) {
    if (steps == 1) return path(true, true, pageable);
    return path(true, false, pageable) +
           static_cast<double>(steps - 2) * path(false, false, pageable) +
           path(false, true, pageable);
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
  [[nodiscard]] double blocking(const DeepSpeedCpu& cpu) const {
    return picoseconds(cpu.scale) + picoseconds(cpu.whole_update()) + picoseconds(cpu.cast) +
           pinned_or_pageable(Direction::kH2D, bytes_ * partition_) + gather_weights();
  }
  /// From the boundary's empty stream until the new gradients are with the worker.
  [[nodiscard]] double chain_to_hand_over(const DeepSpeedCpu& cpu) const {
    return upload(cpu) + picoseconds(cpu.scale);
  }
  [[nodiscard]] double upload(const DeepSpeedCpu& cpu) const {
    const bool wide = zenflow_uploads_fp32(job_);
    const double up = link_time(Direction::kH2D, false, (wide ? 4 : bytes_) * partition_, 1);
    return up + (wide ? 0 : picoseconds(cpu.cast));
  }
  [[nodiscard]] double overlapped(const DeepSpeedCpu& cpu) const {
    return upload(cpu) + std::max(picoseconds(cpu.scale), gather_weights());
  }

  struct Selected {
    double step = 0;    ///< from the empty stream to the next forward
    double update = 0;  ///< on the compute lane
    double extra_of_selection = 0;
  };
  [[nodiscard]] Selected selected_update(const ZenFlowSettings& zenflow) const {
    const bool stage3 = config_.zero_stage == 3;
    const double all = buffers_.selected * (stage3 ? ranks_ : 1);
    const auto matrix = static_cast<double>(job_.scenario.model.matrix_parameters());
    Selected one;
    one.update = stream(bytes_ * (4 * matrix + 9 * all));
    one.extra_of_selection = stream(bytes_ * (5 * matrix + 9 * all)) - one.update;
    one.step = all_gather(bytes_ * all) + one.update;
    if (!zenflow.offload) return one;
    const double moments = 2 * bytes_ * zenflow.topk_ratio *
                           static_cast<double>(job_.scenario.model.parameters()) /
                           (stage3 ? ranks_ : 1);
    // The update waits for both copies; on one rank nothing holds the one up but its lane, and it
    // may be done before the step's gradients are down.
    if (ranks_ > 1) one.step += copy(Direction::kH2D, moments);
    one.step += copy(Direction::kD2H, moments);
    return one;
  }

  const Job& job_;
  const DeepSpeedConfig& config_;
  const HardwareProfile& hardware_;
  const BufferFacts& buffers_;
  StepFacts& steps_;
  Communicator group_;
  double bytes_;
  double partition_;
  double ranks_;
};

double step_bound(const Job& job, std::string_view schedule, Computer& computer) {
  if (const auto live = live_kind(schedule)) return live_step_bound(job, *live);
  if (schedule == "gpu-only") return computer.gpu_only();
  if (schedule == "zero-offload") return computer.published_offload();
  if (schedule == "zenflow") return computer.published_zenflow();
  if (schedule == "deepspeed-zero-offload") return computer.deepspeed_offload();
  if (schedule == "deepspeed-zenflow") return computer.deepspeed_zenflow();
  if (schedule == "deepspeed-zero-infinity") return computer.deepspeed_gradients();
  return 0;
}

}  // namespace

struct BoundsComputer::Cache {
  std::unordered_map<std::uint64_t, BufferFacts> buffers;
  std::unordered_map<std::uint64_t, StepFacts> steps;
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
  Computer computer(job, buffers->second, steps->second);
  const ClosedForm form = schedule.closed_form(job);
  StepBounds bounds;
  bounds.step_time = kRounding * step_bound(job, schedule.name(), computer);
  bounds.gpu_bytes =
      kRounding * (buffers->second.gpu_resident +
                   held_at_head_backward(job, schedule, buffers->second, steps->second.plan));
  bounds.traffic = form.d2h_bytes_per_step + form.h2d_bytes_per_step;
  if (schedule.name() == "deepspeed-zenflow") bounds.traffic += computer.reselection_traffic();
  bounds.traffic *= kRounding;
  bounds.host_needs = buffers->second.host_needs;
  bounds.staleness = form.staleness_steps;
  return bounds;
}

}  // namespace zenflow::sim
