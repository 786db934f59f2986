/// ZenFlow as DeepSpeed ships it, which is not what the paper describes: all gradients are
/// copied, whatever topk_ratio (deepspeed_step.h, with update_interval as the window); the CPU
/// updates all columns; selected columns are besides updated on every GPU in bf16.
///
/// overlap_step false: the boundary's CPU update blocks, as in ZeRO-Offload.
/// overlap_step true, at a boundary: wait for the worker's previous update; cast the snapshot to
/// bf16 (before 0.19.3 in stages 1 and 2 on the GPU) and copy it up from ordinary memory (shared
/// memory is not page-locked); all-gather; unscale the new gradients; hand them to the worker, a
/// process of its own that runs Adam on its cores and copies the result to the snapshot. With
/// full_warm_up_rounds = 0 the first wait is skipped although a job is outstanding, so every later
/// boundary waits for the update before the last.
///
/// The worker binds its threads. Unless the launcher binds the training process too and the
/// worker keeps off its cores, training threads share theirs with the worker while it works.
///
/// HF Trainer and accelerate set the boundaries themselves: every gradient_accumulation_steps.
/// Selection, except in the very first step, first overwrites the fp32 master by upcast bf16
/// weights: a blocking copy of the partition, 2 p bytes down.
///
/// Memory: deepspeed_memory.h.
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

/// int(k columns) of every matrix, since kSelectionFloor (in stage 3 always) at least one, and all
/// vectors: what the GPU updates.
double selected_parameters(const Job& job) {
  const bool floor = job.has(Change::kSelectionFloor) || job.deepspeed.zero_stage == 3;
  const auto selected = [&](const Layer& layer) {
    std::int64_t count = 0;
    for (const Tensor& tensor : layer.tensors) {
      if (!tensor.trained) continue;
      const auto share = settings_of(job).topk_ratio * static_cast<double>(tensor.columns());
      const auto columns = std::max<std::int64_t>(static_cast<std::int64_t>(share), floor ? 1 : 0);
      count += tensor.is_matrix() ? tensor.rows() * columns : tensor.parameters();
    }
    return count;
  };
  const ModelSpec& model = job.scenario.model;
  std::int64_t all = selected(model.embedding) + selected(model.head);
  const std::vector<std::int64_t> counts = model.kind_counts();
  for (std::size_t i = 0; i < counts.size(); ++i) all += counts[i] * selected(model.kinds[i]);
  return static_cast<double>(all);
}

/// The worker has no core that a training thread runs on.
bool worker_keeps_apart(const Job& job) {
  const double reserved = settings_of(job).pt_reserved_cores_perc;
  return job.scenario.bind_cores_to_rank && job.has(Change::kWorkerCores) && reserved > 0 &&
         reserved < 1;
}

class DeepSpeedZenFlow final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "deepspeed-zenflow"; }
  [[nodiscard]] std::string_view summary() const override {
    return "ZenFlow as DeepSpeed runs it, stages 1 to 3";
  }
  [[nodiscard]] std::string_view source() const override { return "deepspeed/runtime/zenflow"; }
  void check(const Job& job) const override;
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override;
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return deepspeed_zenflow_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override;
  [[nodiscard]] std::optional<ZenFlowSettings> zenflow(const Job& job) const override {
    ZenFlowSettings in_force = settings_of(job);
    in_force.update_interval = zenflow_window(job);
    return in_force;
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
  if (!job.has(Change::kZenFlow)) {
    fail("cannot run in DeepSpeed " + to_string(job.version) + ": ZenFlow is in it from 0.17.5");
  }
  if (!job.deepspeed.zenflow) fail("needs a zenflow block");
  if (job.deepspeed.zero_stage == 0) fail("needs stage 1, 2 or 3");
  const int stage = job.deepspeed.zero_stage;
  const std::string release = "cannot run in DeepSpeed " + to_string(job.version) + ": ";
  if (job.has(Change::kEngineRunsBackward) && !job.has(Change::kZenFlowPrologue)) {
    fail(release +
         "it never prepares ZenFlow's backward, and the loss turns NaN (DeepSpeed #7759); "
         "use 0.19.2 or newer, or 0.18.2");
  }
  if (stage == 3 && !job.has(Change::kStage3ZenFlow)) {
    fail(release + "its ZenFlow has stages 1 and 2 only; stage 3 came with 0.18.1");
  }
  if (stage == 3 && job.deepspeed.offload_param != OffloadDevice::kNone &&
      !job.has(Change::kSelectiveSwap)) {
    fail(release + "ZenFlow fails there with offload_param (DeepSpeed #8042); use 0.19.2 or newer");
  }
  if (const Tensor* stacked = job.scenario.model.stacked_tensor()) {
    fail(stacked_tensor_failure(*stacked, stage) +
         "; leave the zenflow block out (deepspeed-zero-offload)");
  }
  check_parameter_nvme(job, name());
  if (settings_of(job).update_interval) return;
  fail(job.has(Change::kEngineRunsBackward)
           ? "cannot run update_interval \"auto\": DeepSpeed takes 0 accumulation steps from it "
             "and divides the gradients by zero; give a number"
           : "cannot run update_interval \"auto\": when DeepSpeed updates then depends on the "
             "gradients; give a number");
}

