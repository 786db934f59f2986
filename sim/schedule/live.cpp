/// What zenflow-train does, operation by operation: the schedules by which its runs are predicted
/// and checked. The operations, their order and what they wait for are the runtime's own lists
/// (sim/offload/offload_rule.h); here they get durations and become tasks. In detail they differ
/// from the published schedules:
/// * a layer is a bucket: its gradients are packed on the device and go down as one copy;
/// * selected and deferred columns are whole numbers of each matrix (live_layout.h);
/// * CPU Adam, clipping and the 16-bit copy are one pass;
/// * with activation checkpointing a block's forward runs again before its backward, but not the
///   last block's, whose activations are still there;
/// * the training thread goes on when it knows the norm; host.step_gap later the device has work
///   again.
///
/// Where the device is the host (gpu.host_cores), its streams are threads that share the cores with
/// the optimizer's: each gets an equal share when there are more threads than cores.
///
/// Not simulated: state of columns that change place in a selection (their number depends on the
/// data), more than one rank.
/// Source: runtime/offload/engine_step.cpp, engine_window.cpp; docs/training.md, "The rule".
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/offload/offload_rule.h"
#include "sim/schedule/live_cluster.h"
#include "sim/schedule/live_memory.h"
#include "sim/schedule/live_work.h"
#include "sim/schedule/program_builder.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

class Live final : public Schedule {
 public:
  explicit Live(OffloadSchedule kind) : kind_(kind) {}

  [[nodiscard]] std::string_view name() const override { return live_schedule_name(kind_); }
  [[nodiscard]] std::string_view summary() const override;
  [[nodiscard]] std::string_view source() const override {
    return "runtime/offload, as zenflow-train runs it";
  }
  void check(const Job& job) const override;
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override;
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job, std::int64_t steps) const override;
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override;
  [[nodiscard]] std::int64_t micro_batches_per_step(const Job& job) const override {
    return settings(job).gradient_accumulation_steps;
  }
  [[nodiscard]] std::optional<ZenFlowSettings> zenflow(const Job& job) const override {
    if (kind_ != OffloadSchedule::kZenFlow) return std::nullopt;
    return job.deepspeed.zenflow;
  }

 private:
  [[nodiscard]] LiveSettings settings(const Job& job) const { return live_settings(kind_, job); }

  OffloadSchedule kind_;
};

std::string_view Live::summary() const {
  switch (kind_) {
    case OffloadSchedule::kGpuOnly:
      return "zenflow-train --schedule gpu-only, operation by operation";
    case OffloadSchedule::kZeroOffload:
      return "zenflow-train --schedule zero-offload, operation by operation";
    case OffloadSchedule::kZeroOffloadDpu:
      return "zenflow-train --schedule zero-offload-dpu, operation by operation";
    case OffloadSchedule::kZenFlow:
      break;
  }
  return "zenflow-train --schedule zenflow, operation by operation";
}

void Live::check(const Job& job) const {
  if (kind_ == OffloadSchedule::kZenFlow && !job.deepspeed.zenflow) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: zero_optimization.zenflow: schedule \"{}\" needs this block, e.g. "
                            "{{\"topk_ratio\": 0.1, \"update_interval\": 4, \"overlap_step\": "
                            "true}}; or give --set topk_ratio=0.1 --set update_interval=4",
                            job.scenario.deepspeed.at.text(), name()));
  }
  if (job.scenario.ranks() != 1) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected one GPU, as zenflow-train has, found {} (--set gpus=1 "
                            "--set nodes=1)",
                            name(), job.scenario.ranks()));
  }
  if (job.scenario.model.trained() < job.scenario.model.parameters()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: zenflow-train trains all weights of a model; take training.lora, "
                            "training.freeze and adapter out of the scenario",
                            name()));
  }
}

