/// ZenFlow as published: the share k of columns with the largest gradients is updated on the
/// GPU in every step; the rest is summed on the CPU, which works through a window of S steps
/// while the GPU runs the next.
///
///   window        |  w: S steps            |  w+1: S steps          |  w+2
///   gpu compute   |fwd bwd sel|fwd bwd sel |fwd bwd sel|fwd bwd sel |swap, fwd ...
///   d2h             (1-k) per bucket in every backward
///   cpu sums          + + + +    + + + +
///   cpu optimizer                          |update of w's sums  |
///   h2d, gather                                                 |(1-k) per bucket|
///
/// Window boundaries are where the threads meet: the parameters that came up into the second
/// buffer are swapped in, and the optimizer is handed the window's sums. The upload begins when
/// the update is complete, as it does in the blog's ZeRO-Offload timeline: the I/O bars of
/// its ZenFlow runs are what one upload a window takes, 0.9 M / (4 x 25 GB/s), and would be
/// near zero if uploads hid behind the update.
///
/// Source: ZenFlow (arXiv 2505.12242), DeepSpeed blog deepspeed-zenflow. Closed forms: traffic
/// (1-k)(1 + 1/S) model sizes a step; staleness S .. 2S-1. Without overlap_step the GPU waits
/// for the update at the window's end; staleness 0 .. S-1.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/gpu_cost.h"
#include "sim/cost/selection_cost.h"
#include "sim/schedule/offload.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

// fp32 weight and two moments of a selected or a master parameter.
constexpr double kStateBytes = 12;

const ZenFlowSettings& settings_of(const Job& job) {
  return *job.deepspeed.zenflow;
}
std::int64_t window_of(const Job& job) {
  return *settings_of(job).update_interval;
}
double kept_share(const Job& job) {
  return 1.0 - settings_of(job).topk_ratio;
}

class ZenFlow final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zenflow"; }
  [[nodiscard]] std::string_view summary() const override {
    return "top-k columns updated on the GPU at once, the rest by the CPU every update_interval";
  }
  [[nodiscard]] std::string_view source() const override {
    return "Lan et al. 2025, ZenFlow (arXiv 2505.12242)";
  }
  void check(const Job& job) const override;
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override;
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job, std::int64_t steps) const override;
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override;
  [[nodiscard]] std::optional<ZenFlowSettings> zenflow(const Job& job) const override {
    return settings_of(job);
  }
};

void ZenFlow::check(const Job& job) const {
  if (job.deepspeed.zenflow) return;
  throw Error(
      ErrorKind::kInput,
      fmt::format("{}: zero_optimization.zenflow: schedule \"zenflow\" needs this block, e.g. "
                  "{{\"topk_ratio\": 0.1, \"update_interval\": 4, \"overlap_step\": true}}; "
                  "or give --set topk_ratio=0.1 --set update_interval=4",
                  job.scenario.deepspeed.at.text()));
}

std::vector<std::string> ZenFlow::ignored(const Job& job) const {
  std::vector<std::string> notes = ignored_by_published(job, name());
  if (settings_of(job).offload) {
    notes.emplace_back(
        "zenflow: zenflow.offload (selected state on the CPU) is not in the paper "
        "and has no effect");
  }
  if (job.deepspeed.gradient_accumulation_steps > 1) {
    notes.emplace_back(
        "zenflow: update_interval takes the place of gradient_accumulation_steps, "
        "which has no effect");
  }
  return notes;
}

/// Steps of the window [first, first + S) in which columns are selected anew: at the first
/// step after warm-up, then every select_interval steps; with 0, or by epochs, only once.
std::vector<std::int32_t> selections(const Job& job, std::int64_t first) {
  const std::int64_t warm_up = settings_of(job).full_warm_up_rounds;
  const bool by_step = settings_of(job).select_strategy != "epoch";
  const std::int64_t interval = by_step ? settings_of(job).select_interval.value_or(0) : 0;
  std::vector<std::int32_t> at;
  for (std::int64_t step = first; step < first + window_of(job); ++step) {
    const std::int64_t age = step - warm_up;
    if (age == 0 || (interval > 0 && age % interval == 0)) {
      at.push_back(static_cast<std::int32_t>(step - first));
    }
  }
  return at;
}

std::vector<WindowShape> ZenFlow::windows(const Job& job, std::int64_t steps) const {
  std::vector<WindowShape> shapes;
  std::int64_t first = 0;
  const std::int64_t warm_up = settings_of(job).full_warm_up_rounds;
  for (; first < std::min(warm_up, steps); ++first) {
    shapes.push_back(
        {.first_step = first, .steps = 1, .full_update = true, .age = first == 0 ? 0 : 1});
  }
  for (std::int32_t count = 0; first < steps; first += window_of(job), ++count) {
    shapes.push_back({.first_step = first,
                      .steps = static_cast<std::int32_t>(window_of(job)),
                      .full_update = false,
                      .age = std::min(count, WindowShape::kSettledAge),
                      .select_at = selections(job, first)});
  }
  return shapes;
}

