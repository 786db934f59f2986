/// DeepSpeed's ZeRO optimizers without offloading, stages 0 to 3, as release 0.19 runs them.
///
/// Gradients are all-reduced bucket by bucket (stage 3: reduce-scattered). Stages 0 and 1 do so in
/// the last micro step of a window only, and unless overlap_comm says otherwise, as it does by
/// default in stage 3 alone, backward waits for each bucket. The step then works through the
/// rank's partition p (stage 0: all P parameters), in bytes of device memory a parameter:
///
///   norm         w + 16   each gradient is copied to fp64, and read
///   fp32 copy    w + 4    of the gradients, which stay in w = b bytes until then
///   unscale      8        clipping too, in place
///   Adam         28       fp32 weight, gradient and two moments read, all but the gradient written
///   copy back    4 + b    to the weights
///
/// With stages 1 and 2 the ranks then gather the weights. fp32 training has copies in these alone,
/// which clone the weights and flatten the gradients.
///
/// torch_autocast without ZeRO: weights, gradients and moments are fp32 and PyTorch's optimizer
/// works on them as they are, norm 4, clipping 8, Adam 28. A micro step casts the weights (4 + b),
/// with activation checkpointing twice, and its gradients, which it adds (b + 12). Plain PyTorch
/// does so.
///
/// grad_accum_dtype fp32: gradients are kept in w = 4 bytes. Stage 1 casts those of every micro
/// step and adds them to the sums (b + 16), of all P; in bf16 BF16_Optimizer does, as it does
/// without ZeRO before 0.17.6. That clears the 16-bit gradients first (b) and has them until the
/// step; the step casts what is reduced, averages, copies back and onto itself (4 b + 16), takes
/// the norm (4), clips (8) and clears (4) the sums of all P, and updates the partition.
///
/// Stage 3's offload_param does not need an offloaded optimizer: b p come down after the step, and
/// are fetched again by every forward and backward. Source:
/// deepspeed/runtime/zero/stage_1_and_2.py, stage3.py (step, unscale_and_clip_grads),
/// runtime/engine.py (allreduce_gradients), runtime/bf16_optimizer.py.
#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/cost/gpu_cost.h"
#include "sim/schedule/deepspeed_step.h"