std::vector<std::string> Live::ignored(const Job& job) const {
  std::vector<std::string> notes = ignored_by_published(job, name());
  if (!job.scenario.offload.accumulate_on_device) return notes;
  const char* why = kind_ != OffloadSchedule::kZenFlow ? "it belongs to --schedule zenflow"
                    : job.deepspeed.zenflow && job.deepspeed.zenflow->update_interval == 1 &&
                            !job.deepspeed.zenflow->overlap_step
                        ? "a window of one step that nothing overlaps has no sums"
                        : nullptr;
  if (why != nullptr) {
    notes.push_back(fmt::format("{}: zenflow_train.accumulate_on has no effect: {}", name(), why));
  }
  return notes;
}

/// In a window of `steps` steps the last one ranks columns if the interval is over: columns
/// change place between windows. The first selection is in the first regular step.
std::vector<std::int32_t> selections(const LiveSettings& live, std::int64_t first,
                                     std::int64_t steps, std::int64_t& last_selection) {
  std::vector<std::int32_t> at;
  if (first == live.full_warm_up_rounds) {
    at.push_back(0);
    last_selection = first;
  }
  if (selection_due(first + steps, last_selection, live.select_interval)) {
    if (at.empty() || steps > 1) at.push_back(static_cast<std::int32_t>(steps - 1));
    last_selection = first + steps;
  }
  return at;
}