ClosedForm ZenFlow::closed_form(const Job& job) const {
  const std::int64_t s = window_of(job);
  const double down = kept_share(job) * job.partition() *
                      static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const std::int64_t delay = settings_of(job).overlap_step ? s : 0;
  return {down, down / static_cast<double>(s), {delay, delay + s - 1}};
}

void resident_memory(const Job& job, ProgramBuilder& builder) {
  const auto all = static_cast<double>(job.scenario.model.trained());
  const double p = job.partition();
  const double node = p * static_cast<double>(job.scenario.gpus);
  const double b = builder.element_bytes();
  const double deferred = kept_share(job);
  const bool overlap = settings_of(job).overlap_step;
  const bool partitioned = job.deepspeed.zero_stage == 3;
  builder.buffer({.name = "weights",
                  .formula = partitioned ? "b p" : "b P",
                  .category = MemoryCategory::kWeights,
                  .resident = b * (partitioned ? p : all),
                  .model_state = true});
  declare_frozen(job, MemoryHome::kGpu, builder);
  builder.buffer({.name = "master, m, v of selected columns",
                  .formula = "12 k p",
                  .category = MemoryCategory::kSelectedState,
                  .resident = kStateBytes * settings_of(job).topk_ratio * p});
  // Uploads land, and are gathered, beside the weights in use until the window ends.
  if (overlap) {
    builder.buffer({.name = "second buffer of weights",
                    .formula = partitioned ? "b (1 - k) p" : "b (1 - k) P",
                    .category = MemoryCategory::kParameterBuffer,
                    .resident = b * deferred * (partitioned ? p : all)});
  }
  // For every column, selected or not: selection changes.
  declare_optimizer_on_host(builder, node);
  builder.buffer({.name = overlap ? "fp32 gradient sums, two sets" : "fp32 gradient sums",
                  .formula = overlap ? "8 (1 - k) g p" : "4 (1 - k) g p",
                  .home = MemoryHome::kPageable,
                  .category = MemoryCategory::kGradients,
                  .resident = 4 * deferred * node * (overlap ? 2 : 1)});
  for (const char* name : {"gradients arriving", "weights leaving"}) {
    builder.buffer({.name = name,
                    .formula = "b (1 - k) g p",
                    .home = pinned_home(job),
                    .category = MemoryCategory::kStaging,
                    .resident = b * deferred * node});
  }
}

