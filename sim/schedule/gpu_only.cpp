/// No offloading: weights, gradients and optimizer state stay on the GPUs, sharded as the
/// ZeRO stage says. The bound that offloading schedules are compared with.
#include "sim/cost/gpu_cost.h"
#include "sim/schedule/offload.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

class GpuOnly final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "gpu-only"; }
  [[nodiscard]] std::string_view summary() const override {
    return "no offloading: optimizer on the GPU, sharded by the ZeRO stage";
  }
  [[nodiscard]] std::string_view source() const override {
    return "Rajbhandari et al. 2020, ZeRO (arXiv 1910.02054)";
  }
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return accumulation_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override {
    return {0, 0, {0, job.deepspeed.gradient_accumulation_steps - 1}};
  }
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
};

GradientReduction reduction(int stage) {
  if (stage == 0) return GradientReduction::kAllReduce;
  return stage == 1 ? GradientReduction::kReduceKeepAll : GradientReduction::kReduceScatter;
}

/// Parameters of which this rank keeps optimizer state.
double owned_parameters(const Job& job) {
  const auto all = static_cast<double>(job.scenario.model.trained());
  return job.deepspeed.zero_stage == 0 ? all : job.partition();
}

void resident_memory(const Job& job, ProgramBuilder& builder) {
  const auto all = static_cast<double>(job.scenario.model.trained());
  const bool partitioned = job.deepspeed.zero_stage == 3;
  builder.buffer({.name = "weights",
                  .formula = partitioned ? "b p" : "b P",
                  .category = MemoryCategory::kWeights,
                  .resident = builder.element_bytes() * (partitioned ? job.partition() : all),
                  .model_state = true});
  declare_frozen(job, MemoryHome::kGpu, builder);
  // fp32 training needs no separate master.
  const bool masters = job.scenario.training.dtype != DType::kFp32;
  const std::string owned = job.deepspeed.zero_stage == 0 ? " P" : " p";
  if (masters) {
    builder.buffer({.name = "fp32 master weights",
                    .formula = "4" + owned,
                    .category = MemoryCategory::kOptimizerState,
                    .resident = 4 * owned_parameters(job),
                    .model_state = true});
  }
  builder.buffer({.name = "moments m and v, fp32",
                  .formula = "8" + owned,
                  .category = MemoryCategory::kOptimizerState,
                  .resident = 8 * owned_parameters(job),
                  .model_state = true});
}

/// Bytes of gradients a rank holds from reduction to update.
double kept_gradients(const Job& job, const ProgramBuilder& builder) {
  const auto all = static_cast<double>(job.scenario.model.trained());
  return builder.element_bytes() * (job.deepspeed.zero_stage < 2 ? all : job.partition());
}

/// Adam on the owned share: fp32 state read and written, gradient read, weight written.
void gpu_update(const Job& job, ProgramBuilder& builder) {
  const Seconds time =
      stream_time(job.scenario.hardware.gpu,
                  Bytes(owned_parameters(job) * gpu_adam_bytes(job.scenario.training.dtype)));
  for (std::size_t c = 0; c < builder.classes(); ++c) {
    builder.compute(c, Operation::kGpuUpdate, 0, time, {builder.last_reduced(c)});
  }
}

Program GpuOnly::build(const Job& job, std::span<const WindowShape> shapes) const {
  const CpuCosts costs = cpu_costs(job, 1, 1, false);
  const int stage = job.deepspeed.zero_stage;
  ProgramBuilder builder(job, plan_step(job), make_cluster(job.scenario, costs.rates),
                         reduction(stage));
  builder.reserve(shapes);
  resident_memory(job, builder);
  Offloader offloader(builder, costs);
  std::vector<After> before(builder.classes());
  const BucketSink keep_on_gpu = [&builder](std::size_t, const PerClass&) {
    return PerClass(builder.classes(), kNoTask);
  };
  for (const WindowShape& shape : shapes) {
    builder.begin_window(shape);
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      builder.forward_backward(before, {.enabled = stage == 3}, keep_on_gpu);
      before.assign(builder.classes(), {});
      const bool last = step + 1 == shape.steps;
      if (last) gpu_update(job, builder);
      // Earlier micro steps of the window leave their sum; later ones are added to it in place.
      if (last || step > 0) {
        const double sets = last && step > 0 ? 2 : 1;
        builder.memory(builder.last_compute(0), true, builder.gradients(),
                       -sets * kept_gradients(job, builder));
      }
      if (!last) continue;
      if (stage != 1 && stage != 2) continue;
      std::vector<After> updated;
      for (std::size_t c = 0; c < builder.classes(); ++c)
        updated.push_back({builder.last_compute(c)});
      const TaskId gathered = offloader.gather_parameters(updated, 1.0, Operation::kAllGather);
      for (After& after : before) after = {gathered};
    }
  }
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_gpu_only() {
  return std::make_unique<GpuOnly>();
}

}  // namespace zenflow::sim
