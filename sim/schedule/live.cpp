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
/// Several ranks, on the host alone: each owns whole parameters. In the last backward a group's
/// gradients go to their owners before they are packed; in the next forward its weights come from
/// there. All wait for each other in both, and for the norm of the whole gradient.
///
/// Not simulated: state of columns that change place in a selection (their number depends on the
/// data).
/// Source: runtime/offload/engine_step.cpp, engine_window.cpp; docs/training.md, "The rule".
#include <algorithm>
#include <array>
#include <deque>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/transfer_cost.h"
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
  const bool has_ranks = job.scenario.nodes == 1 && job.scenario.hardware.gpu.runs_on_host();
  if (job.scenario.ranks() != 1 && !has_ranks) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected one GPU, found {} (--set gpus=1 --set nodes=1): "
                            "zenflow-train has several ranks on one host's cores alone",
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
  if (job.scenario.offload.topk_is_global && kind_ != OffloadSchedule::kZenFlow) {
    notes.push_back(fmt::format(
        "{}: zenflow_train.topk_scope has no effect: it belongs to --schedule zenflow", name()));
  }
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
/// change place between windows. The first selection is in the first regular step; where columns of
/// all matrices compete, they do so first at the end of its window.
std::vector<std::int32_t> selections(const LiveSettings& live, std::int64_t first,
                                     std::int64_t steps, std::int64_t& last_selection) {
  std::vector<std::int32_t> at;
  const bool is_first = first == live.full_warm_up_rounds;
  if (is_first) {
    at.push_back(0);
    last_selection = first;
  }
  if ((is_first && live.topk_is_global) ||
      selection_due(first + steps, last_selection, live.select_interval)) {
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
    return static_cast<double>(of_window) /
           static_cast<double>(live.update_interval * job.scenario.ranks());
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

/// All groups', with one share of deferred columns, of what a rank owns.
struct StepCosts {
  StepCosts(const Job& job, const LiveSettings& live, RankPlace place) : work(job, live) {
    const GpuProfile& gpu = job.scenario.hardware.gpu;
    DeviceWork update;
    DeviceWork carry;
    for (const LiveLayer& layer : live_layers(job.scenario.model, live.topk_ratio, place)) {
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

/// A rank's operations as tasks: its share of the rule's.
class RankTasks {
 public:
  using Operations = std::span<const OffloadOperation>;

  RankTasks(const Job& job, const LiveSettings& live, ProgramBuilder& builder,
            std::size_t rank_class)
      : builder_(builder),
        rank_class_(rank_class),
        step_gap_(job.scenario.hardware.host.step_gap),
        regular_(job, live, place(job)),
        rule_(live, regular_.deferred_by_group(), bytes_per_element(job.scenario.training.dtype)),
        keeps_gradients_(job.scenario.ranks() > 1 && live.zero_stage == 1 &&
                         live.gradient_accumulation_steps > 1) {
    if (job.scenario.ranks() > 1) rule_.set_several_ranks();
    if (live.full_warm_up_rounds > 0) {
      warm_up_.emplace(job, in_warm_up(live), place(job));
      rule_.set_warm_up(warm_up_->deferred_by_group());
    }
    for (PerClass& tasks : newest_) tasks.assign(regular_.groups.size() + 1, kNoTask);
  }

  void begin_window(const WindowShape& shape) {
    costs_ = shape.full_update ? &*warm_up_ : &regular_;
    rule_.begin_window(shape.full_update, shape.steps);
  }
  void begin_step(bool first_of_window, bool ranks_columns) {
    first_of_window_ = first_of_window;
    step_ = rule_.step(first_of_window, ranks_columns);
  }
  [[nodiscard]] bool has_pass() const { return !step_.empty() && is_forward(step_.front()); }

  /// Of the micro-batch at hand: its forwards wait for what has been uploaded. With ranks their
  /// weights are gathered first, and that waits: `uploads`, by layer.
  void begin_pass(std::vector<After>& uploads) {
    for (; has_pass(); step_ = step_.subspan(1)) {
      const OffloadOperation& operation = step_.front();
      const auto layer = static_cast<std::size_t>(operation.group);
      for (const IssuedOperation& one : operation.after) {
        if (operation.kind == Operation::kAllGather) uploads[layer].push_back(newest(one));
        builder_.hold_forward(layer, rank_class_, newest(one));
      }
    }
  }
  /// What follows a group's backward.
  void after_backward() {
    const std::int32_t group = step_.front().group;
    for (step_ = step_.subspan(1); !step_.empty() && step_.front().group == group && !has_pass();
         step_ = step_.subspan(1)) {
      emit(step_.front());
    }
  }
  /// That it owns of a layer.
  [[nodiscard]] double elements(std::size_t layer) const { return regular_.groups[layer].elements; }
  /// `norm_known`: with ranks, when all have the norm of the whole gradient.
  void finish_step(TaskId norm_known) {
    norm_known_ = norm_known;
    emit(std::exchange(step_, {}));
  }
  void finish_window() {
    emit(rule_.send_sums());
    emit(rule_.take_update());
    // What overlaps the next window is handed over before it, and belongs to its first step.
    update_waits_ = rule_.overlaps();
    if (!update_waits_) emit(rule_.update());
  }
  void hand_over() {
    if (std::exchange(update_waits_, false)) emit(rule_.update());
  }

 private:
  static bool is_forward(const OffloadOperation& operation) {
    return operation.kind == Operation::kForward || operation.kind == Operation::kAllGather;
  }
  [[nodiscard]] RankPlace place(const Job& job) const {
    return {static_cast<int>(builder_.cluster().classes[rank_class_].first_rank),
            static_cast<int>(job.scenario.ranks())};
  }

  void emit(Operations operations) {
    for (const OffloadOperation& one : operations) emit(one);
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
    const RankClass& rank = builder_.cluster().classes[rank_class_];
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
      return builder_.compute(rank_class_, kind, index, time, after);
    };
    switch (operation.kind) {
      case Operation::kColumnNorms:
        return on_device(Operation::kSelect, layer, cost.norms);
      case Operation::kPackGradients:
        return pack(operation, cost, after);
      case Operation::kGradientsDown:
      case Operation::kGradientSumsDown:
      case Operation::kWeightsUp:
        return builder_.copy(rank_class_, operation.kind, bucket,
                             static_cast<double>(operation.bytes), after);
      case Operation::kGradientNorms:
        return norm_known_ != kNoTask ? norm_known_ : builder_.last_compute(rank_class_);
      case Operation::kEnqueue:
        if (to_picoseconds(step_gap_).count > 0) {
          builder_.hold_compute(rank_class_, on_lane(rank.training, step_gap_, 0));
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
        return builder_.last_compute(rank_class_);
    }
  }

  /// A rank that owns nothing of the group has nothing to pack.
  TaskId pack(const OffloadOperation& operation, const GroupCosts& cost,
              std::initializer_list<TaskId> after) {
    if (cost.elements == 0) return builder_.last_compute(rank_class_);
    const TaskId packed =
        builder_.compute(rank_class_, operation.kind, operation.group, cost.packed, after);
    if (rank_class_ == 0 && !keeps_gradients_) {
      builder_.memory(packed, true, builder_.gradients(), -costs_->work.width() * cost.elements);
    }
    return packed;
  }

  /// Without selected columns the weights only change place, which takes no time.
  TaskId carry(const OffloadOperation& operation) {
    for (const IssuedOperation& one : operation.after) {
      builder_.hold_compute(rank_class_, newest(one));
    }
    if (costs_->carried.value() > 0) {
      builder_.compute(rank_class_, operation.kind,
                       static_cast<std::int64_t>(costs_->groups.size()) + 1, costs_->carried, {});
    }
    return builder_.last_compute(rank_class_);
  }

  ProgramBuilder& builder_;
  std::size_t rank_class_;
  Seconds step_gap_;
  StepCosts regular_;
  std::optional<StepCosts> warm_up_;
  const StepCosts* costs_ = &regular_;  ///< of the window at hand
  OffloadRule rule_;
  Operations step_;  ///< what is left of it
  /// By kind, and by group, of which those on all groups are the first.
  std::array<PerClass, kOperations> newest_;
  bool first_of_window_ = false;
  bool update_waits_ = false;  ///< for the next window to begin
  TaskId norm_known_ = kNoTask;
  bool keeps_gradients_;  ///< to the end of backward
};

/// Turns the rule's operations into tasks, of all ranks at once.
class LiveEmitter {
 public:
  LiveEmitter(const Job& job, const LiveSettings& live, ProgramBuilder& builder)
      : live_(live), builder_(builder), group_(builder.group()), uploads_(layers()) {
    if (live.topk_is_global) competing_columns_ = competing_columns(job, live);
    for (std::size_t c = 0; c < builder.classes(); ++c) ranks_.emplace_back(job, live, builder, c);
    if (group_.ranks > 1) {
      builder.before_forward([this](std::size_t layer) { gather(layer); });
    }
  }

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    for (RankTasks& rank : ranks_) rank.hand_over();
    for (RankTasks& rank : ranks_) rank.begin_window(shape);
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      const bool ranks_columns =
          std::find(shape.select_at.begin(), shape.select_at.end(), step) != shape.select_at.end();
      for (RankTasks& rank : ranks_) rank.begin_step(step == 0, ranks_columns);
      for (bool first = true; ranks_.front().has_pass(); first = false) pass(first);
      const TaskId norm_known = exchange_norms();
      for (RankTasks& rank : ranks_) rank.finish_step(norm_known);
    }
    for (RankTasks& rank : ranks_) rank.finish_window();
    const auto& at = shape.select_at;
    if (std::find(at.begin(), at.end(), shape.steps - 1) != at.end()) exchange_columns();
  }

 private:
  static double competing_columns(const Job& job, const LiveSettings& live) {
    double columns = 0;
    for (const LiveLayer& layer : live_layers(job.scenario.model, live.topk_ratio)) {
      for (const LiveTensor& tensor : layer.tensors) {
        if (tensor.selectable()) columns += static_cast<double>(tensor.columns);
      }
    }
    return columns;
  }

  /// Between two windows each rank tells all others the norms of its columns, if those of all
  /// matrices compete.
  void exchange_columns() {
    if (group_.ranks == 1 || competing_columns_ == 0) return;
    After after;
    for (std::size_t c = 0; c < ranks_.size(); ++c) after.push_back(builder_.last_compute(c));
    const double bytes = builder_.element_bytes() * competing_columns_;
    const TaskId known = builder_.collective(
        Operation::kSelect,
        broadcast_time(group_, Bytes(bytes), static_cast<std::int64_t>(group_.ranks)), 0, bytes,
        after);
    for (std::size_t c = 0; c < ranks_.size(); ++c) builder_.hold_compute(c, known);
  }

  [[nodiscard]] std::size_t layers() const { return builder_.plan().layers.size(); }

  /// A micro-batch's forward and backward, with what follows the backward of each group.
  void pass(bool first) {
    gathers_ = first && group_.ranks > 1;
    for (RankTasks& rank : ranks_) rank.begin_pass(uploads_);
    builder_.reduce_gradients(live_.exchanges_gradients(passes_++ % micro_batches()));
    const BucketSink follow = [&](std::size_t bucket, const PerClass& reduced) {
      if (group_.ranks > 1) gradients_leave(bucket, first, reduced.front());
      for (std::size_t c = 0; c < ranks_.size(); ++c) {
        if (group_.ranks > 1) builder_.hold_compute(c, reduced[c]);
        ranks_[c].after_backward();
      }
      return PerClass(ranks_.size(), kNoTask);
    };
    if (first) {
      builder_.forward_backward(std::vector<After>(ranks_.size()), {}, follow);
    } else {
      builder_.forward_backward_again(follow);
    }
  }
  [[nodiscard]] std::int64_t micro_batches() const { return live_.gradient_accumulation_steps; }

  /// The first rank's gradients that others own: there from backward on until these have them. In
  /// ZeRO stage 1 all are until a step's last backward ends.
  void gradients_leave(std::size_t bucket, bool first_pass, TaskId reduced) {
    if (live_.zero_stage == 1 && micro_batches() > 1) {
      if (first_pass) kept_ += builder_.element_bytes() * builder_.plan().buckets[bucket].elements;
      if (bucket + 1 < layers() || passes_ % micro_batches() != 0) return;
      builder_.memory(reduced, true, builder_.gradients(), -std::exchange(kept_, 0));
      return;
    }
    const double owned = ranks_.front().elements(layers() - 1 - bucket);
    const double bytes =
        builder_.element_bytes() * (builder_.plan().buckets[bucket].elements - owned);
    if (!first_pass) builder_.memory(builder_.last_compute(0), false, builder_.gradients(), bytes);
    builder_.memory(reduced, true, builder_.gradients(), -bytes);
  }

  /// The layer's weights from their owners, on the compute streams of all.
  void gather(std::size_t layer) {
    if (!gathers_) return;
    After after = std::exchange(uploads_[layer], {});
    for (std::size_t c = 0; c < ranks_.size(); ++c) {
      const After& held = builder_.held_compute(c);
      after.insert(after.end(), held.begin(), held.end());
      after.push_back(builder_.last_compute(c));
    }
    const GradientBucket& tensors = builder_.plan().buckets[layers() - 1 - layer];
    const double bytes = builder_.element_bytes() * tensors.elements;
    // The last exchange was before the layer below.
    const Seconds pass =
        layer > 0 ? to_seconds(builder_.plan().layers[layer - 1].forward) : Seconds(0);
    const TaskId gathered = builder_.collective(
        Operation::kAllGather,
        broadcast_time(group_, Bytes(bytes), tensors.tensors) + builder_.wait_for_slowest(pass),
        static_cast<std::int64_t>(layer), bytes, after);
    for (std::size_t c = 0; c < ranks_.size(); ++c) builder_.hold_forward(layer, c, gathered);
  }

  /// Each rank's parts of the norm, 8 bytes a parameter, and its loss to every other one.
  TaskId exchange_norms() {
    if (group_.ranks == 1) return kNoTask;
    After after;
    for (std::size_t c = 0; c < ranks_.size(); ++c) after.push_back(builder_.last_compute(c));
    const auto others = static_cast<double>(group_.ranks - 1);
    double parameters = 0;
    for (const GradientBucket& bucket : builder_.plan().buckets) parameters += bucket.tensors;
    const double bytes = static_cast<double>(group_.ranks) * kSumOfSquaresBytes * (parameters + 1);
    const TaskId known =
        builder_.collective(Operation::kGradientNorms, others * group_.latency, 0, bytes, after);
    for (std::size_t c = 0; c < ranks_.size(); ++c) builder_.hold_compute(c, known);
    return known;
  }

  static constexpr double kSumOfSquaresBytes = 8;

  const LiveSettings& live_;
  ProgramBuilder& builder_;
  const Communicator& group_;
  std::vector<After> uploads_;    ///< by layer: of all ranks, that its next gathering waits for
  std::deque<RankTasks> ranks_;   ///< by class; they do not move
  double competing_columns_ = 0;  ///< 0: each matrix has its own share
  bool gathers_ = false;          ///< in the pass at hand
  std::int64_t passes_ = 0;
  double kept_ = 0;  ///< bytes of gradients that stay
};

Program Live::build(const Job& job, std::span<const WindowShape> shapes) const {
  const LiveSettings live = settings(job);
  Cluster cluster = live_cluster(job, live);
  if (job.scenario.hardware.host.step_gap.value() > 0) add_training_lanes(cluster);
  ProgramBuilder builder(job, live_plan(job), std::move(cluster), GradientReduction::kToOwners);
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