class ZenFlowEmitter {
 public:
  ZenFlowEmitter(const Job& job, ProgramBuilder& builder, const CpuCosts& deferred,
                 const CpuCosts& full)
      : job_(job),
        builder_(builder),
        deferred_(builder, deferred),
        full_(builder, full),
        share_(kept_share(job)),
        overlap_(settings_of(job).overlap_step),
        partitioned_(job.deepspeed.zero_stage == 3) {}

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    const std::vector<After> before = arrival(std::exchange(uploaded_, {}));
    if (shape.full_update) {
      warm_up_step(before);
      return;
    }
    // The update of the window before is handed over at the boundary and runs beside this
    // window; its tasks are issued here, so that none refers back further than one window.
    if (!sums_.empty()) update_deferred(before);
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      const bool selects =
          std::find(shape.select_at.begin(), shape.select_at.end(), step) != shape.select_at.end();
      micro_step(step == 0 ? before : std::vector<After>(selected_ready_), selects);
    }
    if (!overlap_) update_deferred(std::vector<After>(builder_.classes()));
  }

 private:
  void micro_step(std::vector<After> before, bool selects) {
    before.resize(builder_.classes());
    const auto down = deferred_.step(before, {.enabled = partitioned_}, sums_in_staging_, share_);
    sums_ = deferred_.accumulate(down, share_);
    sums_in_staging_ = sums_;
    if (selects) select();
    update_selected();
  }

  /// Column norms of this rank's gradients, their exchange, and the top-k of them.
  void select() {
    const GpuProfile& gpu = job_.scenario.hardware.gpu;
    const std::int64_t columns = builder_.plan().matrix_columns;
    double matrix = 0;
    for (const GradientBucket& bucket : builder_.plan().buckets) matrix += bucket.matrix_elements;
    const Seconds norms =
        column_norm_time(gpu, job_.scenario.training.dtype, matrix / builder_.ranks());
    After computed;
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      computed.push_back(
          builder_.compute(c, Operation::kSelect, 0, norms, {builder_.last_reduced(c)}));
    }
    const TaskId exchanged =
        builder_.collective(Operation::kSelect, norm_exchange_time(builder_.group(), columns), 0,
                            column_norm_bytes(columns).value(), computed);
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      builder_.compute(c, Operation::kSelect, 1, top_k_time(gpu, columns), {exchanged});
    }
  }

  void update_selected() {
    const double k = settings_of(job_).topk_ratio;
    const double traffic = gpu_adam_bytes(job_.scenario.training.dtype);
    const Seconds time = stream(Bytes(k * job_.partition() * traffic));
    std::vector<After> updated;
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      updated.push_back(
          {builder_.compute(c, Operation::kGpuUpdate, 0, time, {builder_.last_reduced(c)})});
    }
    builder_.memory(updated[0][0], true, builder_.gradients(),
                    -builder_.element_bytes() * k * job_.partition());
    selected_ready_ = updated;
    if (partitioned_) return;
    const TaskId gathered = deferred_.gather_parameters(updated, k, Operation::kAllGather);
    for (After& after : selected_ready_) after = {gathered};
  }

  /// `also`: what the window's first forward waits for, besides the sums.
  void update_deferred(std::vector<After> also) {
    // Clipping needs the norm of all gradients, known once the step's selected update is.
    for (std::size_t c = 0; c < builder_.classes(); ++c) {
      also[c].push_back(builder_.last_compute(c));
    }
    const auto updated = deferred_.update(std::exchange(sums_, {}), also, share_);
    const auto up = deferred_.parameters_up(updated, last_of_each(updated), share_);
    gathered_ = overlap_ && !partitioned_;
    uploaded_ = gathered_ ? deferred_.gather_buckets(up, share_) : last_of_each(up);
    uploaded_share_ = share_;
  }

  void warm_up_step(const std::vector<After>& before) {
    const auto down = full_.step(before, {.enabled = partitioned_}, {}, 1.0);
    const auto updated = full_.update(down, last_of_each(down), 1.0);
    uploaded_ = last_of_each(full_.parameters_up(updated, last_of_each(updated), 1.0));
    uploaded_share_ = 1.0;
    gathered_ = false;
    selected_ready_.clear();
  }

  /// The swap at a window's start: what was uploaded takes effect on all ranks.
  std::vector<After> arrival(const std::vector<After>& uploaded) {
    std::vector<After> ready = selected_ready_;
    ready.resize(builder_.classes());
    if (uploaded.empty()) return ready;
    for (std::size_t c = 0; c < ready.size(); ++c) {
      ready[c].insert(ready[c].end(), uploaded[c].begin(), uploaded[c].end());
      ready[c].push_back(builder_.last_compute(c));
    }
    if (partitioned_ || gathered_) return ready;
    const TaskId gathered =
        deferred_.gather_parameters(ready, uploaded_share_, Operation::kAllGather);
    if (gathered != kNoTask) ready.assign(ready.size(), {gathered});
    return ready;
  }

  [[nodiscard]] Seconds stream(Bytes traffic) const {
    return stream_time(job_.scenario.hardware.gpu, traffic);
  }

  const Job& job_;
  ProgramBuilder& builder_;
  Offloader deferred_;
  Offloader full_;
  double share_;
  bool overlap_;
  bool partitioned_;
  bool gathered_ = false;  ///< uploads have been gathered already
  double uploaded_share_ = 1.0;
  std::vector<PerClass> sums_;             ///< complete fp32 sums of each bucket
  std::vector<PerClass> sums_in_staging_;  ///< last reader of each staging buffer
  std::vector<After> uploaded_;            ///< last upload of each class, not yet in use
  std::vector<After> selected_ready_;      ///< selected weights are current on all ranks
};

Program ZenFlow::build(const Job& job, std::span<const WindowShape> shapes) const {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  const ZenFlowSettings& settings = settings_of(job);
  // With overlap_step the optimizer has its own cores and the training processes keep the
  // rest; at 0 or 1 one side would have none, and both share all, as in DeepSpeed.
  const double reserved = settings.pt_reserved_cores_perc;
  const bool split = settings.overlap_step && reserved > 0 && reserved < 1;
  const CpuCosts deferred = cpu_costs(job, split ? (1 - reserved) * cores : cores,
                                      split ? reserved * cores : cores, false);
  const CpuCosts full = cpu_costs(job, cores, cores, true);
  ProgramBuilder builder(job, plan_step(job),
                         make_cluster(job.scenario, deferred.rates,
                                      settings.overlap_step && job.deepspeed.zero_stage < 3));
  builder.reserve(shapes);
  resident_memory(job, builder);
  ZenFlowEmitter emitter(job, builder, deferred, full);
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_zenflow() {
  return std::make_unique<ZenFlow>();
}

}  // namespace zenflow::sim
