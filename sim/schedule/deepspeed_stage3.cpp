/// DeepSpeed's ZeRO-3 optimizers that work by sub-groups: Twin-Flow, ZeRO-Infinity on NVMe and
/// SuperOffload. Gradients move as in deepspeed_step.h; what differs is the update.
///
/// deepspeed-twin-flow (offload_optimizer.ratio): sub-groups in one serial loop. The first
/// int((1 - ratio) n) are updated on the GPU, launched asynchronously; the others are scaled,
/// updated by CPU Adam, cast and copied up one after the other.
/// deepspeed-zero-infinity (offload_optimizer.device nvme): fp32 gradients (4 bytes a parameter)
/// are written in backward, through the buffer_count buffers that reads use in the update: once
/// they are full, backward waits until all are written. Then each sub-group's master weights and
/// moments (12) and its gradients are read, updated, and 12 written back; pipeline_read and
/// pipeline_write overlap with the neighbours'. A drive's reads and writes share its time
/// (cluster.cpp). deepspeed-super-offload: a worker updates sub-groups from within backward, as
/// soon as their gradients are down, if gradient_clipping is 0; with clipping (the default) after
/// backward, one after the other, since the norm is needed first. Source:
/// deepspeed/runtime/zero/stage3.py (step, subgroup_to_device),
/// runtime/swap_tensor/*optimizer_swapper.py, runtime/superoffload/.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/gpu_cost.h"
#include "sim/schedule/deepspeed_step.h"

namespace zenflow::sim {
namespace {

constexpr double kStateBytes = 12;
constexpr double kGradientBytes = 4;

enum class Variant { kTwinFlow, kInfinity, kSuperOffload };

class Stage3Emitter {
 public:
  Stage3Emitter(const Job& job, ProgramBuilder& builder, const DeepSpeedCpu& cpu, Variant variant)
      : job_(job),
        builder_(builder),
        cpu_(cpu),
        variant_(variant),
        groups_(sub_groups(job)),
        step_(job, builder,
              {.offloaded = groups_.cpu_elements() / job.partition(),
               .swapped = variant == Variant::kInfinity}) {}

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    std::vector<After> before = std::exchange(ready_, {});
    before.resize(builder_.classes());
    for (std::int32_t i = 0; i < shape.steps; ++i) {
      step_.forward_backward({.first = i == 0, .boundary = i + 1 == shape.steps}, before, false);
      before.assign(builder_.classes(), {});
    }
    ready_.assign(builder_.classes(), {});
    for (std::size_t c = 0; c < builder_.classes(); ++c) update_rank(c);
  }

  void resident_memory() {
    declare_host_memory(
        job_, {.elements = groups_.cpu_elements(), .nvme = variant_ == Variant::kInfinity},
        builder_);
    if (groups_.gpu_elements() == 0) return;
    builder_.buffer({.name = "fp32 master, gradients, m, v",
                     .formula = "16 (p - c)",
                     .category = MemoryCategory::kOptimizerState,
                     .resident = (kStateBytes + kGradientBytes) * groups_.gpu_elements(),
                     .model_state = true});
  }

 private:
  [[nodiscard]] Picoseconds part(Seconds whole, double elements,
                                 Seconds launch = Seconds(0)) const {
    return to_picoseconds(launch + elements / job_.partition() * whole);
  }

  /// SuperOffload: the worker takes sub-groups as they become complete, the model's end first;
  /// each completed set synchronises the GPU's streams. With clipping it starts after backward.
  void update_with_worker(std::size_t c) {
    const bool speculative = job_.deepspeed.gradient_clipping == 0;
    double from_end = 0;
    for (std::size_t g = groups_.elements.size(); g-- > groups_.on_gpu;) {
      from_end += groups_.elements[g];
      TaskId complete = step_.gradients_ready()[c];
      if (speculative) complete = step_.gradients_down(c, from_end);
      ready_[c].push_back(step_.weights_up(c, groups_.elements[g],
                                           update_on_cpu(c, groups_.elements[g], {complete})));
    }
    for (std::size_t g = 0; g < groups_.on_gpu; ++g) update_on_gpu(c, groups_.elements[g], kNoTask);
  }