std::vector<WindowShape> Live::windows(const Job& job, std::int64_t steps) const {
  const LiveSettings live = settings(job);
  const bool selects = live.topk_ratio > 0 && live.offloads();
  std::vector<WindowShape> shapes;
  std::int64_t first = 0;
  for (; first < std::min(live.full_warm_up_rounds, steps); ++first) {
    shapes.push_back(
        {.first_step = first, .steps = 1, .full_update = true, .age = first == 0 ? 0 : 1});
  }
  std::int64_t last_selection = 0;
  for (std::int32_t count = 0; first < steps; first += live.update_interval, ++count) {
    WindowShape shape{.first_step = first,
                      .steps = static_cast<std::int32_t>(live.update_interval),
                      .age = std::min(count, WindowShape::kSettledAge)};
    if (selects) shape.select_at = selections(live, first, live.update_interval, last_selection);
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

ClosedForm Live::closed_form(const Job& job) const {
  const LiveSettings live = settings(job);
  double deferred = 0;
  for (const LiveLayer& layer : live_layers(job.scenario.model, live.topk_ratio)) {
    deferred += layer.deferred_elements();
  }
  const WindowBytes bytes =
      window_bytes(live, live.update_interval, static_cast<std::int64_t>(deferred),
                   bytes_per_element(job.scenario.training.dtype));
  const auto a_step = [&](std::int64_t of_window) {
    return static_cast<double>(of_window) / static_cast<double>(live.update_interval);
  };
  const std::int64_t delay = live.overlap_step && live.offloads() ? live.update_interval : 0;
  return {a_step(bytes.down), a_step(bytes.up), {delay, delay + live.update_interval - 1}};
}

/// What the operations on a group take, the same in every step.
struct GroupCosts {
  double elements = 0;
  double deferred = 0;  ///< of them
  Seconds packed{0};
  Seconds norms{0};
  Seconds placed{0};
};

/// All groups', with one share of deferred columns.
struct StepCosts {
  StepCosts(const Job& job, const LiveSettings& live) : work(job, live) {
    const GpuProfile& gpu = job.scenario.hardware.gpu;
    DeviceWork update;
    DeviceWork carry;
    for (const LiveLayer& layer : live_layers(job.scenario.model, live.topk_ratio)) {
      groups.push_back({layer.elements(), layer.deferred_elements(),
                        device_time(gpu, work.after_backward(layer)),
                        device_time(gpu, work.column_norms(layer)),
                        device_time(gpu, work.place_upload(layer))});
      deferred += groups.back().deferred;
      update += work.update_selected(layer);
      carry += work.carry_selected(layer);
    }
    selected = device_time(gpu, update);
    carried = device_time(gpu, carry);
  }
  [[nodiscard]] std::vector<std::int64_t> deferred_by_group() const {
    std::vector<std::int64_t> elements;
    for (const GroupCosts& group : groups) {
      elements.push_back(static_cast<std::int64_t>(group.deferred));
    }
    return elements;
  }

  LiveWork work;
  std::vector<GroupCosts> groups;
  double deferred = 0;
  Seconds selected{0};  ///< the update of selected columns
  Seconds carried{0};   ///< them into the other weights
};

LiveSettings in_warm_up(LiveSettings live) {
  live.topk_ratio = 0;
  live.update_interval = 1;
  live.overlap_step = false;
  return live;
}

/// Turns the rule's operations into tasks.
class LiveEmitter {
 public:
  LiveEmitter(const Job& job, const LiveSettings& live, ProgramBuilder& builder)
      : builder_(builder),
        step_gap_(job.scenario.hardware.host.step_gap),
        regular_(job, live),
        rule_(live, regular_.deferred_by_group(), bytes_per_element(job.scenario.training.dtype)) {
    if (live.full_warm_up_rounds > 0) {
      warm_up_.emplace(job, in_warm_up(live));
      rule_.set_warm_up(warm_up_->deferred_by_group());
    }
    for (PerClass& tasks : newest_) tasks.assign(regular_.groups.size() + 1, kNoTask);
  }

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    // What overlaps a window is handed over before it, and belongs to its first step.
    if (std::exchange(update_waits_, false)) emit(rule_.update());
    costs_ = shape.full_update ? &*warm_up_ : &regular_;
    rule_.begin_window(shape.full_update, shape.steps);
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      const bool ranks_columns =
          std::find(shape.select_at.begin(), shape.select_at.end(), step) != shape.select_at.end();
      first_of_window_ = step == 0;
      emit(rule_.step(first_of_window_, ranks_columns));
    }
    emit(rule_.send_sums());
    emit(rule_.take_update());
    update_waits_ = rule_.overlaps();
    if (!update_waits_) emit(rule_.update());
  }

 private:
  using Operations = std::span<const OffloadOperation>;

  void emit(Operations operations) {
    for (std::size_t at = 0; at < operations.size();) {
      if (operations[at].kind == Operation::kForward) {
        pass(operations, at);
      } else {
        emit(operations[at++]);
      }
    }
  }

  /// A micro-batch's forward and backward, with what follows the backward of each group.
  void pass(Operations operations, std::size_t& at) {
    const bool first = at == 0;
    for (; operations[at].kind == Operation::kForward; ++at) {
      for (const IssuedOperation& one : operations[at].after) {
        builder_.hold_forward(static_cast<std::size_t>(operations[at].group), 0, newest(one));
      }
    }
    const BucketSink follow = [&](std::size_t, const PerClass&) {
      const std::int32_t group = operations[at++].group;
      for (; operations[at].group == group && operations[at].kind != Operation::kForward; ++at) {
        emit(operations[at]);
      }
      return PerClass{kNoTask};
    };
    if (first) {
      builder_.forward_backward({After{}}, {}, follow);
    } else {
      builder_.forward_backward_again(follow);
    }
  }

  [[nodiscard]] TaskId& newest(const IssuedOperation& one) {
    return newest_[static_cast<std::size_t>(one.kind)][static_cast<std::size_t>(one.group + 1)];
  }

  void emit(const OffloadOperation& operation) {
    const auto awaited = [&](std::size_t i) {
      return i < operation.after.size() ? newest(operation.after[i]) : kNoTask;
    };
    newest(operation) = task_of(operation, {awaited(0), awaited(1)});
  }

  TaskId task_of(const OffloadOperation& operation, std::initializer_list<TaskId> after) {
    const RankClass& rank = builder_.cluster().classes[0];
    const auto groups = static_cast<std::int64_t>(costs_->groups.size());
    const std::int64_t layer = operation.group;
    const std::int64_t bucket = groups - 1 - layer;
    static constexpr GroupCosts kNone{};
    const GroupCosts& cost =
        operation.group == kAllGroups ? kNone : costs_->groups[static_cast<std::size_t>(layer)];
    const auto on_lane = [&](LaneUse lane, Seconds time, std::int64_t index) {
      return builder_.add(lane, to_picoseconds(time), builder_.label(operation.kind, index), after);
    };
    const auto on_device = [&](Operation kind, std::int64_t index, Seconds time) {
      return builder_.compute(0, kind, index, time, after);
    };
    switch (operation.kind) {
      case Operation::kColumnNorms:
        return on_device(Operation::kSelect, layer, cost.norms);
      case Operation::kPackGradients: {
        const TaskId packed = on_device(operation.kind, layer, cost.packed);
        builder_.memory(packed, true, builder_.gradients(), -costs_->work.width() * cost.elements);
        return packed;
      }
      case Operation::kGradientsDown:
      case Operation::kGradientSumsDown:
      case Operation::kWeightsUp:
        return builder_.copy(0, operation.kind, bucket, static_cast<double>(operation.bytes),
                             after);
      case Operation::kEnqueue:
        if (to_picoseconds(step_gap_).count > 0) {
          builder_.hold_compute(0, on_lane(rank.training, step_gap_, 0));
        }
        return kNoTask;
      case Operation::kAccumulate:
        return on_lane(rank.cpu_accumulate, cost.deferred * costs_->work.sum(first_of_window_).time,
                       bucket);
      case Operation::kGpuAccumulate:
        return on_device(operation.kind, 0,
                         costs_->work.sum_on_device(costs_->deferred, first_of_window_));
      case Operation::kUpdateSelected:
        return on_device(operation.kind, groups, costs_->selected);
      case Operation::kCpuUpdate:
        return on_lane(rank.cpu_update, costs_->work.update().call(cost.deferred), bucket);
      case Operation::kPlaceWeights:
        return on_lane(rank.h2d_kernels, cost.placed, bucket);
      case Operation::kCarrySelected:
        return carry(operation);
      default:  // part of packing, or known with the last task before
        return builder_.last_compute(0);
    }
  }

  /// Without selected columns the weights only change place, which takes no time.
  TaskId carry(const OffloadOperation& operation) {
    for (const IssuedOperation& one : operation.after) builder_.hold_compute(0, newest(one));
    if (costs_->carried.value() > 0) {
      builder_.compute(0, operation.kind, static_cast<std::int64_t>(costs_->groups.size()) + 1,
                       costs_->carried, {});
    }
    return builder_.last_compute(0);
  }

  ProgramBuilder& builder_;
  Seconds step_gap_;
  StepCosts regular_;
  std::optional<StepCosts> warm_up_;
  const StepCosts* costs_ = &regular_;  ///< of the window at hand
  OffloadRule rule_;
  /// By kind, and by group, of which those on all groups are the first.
  std::array<PerClass, kOperations> newest_;
  bool first_of_window_ = false;
  bool update_waits_ = false;  ///< for the next window to begin
};

Program Live::build(const Job& job, std::span<const WindowShape> shapes) const {
  const LiveSettings live = settings(job);
  Cluster cluster = live_cluster(job, live);
  if (job.scenario.hardware.host.step_gap.value() > 0) add_training_lanes(cluster);
  ProgramBuilder builder(job, live_plan(job), std::move(cluster));
  builder.reserve(shapes);
  declare_live_memory(job, live, builder);
  LiveEmitter emitter(job, live, builder);
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_live_gpu_only() {
  return std::make_unique<Live>(OffloadSchedule::kGpuOnly);
}
std::unique_ptr<const Schedule> make_live_zero_offload() {
  return std::make_unique<Live>(OffloadSchedule::kZeroOffload);
}
std::unique_ptr<const Schedule> make_live_zero_offload_dpu() {
  return std::make_unique<Live>(OffloadSchedule::kZeroOffloadDpu);
}
std::unique_ptr<const Schedule> make_live_zenflow() {
  return std::make_unique<Live>(OffloadSchedule::kZenFlow);
}

}  // namespace zenflow::sim