std::vector<std::string> DeepSpeedZenFlow::ignored(const Job& job) const {
  std::vector<std::string> notes = ignored_by_deepspeed(job, name());
  const ZenFlowSettings& settings = settings_of(job);
  if (job.target != LaunchTarget::kDeepSpeed) {
    notes.push_back(
        fmt::format("{}: launch.target {} sets the update boundaries: every "
                    "gradient_accumulation_steps, {}, whatever update_interval, {}, "
                    "full_warm_up_rounds and select_interval say",
                    name(), to_string(job.target), zenflow_window(job), *settings.update_interval));
  }
  if (settings.select_strategy != "step" && job.target != LaunchTarget::kDeepSpeed) {
    notes.push_back(
        fmt::format("{}: select_strategy {} never selects anew: it counts epochs of "
                    "training_data, which {} does not hand to DeepSpeed",
                    name(), settings.select_strategy, to_string(job.target)));
  }
  return notes;
}

/// Without reselection; each one adds 2 bytes a parameter of the partition down.
ClosedForm DeepSpeedZenFlow::closed_form(const Job& job) const {
  const double p = job.partition();
  const double b = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const std::int64_t steps = zenflow_window(job);
  const auto s = static_cast<double>(steps);
  const bool deep = settings_of(job).full_warm_up_rounds == 0;
  const std::int64_t delay = settings_of(job).overlap_step ? (deep ? 2 : 1) * steps : 0;
  const Staleness staleness{delay, delay + steps - 1};
  const bool wide = settings_of(job).overlap_step && zenflow_uploads_fp32(job);
  const double up = wide ? 4 : b;
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const double state = settings_of(job).offload
                           ? 2 * b * settings_of(job).topk_ratio *
                                 static_cast<double>(job.scenario.model.trained()) /
                                 (stage3 ? static_cast<double>(job.scenario.ranks()) : 1)
                           : 0;
  if (stage3) {
    // On the host weights are fetched where they are used, not copied up.
    const double weights =
        job.deepspeed.offload_param == OffloadDevice::kNone
            ? up / s * p
            : b * stage3_gathers(job).in_a_step() / static_cast<double>(job.scenario.ranks());
    return {(b + 4 / s) * p + state, b * p + weights + state, staleness};
  }
  // A running sum is copied unless each window has one micro step; then old releases still bring
  // it down if update_interval is above 1.
  const bool sums =
      steps > 1 || (!job.has(Change::kSumOnlyIfShared) && *settings_of(job).update_interval > 1);
  const double down = (sums ? b : 0) + 4 / s;
  return {down * p + state, (b * (s - 1) / s + up / s) * p + state, staleness};
}

/// get_overlap_step_state: by window number, whatever the distance to the boundary before.
std::optional<int> DeepSpeedZenFlow::gradient_buffer(const Job& job, std::int64_t step) const {
  const ZenFlowSettings& settings = settings_of(job);
  if (!settings.overlap_step) return std::nullopt;
  const bool warm_up = step < settings.full_warm_up_rounds;
  return static_cast<int>((warm_up ? step : step / *settings.update_interval) % 2);
}