  void update_rank(std::size_t c) {
    if (variant_ == Variant::kSuperOffload) {
      update_with_worker(c);
    } else if (variant_ == Variant::kInfinity) {
      update_through_nvme(c);
    } else {
      update_in_order(c);
    }
  }

  void update_in_order(std::size_t c) {
    TaskId host = step_.gradients_ready()[c];
    for (std::size_t g = 0; g < groups_.elements.size(); ++g) {
      if (groups_.is_on_gpu(g)) {
        update_on_gpu(c, groups_.elements[g], groups_.first_on_gpu ? kNoTask : host);
        continue;
      }
      host = update_on_cpu(c, groups_.elements[g], {host});
      // A copy from ordinary memory, which the host waits for.
      host = step_.weights_up(c, groups_.elements[g], host);
    }
    ready_[c].push_back(host);
  }

  /// Sub-group after sub-group: read, update, copy the weights up, write. With pipeline_read the
  /// next one is read meanwhile; with pipeline_write the host waits for the write before.
  void update_through_nvme(std::size_t c) {
    const OptimizerBytes bytes = optimizer_bytes(job_);
    const double state = bytes.master + bytes.states;
    const double read = state + bytes.gradient;
    const bool reads_ahead = job_.deepspeed.pipeline_read;
    // The first read waits until all gradients are written.
    After host = {step_.gradients_ready()[c], step_.gradients_written(c)};
    TaskId ahead = kNoTask;
    TaskId writing = kNoTask;
    for (std::size_t g = 0; g < groups_.elements.size(); ++g) {
      const double elements = groups_.elements[g];
      const bool last = g + 1 == groups_.elements.size();
      const TaskId loaded =
          ahead != kNoTask ? ahead : nvme(c, NvmeAccess::kRead, read * elements, host);
      host.push_back(loaded);
      ahead = kNoTask;
      if (reads_ahead && !last) {
        ahead = nvme(c, NvmeAccess::kRead, read * groups_.elements[g + 1], host);
      }
      const TaskId up = step_.weights_up(c, elements, update_on_cpu(c, elements, host));
      host = {up, writing};
      writing = nvme(c, NvmeAccess::kWrite, state * elements, host);
      if (!job_.deepspeed.pipeline_write || last) host = {writing};
    }
    ready_[c] = host;
  }

  /// `launched`: the host has come so far.
  void update_on_gpu(std::size_t c, double elements, TaskId launched) {
    const Seconds time = stream_time(
        job_.scenario.hardware.gpu, Bytes(elements * gpu_adam_bytes(job_.scenario.training.dtype)));
    builder_.compute(c, Operation::kGpuUpdate, 0, time, {builder_.last_reduced(c), launched});
  }

  TaskId update_on_cpu(std::size_t c, double elements, const After& after) {
    const RankClass& rank = builder_.cluster().classes[c];
    const TaskId scaled = builder_.add(rank.cpu_accumulate, part(cpu_.scale, elements),
                                       builder_.label(Operation::kCpuScale, 0), after);
    const TaskId updated = builder_.add(rank.cpu_update, part(cpu_.update, elements, cpu_.launch),
                                        builder_.label(Operation::kCpuUpdate, 0), {scaled});
    return builder_.add(rank.cpu_accumulate, part(cpu_.cast, elements),
                        builder_.label(Operation::kCpuCast, 0), {updated});
  }

  TaskId nvme(std::size_t c, NvmeAccess access, double bytes, const After& after) {
    const RankClass& rank = builder_.cluster().classes[c];
    const bool reads = access == NvmeAccess::kRead;
    const Seconds time = nvme_time(*job_.scenario.hardware.nvme, access, Bytes(bytes));
    return builder_.add(
        reads ? rank.nvme_read : rank.nvme_write, to_picoseconds(time),
        builder_.label(reads ? Operation::kNvmeRead : Operation::kNvmeWrite, 0, bytes), after);
  }

