/// ZenFlow as DeepSpeed 0.19 ships it, which is not what the paper describes: all gradients are
/// copied, whatever topk_ratio (deepspeed_step.h, with update_interval as the window); the CPU
/// updates all columns; selected columns are besides updated on every GPU in bf16.
///
/// overlap_step false: the boundary's CPU update blocks, as in ZeRO-Offload.
/// overlap_step true, at a boundary: wait for the worker's previous update; cast the snapshot to
/// bf16 and copy it up from ordinary memory (shared memory is not page-locked); all-gather;
/// unscale the new gradients; hand them to the worker, a process of its own that runs Adam on
/// its cores and copies the result to the snapshot. With full_warm_up_rounds = 0 the first wait
/// is skipped although a job is outstanding, so every later boundary waits for the update
/// before the last.
/// Selection, except in the very first step, first overwrites the fp32 master by upcast bf16
/// weights: a blocking copy of the partition, 2 p bytes down.
///
/// Memory, bytes a parameter of the partition on the host: not overlapped 20 (18 if
/// update_interval is 1); overlapped 36 (master 4, snapshot 4, two sets of gradients 8, two sets of
/// moments 16, upload buffer 2, running sum 2), stage 3 34.
/// Source: deepspeed/runtime/zenflow/zenflow_stage_1_and_2.py, zenflow_utils.py,
/// engine_stage3.py.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/gpu_cost.h"
#include "sim/schedule/deepspeed_step.h"

namespace zenflow::sim {
namespace {

const ZenFlowSettings& settings_of(const Job& job) {
  return *job.deepspeed.zenflow;
}

/// k of every matrix and all vectors: what the GPU updates.
double selected_parameters(const Job& job) {
  const auto matrix = static_cast<double>(job.scenario.model.matrix_parameters());
  const auto all = static_cast<double>(job.scenario.model.parameters());
  return settings_of(job).topk_ratio * matrix + (all - matrix);
}

class DeepSpeedZenFlow final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "deepspeed-zenflow"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZenFlow as DeepSpeed 0.19 runs it, stages 1 to 3";
  }
  [[nodiscard]] std::string_view source() const override { return "deepspeed/runtime/zenflow"; }
  void check(const Job& job) const override;
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override {
    return ignored_nvme(job, name());
  }
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return deepspeed_zenflow_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override;
  [[nodiscard]] std::optional<ZenFlowSettings> zenflow(const Job& job) const override {
    return settings_of(job);
  }
  [[nodiscard]] std::optional<int> gradient_buffer(const Job& job,
                                                   std::int64_t step) const override;
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
};

void DeepSpeedZenFlow::check(const Job& job) const {
  const auto fail = [&](const std::string& what) {
    throw Error(ErrorKind::kInput, fmt::format("{}: zero_optimization: schedule \"{}\" {}",
                                               job.scenario.deepspeed.at.text(), name(), what));
  };
  if (!job.deepspeed.zenflow) fail("needs a zenflow block");
  if (job.deepspeed.zero_stage == 0) fail("needs stage 1, 2 or 3");
  if (!settings_of(job).update_interval) {
    fail(
        "cannot run update_interval \"auto\": DeepSpeed 0.19 takes 0 accumulation steps from it "
        "and divides the gradients by zero; give a number");
  }
}

/// Without reselection; each one adds 2 bytes a parameter of the partition down.
ClosedForm DeepSpeedZenFlow::closed_form(const Job& job) const {
  const double p = job.partition();
  const double b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const std::int64_t steps = *settings_of(job).update_interval;
  const auto s = static_cast<double>(steps);
  const bool deep = settings_of(job).full_warm_up_rounds == 0;
  const std::int64_t delay = settings_of(job).overlap_step ? (deep ? 2 : 1) * steps : 0;
  const Staleness staleness{delay, delay + steps - 1};
  if (job.deepspeed.zero_stage == 3) return {(b + 4 / s) * p, (b + b / s) * p, staleness};
  const double state = settings_of(job).offload
                           ? 2 * b * settings_of(job).topk_ratio *
                                 static_cast<double>(job.scenario.model.parameters())
                           : 0;
  return {(steps == 1 ? 4 : b + 4 / s) * p + state, b * p + state, staleness};
}

/// get_overlap_step_state: by window number, whatever the distance to the boundary before.
std::optional<int> DeepSpeedZenFlow::gradient_buffer(const Job& job, std::int64_t step) const {
  const ZenFlowSettings& settings = settings_of(job);
  if (!settings.overlap_step) return std::nullopt;
  const bool warm_up = step < settings.full_warm_up_rounds;
  return static_cast<int>((warm_up ? step : step / *settings.update_interval) % 2);
}

