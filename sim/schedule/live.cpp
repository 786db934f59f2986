/// What zenflow-train does, operation by operation: the schedules by which its runs are predicted
/// and checked. Its rule is the papers'; in detail it differs from the published schedules:
/// * a layer is a bucket: its gradients are packed on the device and go down as one copy;
/// * selected and deferred columns are whole numbers of each matrix (live_layout.h);
/// * sums and updates wait for the norm of the whole gradient, which the host reads each step;
/// * a layer is uploaded as soon as it is updated; without overlap the next step's forward waits
///   layer by layer, with overlap the window's end waits for all;
/// * with zenflow_train.accumulate_on "device" gradients do not leave a step: all are summed on the
///   device after the norm, and a window's sums go down layer by layer when its last compute is
///   done; the next window's first sum waits for the last of them;
/// * uploads are put into the second weights on the copy stream, selected weights are carried over
///   on the compute stream;
/// * CPU Adam, clipping and the 16-bit copy are one pass;
/// * a step has gradient_accumulation_steps micro-batches, one after the other: gradients add up in
///   the device's buffer, which then has a place for each, and leave in the last backward;
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
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
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
  const auto width = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const auto steps = static_cast<double>(live.update_interval);
  const double down = live.sums_on_device() ? kLiveSumBytes / steps : width;
  const std::int64_t delay = live.overlap_step && live.offloads() ? live.update_interval : 0;
  return {down * deferred, width / steps * deferred, {delay, delay + live.update_interval - 1}};
}

/// What a layer's tasks take, the same in every step.
struct LayerCosts {
  double elements = 0;
  double deferred = 0;  ///< of them
  double down = 0;      ///< bytes, as bytes_down
  double up = 0;
  Seconds packed{0};
  Seconds norms{0};
  Seconds placed{0};
};