  const Job& job_;
  ProgramBuilder& builder_;
  const DeepSpeedCpu& cpu_;
  Variant variant_;
  SubGroups groups_;
  DeepSpeedStep step_;
  std::vector<After> ready_;
};

class Stage3Schedule : public Schedule {
 public:
  explicit Stage3Schedule(Variant variant) : variant_(variant) {}

  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return accumulation_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override {
    return stage3_traffic(job, sub_groups(job).cpu_elements());
  }
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override {
    const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
    const double worker = variant_ == Variant::kSuperOffload ? job.deepspeed.cpuadam_cores_perc : 1;
    const DeepSpeedCpu cpu = deepspeed_cpu(job, cores, worker * cores, OptimizerPlace::kTraining);
    ProgramBuilder builder(job, plan_step(job), deepspeed_cluster(job, cpu.rates),
                           GradientReduction::kReduceScatterBuckets);
    declare_gpu_memory(job, builder);
    Stage3Emitter emitter(job, builder, cpu, variant_);
    emitter.resident_memory();
    for (const WindowShape& shape : shapes) emitter.emit(shape);
    return builder.finish();
  }

 private:
  Variant variant_;
};

class TwinFlow final : public Stage3Schedule {
 public:
  TwinFlow() : Stage3Schedule(Variant::kTwinFlow) {}
  [[nodiscard]] std::string_view name() const override { return "deepspeed-twin-flow"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZeRO-3 with part of the optimizer on the GPU (offload_optimizer.ratio)";
  }
  [[nodiscard]] std::string_view source() const override {
    return "deepspeed/runtime/zero/stage3.py, blog deepspeed-offloadpp";
  }
  void check(const Job& job) const override { check_stage3(job, name()); }
};

class Infinity final : public Stage3Schedule {
 public:
  Infinity() : Stage3Schedule(Variant::kInfinity) {}
  [[nodiscard]] std::string_view name() const override { return "deepspeed-zero-infinity"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZeRO-3 with the optimizer on NVMe, swapped by sub-groups";
  }
  [[nodiscard]] std::string_view source() const override {
    return "deepspeed/runtime/zero/stage3.py, runtime/swap_tensor";
  }
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override {
    if (job.deepspeed.offload_ratio == 1) return {};
    return {
        fmt::format("{}: offload_optimizer.ratio keeps nothing on the GPU: sub-groups are "
                    "swapped to NVMe whatever it says",
                    name())};
  }
  void check(const Job& job) const override {
    check_stage3(job, name());
    if (job.scenario.hardware.nvme) return;
    throw Error(ErrorKind::kInput, fmt::format("schedule \"{}\": profile {} has no nvme block",
                                               name(), job.scenario.hardware.name));
  }
};

class SuperOffload final : public Stage3Schedule {
 public:
  SuperOffload() : Stage3Schedule(Variant::kSuperOffload) {}
  [[nodiscard]] std::string_view name() const override { return "deepspeed-super-offload"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZeRO-3, CPU update of sub-groups during backward if gradient_clipping is 0";
  }
  [[nodiscard]] std::string_view source() const override {
    return "deepspeed/runtime/superoffload; Lian et al. 2025 (arXiv 2509.21271)";
  }
  void check(const Job& job) const override {
    check_stage3(job, name());
    if (job.has(Change::kSuperOffload)) return;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: zero_optimization.offload_optimizer: schedule \"{}\": SuperOffload "
                    "is in DeepSpeed from 0.18.0, the job's release is {}",
                    job.scenario.deepspeed.at.text(), name(), to_string(job.version)));
  }
};

}  // namespace

std::unique_ptr<const Schedule> make_deepspeed_super_offload() {
  return std::make_unique<SuperOffload>();
}
std::unique_ptr<const Schedule> make_deepspeed_twin_flow() {
  return std::make_unique<TwinFlow>();
}
std::unique_ptr<const Schedule> make_deepspeed_zero_infinity() {
  return std::make_unique<Infinity>();
}

}  // namespace zenflow::sim
