/// ZeRO-Offload as DeepSpeed 0.19 ships it: fp32 gradients down, unscaling, CPU Adam and the cast
/// on the critical path, weights up, all-gather. See deepspeed_step.h.
/// Memory: deepspeed_memory.h.
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/schedule/deepspeed_step.h"

namespace zenflow::sim {
namespace {

class DeepSpeedZeroOffload final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "deepspeed-zero-offload"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZeRO-Offload as DeepSpeed 0.19 runs it, stages 1 to 3";
  }
  [[nodiscard]] std::string_view source() const override {
    return "deepspeed/runtime/zero/stage_1_and_2.py, stage3.py";
  }
  void check(const Job& job) const override {
    check_parameter_nvme(job, name());
    if (job.deepspeed.zero_stage > 0) return;
    throw Error(ErrorKind::kInput,
                fmt::format("{}: zero_optimization.stage: schedule \"{}\" needs stage 1, 2 or 3",
                            job.scenario.deepspeed.at.text(), name()));
  }
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override {
    return ignored_by_deepspeed(job, name());
  }
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return accumulation_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override {
    const double p = job.partition();
    const double b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
    const auto g = static_cast<double>(job.deepspeed.gradient_accumulation_steps);
    const std::int64_t oldest = job.deepspeed.gradient_accumulation_steps - 1;
    if (job.deepspeed.zero_stage == 3) return stage3_traffic(job, p);
    const double boundary = optimizer_bytes(job).gradient / g;
    if (sums_on_gpu(job)) return {boundary * p, b / g * p, {0, oldest}};
    const double wider = sends_fp32_weights(job) ? (optimizer_bytes(job).master - b) / g : 0;
    return {(b * sums_down(job) / g + boundary) * p, (b + wider) * p, {0, oldest}};
  }
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
};

class Emitter {
 public:
  Emitter(const Job& job, ProgramBuilder& builder, const DeepSpeedCpu& cpu)
      : builder_(builder), cpu_(cpu), step_(job, builder) {}

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    std::vector<After> before = std::exchange(ready_, {});
    before.resize(builder_.classes());
    for (std::int32_t i = 0; i < shape.steps; ++i) {
      step_.forward_backward({.first = i == 0, .boundary = i + 1 == shape.steps}, before, false);
      before.assign(builder_.classes(), {});
    }
    update();
  }

 private:
  void update() {
    After up;
    const PerClass gradients = step_.gradients_ready();
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const RankClass& rank = builder_.cluster().classes[c];
      // The norm of all gradients is known once every rank has its own.
      const TaskId scaled =
          builder_.add(rank.cpu_accumulate, to_picoseconds(cpu_.scale),
                       builder_.label(Operation::kCpuScale, 0), std::span<const TaskId>(gradients));
      const TaskId updated = builder_.add(rank.cpu_update, to_picoseconds(cpu_.whole_update()),
                                          builder_.label(Operation::kCpuUpdate, 0), {scaled});
      const TaskId cast = builder_.add(rank.cpu_accumulate, to_picoseconds(cpu_.cast),
                                       builder_.label(Operation::kCpuCast, 0), {updated});
      up.push_back(step_.weights_up(c, cast));
    }
    const TaskId gathered = step_.gather_weights(up);
    ready_.clear();
    for (const TaskId one : up) ready_.push_back({gathered == kNoTask ? one : gathered});
  }

  ProgramBuilder& builder_;
  const DeepSpeedCpu& cpu_;
  DeepSpeedStep step_;
  std::vector<After> ready_;  ///< the weights of the next window
};

Program DeepSpeedZeroOffload::build(const Job& job, std::span<const WindowShape> shapes) const {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  const DeepSpeedCpu cpu = deepspeed_cpu(job, cores, cores, OptimizerPlace::kTraining);
  ProgramBuilder builder(job, plan_step(job), deepspeed_cluster(job, cpu.rates),
                         job.deepspeed.zero_stage == 3 ? GradientReduction::kReduceScatterBuckets
                                                       : GradientReduction::kAllReduceBuckets);
  declare_gpu_memory(job, builder);
  declare_host_memory(job,
                      {.running_sum = job.deepspeed.gradient_accumulation_steps > 1 &&
                                      !sums_on_gpu(job) && !job.deepspeed.optimizer.narrow_master,
                       .elements = job.partition()},
                      builder);
  Emitter emitter(job, builder, cpu);
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_deepspeed_zero_offload() {
  return std::make_unique<DeepSpeedZeroOffload>();
}

}  // namespace zenflow::sim