void host_memory(const Job& job, ProgramBuilder& builder) {
  const double node = job.partition() * static_cast<double>(job.scenario.gpus);
  const double b = builder.element_bytes();
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const bool sums = stage3 || *settings_of(job).update_interval > 1;
  const bool overlap = settings_of(job).overlap_step;
  builder.resident(MemoryPlace::kHost, MemoryCategory::kOptimizerState,
                   (overlap ? 4 + 4 + 16 : 12) * node);
  builder.resident(MemoryPlace::kHost, MemoryCategory::kGradients,
                   ((overlap ? 8 : 4) + (sums ? b : 0)) * node);
  if (!stage3) builder.resident(MemoryPlace::kHost, MemoryCategory::kStaging, b * node);
}

/// bf16 moments of the selected columns, on every rank; stage 3 shards them.
void selected_memory(const Job& job, ProgramBuilder& builder) {
  const double shards = job.deepspeed.zero_stage == 3 ? builder.ranks() : 1;
  if (settings_of(job).offload) return;
  builder.resident(MemoryPlace::kGpu, MemoryCategory::kSelectedState,
                   2 * builder.element_bytes() * selected_parameters(job) / shards);
}

class Emitter {
 public:
  Emitter(const Job& job, ProgramBuilder& builder, const DeepSpeedCpu& cpu,
          const DeepSpeedCpu& blocking)
      : job_(job),
        builder_(builder),
        cpu_(cpu),
        blocking_(blocking),
        step_(job, builder),
        overlap_(settings_of(job).overlap_step),
        depth_(settings_of(job).full_warm_up_rounds == 0 ? 2 : 1) {}

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    std::vector<After> before = std::exchange(ready_, {});
    before.resize(builder_.classes());
    for (std::int32_t i = 0; i < shape.steps; ++i) {
      const MicroStep which{.first = i == 0, .boundary = i + 1 == shape.steps};
      const bool selects =
          std::find(shape.select_at.begin(), shape.select_at.end(), i) != shape.select_at.end();
      if (selects && shape.first_step + i > 0) resynchronise();
      step_.forward_backward(which, before, overlap_ && updates_ > 0);
      before.assign(builder_.classes(), {});
      if (!shape.full_update) selective_update(selects);
    }
    overlap_ ? overlapped_boundary(shape.full_update) : blocking_boundary();
    ++updates_;
  }

 private:
  /// The master copy is overwritten by the bf16 weights before columns are selected anew.
  void resynchronise() {
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const double bytes = builder_.element_bytes() * step_.partition();
      builder_.hold_compute(
          c, builder_.pageable_copy(c, Phase::kD2H, 0, bytes, {builder_.last_compute(c)}));
    }
  }

  /// Transposing every gradient into its bucket, gathering the selected columns, their
  /// broadcast, and AdamW in bf16 (weight and moments read and written, gradient read).
  void selective_update(bool selects) {
    const double selected = selected_parameters(job_);
    const double matrix = static_cast<double>(job_.scenario.model.matrix_parameters());
    const double b = builder_.element_bytes();
    const double passes = 4 * matrix + (selects ? matrix : 0) + 9 * selected;
    const Seconds time = stream_time(job_.scenario.hardware.gpu, Bytes(b * passes));
    const Bytes exchanged(b * selected);
    const TaskId broadcast =
        builder_.collective(Phase::kSelect, all_gather_time(builder_.group(), exchanged), 0,
                            exchanged.value(), After(step_.gradients_ready()));
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      TaskId after = broadcast;
      if (settings_of(job_).offload) after = swap_state(c, broadcast);
      builder_.compute(c, Phase::kGpuUpdate, 0, time, {after});
    }
  }

  /// zenflow.offload: the moments come up before the update and go down after it.
  TaskId swap_state(std::size_t c, TaskId after) {
    const double bytes = 2 * builder_.element_bytes() * settings_of(job_).topk_ratio *
                         static_cast<double>(job_.scenario.model.parameters()) /
                         (job_.deepspeed.zero_stage == 3 ? builder_.ranks() : 1);
    const TaskId up = builder_.copy(c, Phase::kH2D, 0, bytes, {after});
    builder_.hold_compute(c, builder_.copy(c, Phase::kD2H, 0, bytes, {up}));
    return up;
  }

  TaskId cpu_task(LaneUse lane, Seconds time, Phase phase, std::span<const TaskId> after) {
    return builder_.add(lane, to_picoseconds(time), builder_.label(phase, 0), after);
  }

  void blocking_boundary() {
    After up;
    const PerClass gradients = step_.gradients_ready();
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const RankClass& rank = builder_.cluster().classes[c];
      const TaskId scaled =
          cpu_task(rank.cpu_accumulate, blocking_.scale, Phase::kCpuScale, gradients);
      const TaskId updated =
          cpu_task(rank.cpu_update, blocking_.update, Phase::kCpuUpdate, {{scaled}});
      const TaskId cast =
          cpu_task(rank.cpu_accumulate, blocking_.cast, Phase::kCpuCast, {{updated}});
      up.push_back(step_.weights_up(c, false, cast));
    }
    weights_arrive(up, up);
  }

  /// `submitted_`: the worker's outstanding updates, oldest first.
  void overlapped_boundary(bool full_update) {
    const PerClass gradients = step_.gradients_ready();
    if (full_update) submit(gradients);
    const bool waits = full_update || submitted_.size() >= depth_;
    PerClass done = waits ? submitted_.front() : PerClass(builder_.classes(), kNoTask);
    After up;
    After host = After(gradients);
    if (waits) {
      submitted_.erase(submitted_.begin());
      for (std::size_t c = 0; c < builder_.classes(); ++c) {
        const RankClass& rank = builder_.cluster().classes[c];
        const After before = {done[c], gradients[c]};
        const TaskId cast = cpu_task(rank.cpu_accumulate, cpu_.cast, Phase::kCpuCast, before);
        up.push_back(step_.weights_up(c, true, cast));
      }
      host = up;
    }
    // The training process unscales after the blocking copy and before the next forward.
    const PerClass scaled = full_update ? PerClass(host.begin(), host.end()) : scale(host);
    if (!full_update) submit(scaled);
    weights_arrive(up, scaled);
  }

  PerClass scale(const After& host) {
    PerClass scaled;
    const PerClass& gradients = step_.gradients_ready();
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      After after(gradients);
      after.push_back(host[c]);
      const RankClass& rank = builder_.cluster().classes[c];
      scaled.push_back(cpu_task(rank.cpu_accumulate, cpu_.scale, Phase::kCpuScale, after));
    }
    return scaled;
  }

  void submit(const PerClass& ready) {
    PerClass jobs;
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const RankClass& rank = builder_.cluster().classes[c];
      jobs.push_back(cpu_task(rank.cpu_update, cpu_.update, Phase::kCpuUpdate, {{ready[c]}}));
    }
    submitted_.push_back(jobs);
  }

  /// The next forward waits for the new weights, if any came, and for the host thread.
  void weights_arrive(const After& up, const After& host) {
    const TaskId gathered = up.empty() ? kNoTask : step_.gather_weights(up);
    ready_.assign(builder_.classes(), {});
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      ready_[c].push_back(host[c]);
      if (!up.empty()) ready_[c].push_back(gathered == kNoTask ? up[c] : gathered);
    }
  }

  const Job& job_;
  ProgramBuilder& builder_;
  const DeepSpeedCpu& cpu_;
  const DeepSpeedCpu& blocking_;
  DeepSpeedStep step_;
  bool overlap_;
  std::size_t depth_;
  std::int64_t updates_ = 0;
  std::vector<PerClass> submitted_;
  std::vector<After> ready_;
};

Program DeepSpeedZenFlow::build(const Job& job, std::span<const WindowShape> shapes) const {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  const ZenFlowSettings& settings = settings_of(job);
  const double reserved = settings.pt_reserved_cores_perc;
  const bool split = settings.overlap_step && reserved > 0 && reserved < 1;
  const DeepSpeedCpu cpu = deepspeed_cpu(job, split ? reserved * cores : cores,
                                         split ? (1 - reserved) * cores : cores, true);
  const DeepSpeedCpu blocking = deepspeed_cpu(job, cores, cores, false);
  ProgramBuilder builder(job, plan_step(job), make_cluster(job.scenario, cpu.rates),
                         job.deepspeed.zero_stage == 3 ? GradientReduction::kReduceScatterBuckets
                                                       : GradientReduction::kAllReduceBuckets);
  deepspeed_gpu_memory(job, builder);
  selected_memory(job, builder);
  host_memory(job, builder);
  Emitter emitter(job, builder, cpu, blocking);
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_deepspeed_zenflow() {
  return std::make_unique<DeepSpeedZenFlow>();
}

}  // namespace zenflow::sim