namespace zenflow::sim {
namespace {

constexpr double kFp32Bytes = 4;
constexpr double kNormBytes = 16;
constexpr double kUnscaleBytes = 8;

/// Whether the optimizer has weights and gradients of its own.
bool copies_weights(const Job& job) {
  if (job.scenario.training.dtype != DType::kFp32) return !casts_weights(job);
  return job.deepspeed.zero_stage == 1 || job.deepspeed.zero_stage == 2;
}

/// Bytes of a gradient from one micro step to the next.
double kept_width(const Job& job) {
  return job.deepspeed.fp32_gradient_sums || casts_weights(job)
             ? kFp32Bytes
             : static_cast<double>(bytes_per_element(job.scenario.training.dtype));
}

/// Device memory traffic of the step.
double step_bytes(const Job& job) {
  const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const double owned = updated_on_gpu(job);
  if (runs_bf16_optimizer(job)) {
    const double all = 4 * b + 4 * kFp32Bytes + kFp32Bytes + kUnscaleBytes + kFp32Bytes;
    return all * static_cast<double>(job.scenario.model.trained()) +
           (kAdamBytes + kFp32Bytes + b) * owned;
  }
  const double kept = kept_width(job);
  if (casts_weights(job)) return (kept + kUnscaleBytes + kAdamBytes) * owned;
  const double copies = copies_weights(job) ? kept + b + 2 * kFp32Bytes : 0;
  return (kept + kNormBytes + copies + kUnscaleBytes + kAdamBytes) * owned;
}

/// Stage 1, BF16_Optimizer and autocast, for every micro step: its gradients are cast and added to
/// fp32 ones. With autocast the weights have been cast, too.
Seconds summing_time(const Job& job) {
  const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const double added = b + 4 * kFp32Bytes;
  double width = 0;
  if (runs_bf16_optimizer(job)) {
    width = b + added;
  } else if (casts_weights(job)) {
    width = (job.scenario.training.activation_checkpointing ? 2 : 1) * (kFp32Bytes + b) + added;
  } else if (job.deepspeed.fp32_gradient_sums && job.deepspeed.zero_stage == 1) {
    width = added;
  }
  if (width == 0) return Seconds(0);
  return stream_time(job.scenario.hardware.gpu,
                     Bytes(width * static_cast<double>(job.scenario.model.trained())));
}

/// Stage 3 can keep the 16-bit weights on the host though the optimizer is on the GPU
/// (deepspeed/runtime/zero/stage3.py: offload_param is read by itself).
bool offloads_parameters(const Job& job) {
  return job.deepspeed.zero_stage == 3 && job.deepspeed.offload_param != OffloadDevice::kNone;
}

class DeepSpeedZero final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "deepspeed-zero"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZeRO without offloading as DeepSpeed 0.19 runs it, stages 0 to 3";
  }
  [[nodiscard]] std::string_view source() const override {
    return "deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, runtime/engine.py";
  }
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override {
    std::vector<std::string> notes;
    if (job.deepspeed.offload_optimizer != OffloadDevice::kNone) {
      notes.emplace_back("deepspeed-zero: offload_optimizer has no effect: nothing is offloaded");
    }
    if (job.deepspeed.offload_param != OffloadDevice::kNone && job.deepspeed.zero_stage < 3) {
      notes.emplace_back("deepspeed-zero: offload_param has no effect below ZeRO stage 3");
    }
    if (job.deepspeed.optimizer.narrow_master || job.deepspeed.optimizer.narrow_states) {
      notes.emplace_back("deepspeed-zero: 16-bit master weights and states are counted as fp32");
    }
    return notes;
  }
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return accumulation_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override {
    const std::int64_t g = job.deepspeed.gradient_accumulation_steps;
    if (!offloads_parameters(job)) return {0, 0, {0, g - 1}};
    const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
    return {b * job.partition() / static_cast<double>(g),
            b * stage3_gathers(job).in_a_step() / static_cast<double>(job.scenario.ranks()),
            {0, g - 1}};
  }
  void check(const Job& job) const override { check_parameter_nvme(job, name()); }
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
};

class ZeroEmitter {
 public:
  ZeroEmitter(const Job& job, ProgramBuilder& builder)
      : job_(job),
        builder_(builder),
        stage_(job.deepspeed.zero_stage),
        b_(builder.element_bytes()),
        owned_(updated_on_gpu(job)),
        bf16_optimizer_(runs_bf16_optimizer(job)),
        // A 16-bit gradient's fp32 copy; stage 3 makes one sub-group's at a time.
        // Stage 0's are flattened, and both are there (runtime/fp16/fused_optimizer.py).
        copied_(!copies_weights(job) || bf16_optimizer_ ? 0
                : stage_ == 3                           ? largest_sub_group(job)
                : stage_ == 0                           ? 2 * owned_
                                                        : owned_),
        gathers_(stage_ == 3 ? stage3_gathers(job) : Stage3Gathers{}) {}