/// The selected parameters that one rank updates: under stages 1 and 2 all of them.
double selected_on_rank(const Job& job) {
  return selected_parameters(job) /
         (job.deepspeed.zero_stage == 3 ? static_cast<double>(job.scenario.ranks()) : 1);
}

class Emitter {
 public:
  Emitter(const Job& job, ProgramBuilder& builder, const DeepSpeedCpu& cpu)
      : job_(job),
        builder_(builder),
        cpu_(cpu),
        step_(job, builder, {.zenflow = true}),
        temporaries_(job, selected_on_rank(job), builder),
        overlap_(settings_of(job).overlap_step),
        depth_(settings_of(job).full_warm_up_rounds == 0 ? 2 : 1) {}

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    std::vector<After> before = std::exchange(ready_, {});
    before.resize(builder_.classes());
    for (std::int32_t i = 0; i < shape.steps; ++i) {
      const StepPlace which{.first = i == 0, .boundary = i + 1 == shape.steps};
      const bool selects =
          std::find(shape.select_at.begin(), shape.select_at.end(), i) != shape.select_at.end();
      if (selects && shape.first_step + i > 0) resynchronise(before);
      if (!shape.full_update) temporaries_.begin(which.boundary);
      step_.forward_backward(which, before, overlap_ && updates_ > 0);
      before.assign(builder_.classes(), {});
      if (!shape.full_update) selective_update(selects);
    }
    overlap_ ? overlapped_boundary(shape.full_update) : blocking_boundary();
    ++updates_;
  }

 private:
  /// The master copy is overwritten by the bf16 weights before columns are selected anew, by the
  /// thread that then goes on with the step, once it and the GPU are done with `before`.
  void resynchronise(const std::vector<After>& before) {
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const double bytes = builder_.element_bytes() * step_.partition();
      After ready = before[c];
      ready.push_back(builder_.last_compute(c));
      const TaskId down = builder_.pageable_copy(c, Operation::kD2H, 0, bytes, ready);
      const LaneUse cores = builder_.cluster().classes[c].cpu_accumulate;
      builder_.hold_compute(c, cpu_task(cores, cpu_.overwrite, Operation::kCpuCast, {{down}}));
    }
  }

  /// Transposing every gradient into its bucket, gathering the selected columns, their
  /// broadcast, and AdamW in bf16 (weight and moments read and written, gradient read).
  void selective_update(bool selects) {
    const double selected = selected_parameters(job_);
    const double matrix = static_cast<double>(job_.scenario.model.trained_in_matrices());
    const double b = builder_.element_bytes();
    const double passes = 4 * matrix + (selects ? matrix : 0) + 9 * selected;
    const Seconds time = stream_time(job_.scenario.hardware.gpu, Bytes(b * passes));
    const Bytes exchanged(b * selected);
    const TaskId broadcast =
        builder_.collective(Operation::kSelect, all_gather_time(builder_.group(), exchanged), 0,
                            exchanged.value(), After(step_.gradients_ready()));
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      TaskId after = broadcast;
      if (settings_of(job_).offload) after = swap_state(c, broadcast);
      const TaskId update = builder_.compute(c, Operation::kGpuUpdate, 0, time, {after});
      if (c == 0) temporaries_.end(update);
    }
  }

  /// zenflow.offload: the moments come up before the update and go down after it.
  TaskId swap_state(std::size_t c, TaskId after) {
    const double bytes = 2 * builder_.element_bytes() * settings_of(job_).topk_ratio *
                         static_cast<double>(job_.scenario.model.trained()) /
                         (job_.deepspeed.zero_stage == 3 ? builder_.ranks() : 1);
    const TaskId up = builder_.copy(c, Operation::kH2D, 0, bytes, {after});
    const TaskId down = builder_.copy(c, Operation::kD2H, 0, bytes, {up});
    if (c == 0) temporaries_.hold_moments(up, down, bytes);
    builder_.hold_compute(c, down);
    return up;
  }

  TaskId cpu_task(LaneUse lane, Seconds time, Operation operation, std::span<const TaskId> after) {
    return builder_.add(lane, to_picoseconds(time), builder_.label(operation, 0), after);
  }

  void blocking_boundary() {
    After up;
    const PerClass gradients = step_.gradients_ready();
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const RankClass& rank = builder_.cluster().classes[c];
      const TaskId scaled =
          cpu_task(rank.cpu_accumulate, cpu_.scale, Operation::kCpuScale, gradients);
      const TaskId updated =
          cpu_task(rank.cpu_update, cpu_.whole_update(), Operation::kCpuUpdate, {{scaled}});
      const TaskId cast =
          cpu_task(rank.cpu_accumulate, cpu_.cast, Operation::kCpuCast, {{updated}});
      up.push_back(step_.weights_up(c, cast));
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
        const After before = {done[c], gradients[c]};
        up.push_back(snapshot_up(c, before));
      }
      host = up;
    }
    // The training process unscales after the blocking copy and before the next forward.
    const PerClass scaled = full_update ? PerClass(host.begin(), host.end()) : scale(host);
    if (!full_update) submit(scaled);
    weights_arrive(up, scaled);
  }

  TaskId snapshot_up(std::size_t c, const After& before) {
    if (zenflow_uploads_fp32(job_)) return step_.snapshot_up(c, before);
    const RankClass& rank = builder_.cluster().classes[c];
    return step_.snapshot_up(
        c, {cpu_task(rank.cpu_accumulate, cpu_.cast, Operation::kCpuCast, before)});
  }

  PerClass scale(const After& host) {
    PerClass scaled;
    const PerClass& gradients = step_.gradients_ready();
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      After after(gradients);
      after.push_back(host[c]);
      const RankClass& rank = builder_.cluster().classes[c];
      scaled.push_back(cpu_task(rank.cpu_accumulate, cpu_.scale, Operation::kCpuScale, after));
    }
    return scaled;
  }

  void submit(const PerClass& ready) {
    PerClass jobs;
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      const RankClass& rank = builder_.cluster().classes[c];
      jobs.push_back(
          cpu_task(rank.cpu_update, cpu_.whole_update(), Operation::kCpuUpdate, {{ready[c]}}));
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
  DeepSpeedStep step_;
  SelectedTemporaries temporaries_;
  bool overlap_;
  std::size_t depth_;
  std::int64_t updates_ = 0;
  std::vector<PerClass> submitted_;
  std::vector<After> ready_;
};