class LiveEmitter {
 public:
  LiveEmitter(const Job& job, const LiveSettings& live, ProgramBuilder& builder)
      : gpu_(job.scenario.hardware.gpu),
        step_gap_(to_picoseconds(job.scenario.hardware.host.step_gap)),
        builder_(builder),
        live_(live),
        settings_of_warm_up_(warm_up_of(live)),
        regular_(job, live),
        warm_up_(job, settings_of_warm_up_) {
    DeviceWork selected;
    DeviceWork carried;
    for (const LiveLayer& cut : live_layers(job.scenario.model, live.topk_ratio)) {
      layers_.push_back(costs_of(regular_, cut));
      selected += regular_.update_selected(cut);
      carried += regular_.carry_selected(cut);
      deferred_ += layers_.back().deferred;
    }
    selected_ = time(selected);
    carried_ = time(carried);
    if (live.full_warm_up_rounds == 0) return;
    for (const LiveLayer& cut : live_layers(job.scenario.model, 0)) {
      whole_layers_.push_back(costs_of(warm_up_, cut));
    }
  }

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    const bool full = shape.full_update;
    if (!full && pending_ && live_.overlap_step) update_pending();
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      const bool selects =
          std::find(shape.select_at.begin(), shape.select_at.end(), step) != shape.select_at.end();
      one_step(full, step == 0, selects);
    }
    if (!live_.offloads()) return;
    if (stays(full)) send_sums();
    if (full || !live_.overlap_step) {
      update(full);
    } else {
      take_upload();
      pending_ = true;
    }
  }

 private:
  static LiveSettings warm_up_of(LiveSettings live) {
    live.topk_ratio = 0;
    live.update_interval = 1;
    live.overlap_step = false;
    return live;
  }
  [[nodiscard]] LayerCosts costs_of(const LiveWork& work, const LiveLayer& layer) const {
    return {layer.elements(),
            layer.deferred_elements(),
            work.bytes_down(layer),
            work.bytes_up(layer),
            time(work.after_backward(layer)),
            time(work.column_norms(layer)),
            time(work.place_upload(layer))};
  }
  [[nodiscard]] std::size_t layer_of(std::size_t bucket) const {
    return layers_.size() - 1 - bucket;
  }
  [[nodiscard]] const LayerCosts& layer(std::size_t bucket, bool full) const {
    return full ? whole_layers_[layer_of(bucket)] : layers_[layer_of(bucket)];
  }
  [[nodiscard]] Seconds time(const DeviceWork& work) const { return device_time(gpu_, work); }
  [[nodiscard]] const LiveWork& work_of(bool full) const { return full ? warm_up_ : regular_; }
  /// Whether gradients do not leave the device in a step of such a window.
  [[nodiscard]] bool stays(bool full) const { return !full && live_.sums_on_device(); }

  /// The passes of a step's micro-batches; what `leave` does with the gradients of a bucket is for
  /// the last of them.
  void passes(const BucketSink& leave) {
    const BucketSink stay = [](std::size_t, const PerClass&) { return PerClass{kNoTask}; };
    for (std::int64_t i = 0; i < live_.gradient_accumulation_steps; ++i) {
      const BucketSink& sink = i + 1 < live_.gradient_accumulation_steps ? stay : leave;
      if (i == 0) {
        builder_.forward_backward({After{}}, {}, sink);
      } else {
        builder_.forward_backward_again(sink);
      }
    }
  }

  void one_step(bool full, bool first_of_window, bool selects) {
    const bool staged = full || live_.reads_staging();
    const PerClass free = staging_free_;
    down_.assign(layers_.size(), kNoTask);
    passes([&](std::size_t b, const PerClass&) {
      const LayerCosts& cut = layer(b, full);
      const TaskId packed =
          builder_.compute(0, Operation::kPackGradients, static_cast<std::int64_t>(layer_of(b)),
                           cut.packed, {sent(b)});
      if (selects) {
        builder_.compute(0, Operation::kSelect, static_cast<std::int64_t>(layer_of(b)), cut.norms,
                         {});
      }
      if (!stays(full) && cut.down > 0) {
        down_[b] = builder_.copy(0, Operation::kGradientsDown, static_cast<std::int64_t>(b),
                                 cut.down, {packed, free.empty() ? kNoTask : free[b]});
      }
      builder_.memory(packed, true, builder_.gradients(), -regular_.width() * cut.elements);
      return PerClass{kNoTask};
    });
    sent_ = down_;
    const TaskId norm = builder_.last_compute(0);
    norm_ = norm;
    if (step_gap_.count > 0) {
      builder_.hold_compute(0, builder_.add(builder_.cluster().classes[0].training, step_gap_,
                                            builder_.label(Operation::kEnqueue, 0), {norm}));
    }
    if (stays(full)) {
      sum_on_device(first_of_window);
    } else if (!staged && live_.offloads()) {
      sum_up(first_of_window, norm);
    }
    if (!full && live_.topk_ratio > 0) {
      builder_.compute(0, Operation::kUpdateSelected, static_cast<std::int64_t>(layers_.size()),
                       selected_, {});
    }
  }

  /// The copy that last left from the place where bucket b is packed.
  [[nodiscard]] TaskId sent(std::size_t b) const { return sent_.empty() ? kNoTask : sent_[b]; }

  void sum_up(bool first, TaskId norm) {
    const CpuWork work = regular_.sum(first);
    const RankClass& rank = builder_.cluster().classes[0];
    summed_.assign(layers_.size(), kNoTask);
    for (std::size_t b = 0; b < layers_.size(); ++b) {
      if (down_[b] == kNoTask) continue;
      summed_[b] = builder_.add(
          rank.cpu_accumulate, to_picoseconds(layer(b, false).deferred * work.time),
          builder_.label(Operation::kAccumulate, static_cast<std::int64_t>(b)), {down_[b], norm});
    }
    staging_free_ = summed_;
  }

  /// A window's first sums overwrite those of the window before, which must have gone down.
  void sum_on_device(bool first) {
    builder_.compute(0, Operation::kGpuAccumulate, 0, regular_.sum_on_device(deferred_, first),
                     {first ? sums_sent_ : kNoTask});
  }

  /// At a window's end: the embedding's first, as they are updated.
  void send_sums() {
    const TaskId summed = builder_.last_compute(0);
    summed_.assign(layers_.size(), kNoTask);
    for (std::size_t b = layers_.size(); b-- > 0;) {
      const double bytes = layer(b, false).down;
      if (bytes == 0) continue;
      sums_sent_ = summed_[b] = builder_.copy(0, Operation::kGradientSumsDown,
                                              static_cast<std::int64_t>(b), bytes, {summed});
    }
  }

  /// The update that was handed over at the last window's end.
  void update_pending() {
    submit(false, pending_ready_, pending_norm_, pending_compute_);
    pending_ = false;
    in_flight_ = true;
  }

  /// Embedding first: the next forward needs it first. `may_write`: compute that reads the weights
  /// which the uploads replace.
  void submit(bool full, const PerClass& ready, TaskId norm, TaskId may_write) {
    const CpuWork work = work_of(full).update();
    const RankClass& rank = builder_.cluster().classes[0];
    uploaded_.assign(layers_.size(), kNoTask);
    PerClass updated(layers_.size(), kNoTask);
    for (std::size_t b = layers_.size(); b-- > 0;) {
      const LayerCosts& cut = layer(b, full);
      if (cut.deferred == 0) continue;
      const auto index = static_cast<std::int64_t>(b);
      updated[b] = builder_.add(rank.cpu_update, to_picoseconds(work.call(cut.deferred)),
                                builder_.label(Operation::kCpuUpdate, index), {ready[b], norm});
      builder_.copy(0, Operation::kWeightsUp, index, cut.up, {updated[b], may_write});
      uploaded_[b] = builder_.add(rank.h2d_kernels, to_picoseconds(cut.placed),
                                  builder_.label(Operation::kPlaceWeights, index), {});
    }
    if (full || live_.reads_staging()) staging_free_ = updated;
  }

  void update(bool full) {
    const bool staged = full || live_.reads_staging();
    submit(full, staged ? down_ : summed_, norm_, builder_.last_compute(0));
    for (std::size_t b = 0; b < layers_.size(); ++b) {
      builder_.hold_forward(layer_of(b), 0, uploaded_[b]);
    }
  }

  /// At a window's end, with overlap: the uploads of the window before are swapped in.
  void take_upload() {
    if (std::exchange(in_flight_, false)) {
      for (const TaskId one : uploaded_) builder_.hold_compute(0, one);
      if (live_.topk_ratio > 0) {
        builder_.compute(0, Operation::kCarrySelected,
                         static_cast<std::int64_t>(layers_.size()) + 1, carried_, {});
      }
    }
    pending_ready_ = summed_;
    pending_norm_ = norm_;
    pending_compute_ = builder_.last_compute(0);
  }

  const GpuProfile& gpu_;
  Picoseconds step_gap_;
  ProgramBuilder& builder_;
  LiveSettings live_;
  LiveSettings settings_of_warm_up_;
  LiveWork regular_;
  LiveWork warm_up_;
  std::vector<LayerCosts> layers_;
  std::vector<LayerCosts> whole_layers_;  ///< in warm-up
  Seconds selected_{0};                   ///< the update of selected columns
  Seconds carried_{0};                    ///< them into the other weights
  double deferred_ = 0;                   ///< elements of all layers
  PerClass down_;                         ///< this step's copies, by bucket
  PerClass sent_;                         ///< the step's before
  PerClass summed_;                       ///< complete sums, on the host
  PerClass staging_free_;                 ///< last readers of what came down
  PerClass uploaded_;
  TaskId sums_sent_ = kNoTask;  ///< the last copy of the device's sums
  TaskId norm_ = kNoTask;       ///< after which the gradient's norm is known
  bool pending_ = false;        ///< an update has been handed over and not begun
  bool in_flight_ = false;
  PerClass pending_ready_;
  TaskId pending_norm_ = kNoTask;
  TaskId pending_compute_ = kNoTask;
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