  void declare_memory() {
    declare_processes(job_, builder_);
    declare_offloaded_parameters(job_, builder_);
    if (stage_ > 0) {
      declare_gpu_memory(job_, builder_);
    } else {
      const bool casts = casts_weights(job_);
      builder_.buffer({.name = casts ? "fp32 weights" : weights_name(job_),
                       .formula = casts ? "4 P" : "b P",
                       .category = MemoryCategory::kWeights,
                       .resident = (casts ? kFp32Bytes : b_) * all_,
                       .model_state = true});
      // The graph has them for backward; recomputation casts a layer's anew.
      if (casts && !job_.scenario.training.activation_checkpointing) {
        casts_ = builder_.buffer({.name = "weights, cast for products",
                                  .formula = "b P",
                                  .category = MemoryCategory::kParameterBuffer,
                                  .held = "backward"});
      }
      // DistributedDataParallel's, one copy of all gradients.
      if (casts && builder_.ranks() > 1) {
        builder_.buffer({.name = "gradient buckets",
                         .formula = "4 P",
                         .category = MemoryCategory::kStaging,
                         .resident = kFp32Bytes * all_});
      }
      declare_frozen(job_, MemoryHome::kGpu, builder_);
    }
    const std::string owned = owned_ == all_ ? " P" : " p";
    const bool masters = copies_weights(job_);
    builder_.buffer({.name = masters ? "fp32 master, m, v" : "moments m and v",
                     .formula = (masters ? "12" : "8") + owned,
                     .category = MemoryCategory::kOptimizerState,
                     .resident = (masters ? 12 : 8) * owned_,
                     .model_state = true});
    if (bf16_optimizer_) {
      builder_.buffer({.name = "fp32 gradient sums",
                       .formula = "4 P",
                       .category = MemoryCategory::kGradients,
                       .resident = kFp32Bytes * all_,
                       .model_state = true});
    }
    // Stages 0 and 1 keep all ranks' until the step, the others their own.
    const bool all = stage_ < 2;
    const double width = bf16_optimizer_ ? b_ : kept_width(job_);
    kept_bytes_ = width * (all ? all_ : owned_);
    kept_ = builder_.buffer({.name = "gradients until the step",
                             .formula = std::string(width == b_ ? "b" : "4") + (all ? " P" : " p"),
                             .category = MemoryCategory::kGradients,
                             .held = "first backward to step",
                             .model_state = true});
    bucket_memory_.emplace(job_, builder_);
    if (bf16_optimizer_) {
      copy_ = builder_.buffer({.name = "gradient sums, cast to be reduced",
                               .formula = "b P",
                               .category = MemoryCategory::kStaging,
                               .held = "step"});
      return;
    }
    copy_ = builder_.buffer({.name = "gradients in fp32",
                             .formula = stage_ == 3 ? "4 s" : (stage_ == 0 ? "8" : "4") + owned,
                             .category = MemoryCategory::kGradients,
                             .held = "step"});
  }

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    std::vector<After> before = std::exchange(ready_, {});
    before.resize(builder_.classes());
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      const bool boundary = step + 1 == shape.steps;
      const bool reduces = stage_ >= 2 || boundary;
      builder_.reduce_gradients(reduces);
      if (reduces) bucket_memory_->begin();
      if (casts_) builder_.grow_at_backward(*casts_, b_ * all_);
      builder_.forward_backward(before,
                                {.enabled = stage_ == 3,
                                 .from_host = offloads_parameters(job_),
                                 .from_nvme = offloads_parameters(job_) && on_nvme(),
                                 .deepspeed = stage_ == 3 ? &gathers_ : nullptr},
                                [&](std::size_t bucket, const PerClass& reduced) {
                                  if (reduces) bucket_memory_->reduced(bucket, reduced[0]);
                                  return wait_unless_overlapped(reduced);
                                });
      before.assign(builder_.classes(), {});
      add_to_sums();
      const TaskId last = builder_.last_compute(0);
      if (reduces) bucket_memory_->end(last);
      if (step == 0) builder_.memory(last, true, kept_, kept_bytes_);
      if (casts_) builder_.memory(last, true, *casts_, -b_ * all_);
    }
    update();
  }

 private:
  static double largest_sub_group(const Job& job) { return sub_groups(job).largest(); }

  void add_to_sums() {
    const Seconds time = summing_time(job_);
    if (time.value() == 0) return;
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      builder_.compute(c, Operation::kGpuAccumulate, 0, time, {});
    }
  }

  /// Stage 0 and BF16_Optimizer reduce once backward has ended, which takes as long as if backward
  /// waited.
  PerClass wait_unless_overlapped(const PerClass& reduced) {
    const bool overlaps = stage_ > 0 && overlaps_communication(job_);
    for (std::size_t c = 0; c < builder_.classes() && !overlaps; ++c) {
      builder_.hold_compute(c, reduced[c]);
    }
    return PerClass(builder_.classes(), kNoTask);
  }

  void update() {
    const Seconds time = deepspeed_zero_update(job_);
    After updated;
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      updated.push_back(
          builder_.compute(c, Operation::kGpuUpdate, 0, time, {builder_.last_reduced(c)}));
    }
    const double bytes_then = bf16_optimizer_ ? b_ * all_ : kFp32Bytes * copied_;
    builder_.memory(updated[0], false, copy_, bytes_then);
    builder_.memory(updated[0], true, copy_, -bytes_then);
    builder_.memory(updated[0], true, kept_, -kept_bytes_);
    ready_.assign(builder_.classes(), {});
    // Partitions may be fetched once they are written.
    if (stage_ == 3) {
      for (std::size_t c = 0; c < updated.size(); ++c) ready_[c] = {written(c, updated[c])};
    }
    if (stage_ == 3 || owned_ == all_) return;
    const double bytes = b_ * owned_ * builder_.ranks();
    const TaskId gathered = builder_.collective(
        Operation::kAllGather, all_gather_time(builder_.group(), Bytes(bytes)), 0, bytes, updated);
    for (After& after : ready_) after = {gathered};
  }

  [[nodiscard]] bool on_nvme() const {
    return job_.deepspeed.offload_param == OffloadDevice::kNvme;
  }

  /// Where offload_param keeps the updated weights, page-locked: cast on the GPU, which waits for
  /// their copy.
  TaskId written(std::size_t rank_class, TaskId updated) {
    if (!offloads_parameters(job_)) return updated;
    const double bytes = b_ * owned_;
    const TaskId down = builder_.copy(rank_class, Operation::kD2H, 0, bytes, {updated});
    builder_.hold_compute(rank_class, down);
    const double swapped = gathers_.on_nvme * bytes;
    if (swapped == 0) return down;
    const Seconds time =
        nvme_time(*job_.scenario.hardware.nvme, NvmeAccess::kWrite, Bytes(swapped));
    return builder_.add(builder_.cluster().classes[rank_class].nvme_write, to_picoseconds(time),
                        builder_.label(Operation::kNvmeWrite, 0, swapped), {down});
  }

  const Job& job_;
  ProgramBuilder& builder_;
  int stage_;
  double b_;
  double owned_;  ///< parameters that a rank updates
  bool bf16_optimizer_;
  double all_ = static_cast<double>(job_.scenario.model.trained());
  double copied_;  ///< gradients in fp32 at a time
  Stage3Gathers gathers_;
  std::optional<BufferId> casts_;  ///< of weights
  BufferId copy_ = 0;
  BufferId kept_ = 0;  ///< gradients
  double kept_bytes_ = 0;
  std::optional<BucketMemory> bucket_memory_;
  std::vector<After> ready_;  ///< the weights of the next window
};