/// How the node's cores are divided between the training processes and the workers.
DeepSpeedCpu overlapped_cpu(const Job& job) {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  const double reserved = settings_of(job).pt_reserved_cores_perc;
  const bool split = job.has(Change::kWorkerCores) && reserved > 0 && reserved < 1;
  DeepSpeedCpu cpu = deepspeed_cpu(job, split ? reserved * cores : cores,
                                   split ? (1 - reserved) * cores : cores, OptimizerPlace::kWorker);
  cpu.rates.optimizer_shares_cores = !worker_keeps_apart(job);
  return cpu;
}

Program DeepSpeedZenFlow::build(const Job& job, std::span<const WindowShape> shapes) const {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  const DeepSpeedCpu cpu = settings_of(job).overlap_step
                               ? overlapped_cpu(job)
                               : deepspeed_cpu(job, cores, cores, OptimizerPlace::kTraining);
  ProgramBuilder builder(job, plan_step(job), deepspeed_cluster(job, cpu.rates),
                         job.deepspeed.zero_stage == 3 ? GradientReduction::kReduceScatterBuckets
                                                       : GradientReduction::kAllReduceBuckets);
  declare_gpu_memory(job, builder);
  declare_selected_state(job, selected_on_rank(job), builder);
  const ZenFlowSettings& settings = settings_of(job);
  const bool reselects =
      settings.select_strategy == "step" && settings.select_interval.value_or(0) != 0;
  declare_host_memory(job,
                      {.running_sum = zenflow_window(job) > 1,
                       .overlap = settings.overlap_step,
                       .reselects = reselects,
                       .casts_upload = !zenflow_uploads_fp32(job),
                       .elements = job.partition()},
                      builder);
  Emitter emitter(job, builder, cpu);
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_deepspeed_zenflow() {
  return std::make_unique<DeepSpeedZenFlow>();
}

}  // namespace zenflow::sim