/// The job as it runs: without the offloading that ignored() names.
Job without_offloading(Job job) {
  job.deepspeed.offload_optimizer = OffloadDevice::kNone;
  if (!offloads_parameters(job)) job.deepspeed.offload_param = OffloadDevice::kNone;
  return job;
}

Program DeepSpeedZero::build(const Job& asked, std::span<const WindowShape> shapes) const {
  const Job job = without_offloading(asked);
  const CpuCosts costs = cpu_costs(job, 1, 1, false);
  StepPlan plan = plan_step(job);
  if (casts_weights(job)) {  // reduced as they are kept
    const auto b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
    for (GradientBucket& one : plan.buckets) one.elements *= kFp32Bytes / b;
  }
  ProgramBuilder builder(job, std::move(plan), make_cluster(job.scenario, costs.rates),
                         job.deepspeed.zero_stage == 3 ? GradientReduction::kReduceScatterBuckets
                                                       : GradientReduction::kAllReduceBuckets);
  builder.reserve(shapes);
  ZeroEmitter emitter(job, builder);
  emitter.declare_memory();
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

Seconds deepspeed_zero_update(const Job& job) {
  return std::max(stream_time(job.scenario.hardware.gpu, Bytes(step_bytes(job))),
                  framework_step_time(job));
}

std::unique_ptr<const Schedule> make_deepspeed_zero() {
  return std::make_unique<DeepSpeedZero>();
}

}  // namespace zenflow::sim
