/// ZeRO-Offload: gradients go down during backward, the CPU updates, parameters come up; with
/// delayed parameter update (DPU) the CPU works while the GPU runs the next step.
///
/// Without DPU the upload begins when the whole update is done, as in the timeline that the
/// ZenFlow blog shows (4.6 s update, then 0.5 s upload); the tile overlap of the paper's
/// section 5.1 is not in it, and not in DeepSpeed since 2023 (PR 3097).
#include "sim/schedule/offload.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

void resident_memory(const Job& job, ProgramBuilder& builder, bool delayed) {
  const auto all = static_cast<double>(job.scenario.model.trained());
  const bool partitioned = job.deepspeed.zero_stage == 3;
  const double b = builder.element_bytes();
  const double node_parameters = job.partition() * static_cast<double>(job.scenario.gpus);
  builder.buffer({.name = "weights",
                  .formula = partitioned ? "b p" : "b P",
                  .category = MemoryCategory::kWeights,
                  .resident = b * (partitioned ? job.partition() : all),
                  .model_state = true});
  declare_frozen(job, MemoryHome::kGpu, builder);
  declare_optimizer_on_host(builder, node_parameters);
  // Two sets if the next step's gradients come while these are in use.
  builder.buffer({.name = delayed ? "gradients arriving, two sets" : "gradients arriving",
                  .formula = delayed ? "2 b g p" : "b g p",
                  .home = pinned_home(job),
                  .category = MemoryCategory::kStaging,
                  .resident = b * node_parameters * (delayed ? 2 : 1)});
  builder.buffer({.name = "weights leaving",
                  .formula = "b g p",
                  .home = pinned_home(job),
                  .category = MemoryCategory::kStaging,
                  .resident = b * node_parameters});
  if (job.deepspeed.gradient_accumulation_steps > 1) {
    // With delay, of this window and of the one being updated with.
    builder.buffer({.name = delayed ? "fp32 gradient sums, two sets" : "fp32 gradient sums",
                    .formula = delayed ? "8 g p" : "4 g p",
                    .home = MemoryHome::kPageable,
                    .category = MemoryCategory::kGradients,
                    .resident = 4 * node_parameters * (delayed ? 2 : 1),
                    .model_state = !delayed});
  }
}

class ZeroOffload final : public Schedule {
 public:
  explicit ZeroOffload(bool delayed) : delayed_(delayed) {}

  [[nodiscard]] std::string_view name() const override {
    return delayed_ ? "zero-offload-dpu" : "zero-offload";
  }
  [[nodiscard]] std::string_view summary() const override {
    return delayed_ ? "ZeRO-Offload, CPU update overlapped with the next step (one step stale)"
                    : "gradients to the CPU, CPU Adam, parameters back; every step waits";
  }
  [[nodiscard]] std::string_view source() const override {
    return delayed_ ? "Ren et al. 2021, ZeRO-Offload (arXiv 2101.06840) section 5.2"
                    : "Ren et al. 2021, ZeRO-Offload (arXiv 2101.06840)";
  }
  [[nodiscard]] std::vector<std::string> ignored(const Job& job) const override {
    return ignored_by_published(job, name());
  }
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return accumulation_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override {
    const double window = static_cast<double>(job.deepspeed.gradient_accumulation_steps);
    const double bytes =
        job.partition() * static_cast<double>(bytes_per_element(job.scenario.training.dtype));
    const std::int64_t oldest = job.deepspeed.gradient_accumulation_steps - 1;
    const std::int64_t delay = delayed_ ? job.deepspeed.gradient_accumulation_steps : 0;
    return {bytes, bytes / window, {delay, oldest + delay}};
  }
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;

 private:
  bool delayed_;
};

/// What the next windows have to wait for.
struct Pending {
  std::vector<PerClass> gradients;    ///< on the host, complete, not yet updated with
  std::vector<PerClass> accumulated;  ///< last reader of each staging buffer
  std::vector<After> uploaded;        ///< last upload of each class
};

class ZeroOffloadEmitter {
 public:
  ZeroOffloadEmitter(const Job& job, ProgramBuilder& builder, const CpuCosts& costs, bool delayed)
      : builder_(builder),
        offloader_(builder, costs),
        partitioned_(job.deepspeed.zero_stage == 3),
        delayed_(delayed) {}

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    std::vector<After> before(builder_.classes());
    const std::vector<After> arrived = std::exchange(pending_.uploaded, {});
    if (!arrived.empty()) before = arrival(arrived);
    if (delayed_ && !pending_.gradients.empty()) update(std::exchange(pending_.gradients, {}));
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      micro_step(before, shape.steps > 1);
      before.assign(builder_.classes(), {});
    }
    if (!delayed_) update(std::exchange(pending_.gradients, {}));
  }

 private:
  void micro_step(const std::vector<After>& before, bool accumulates) {
    const auto down = offloader_.step(before, {.enabled = partitioned_}, pending_.accumulated, 1.0);
    pending_.gradients = accumulates ? offloader_.accumulate(down, 1.0) : down;
    if (accumulates) pending_.accumulated = pending_.gradients;
  }

  void update(const std::vector<PerClass>& gradients) {
    // Clipping and the overflow check need the norm of all gradients before the first update.
    const auto updated = offloader_.update(gradients, last_of_each(gradients), 1.0);
    pending_.uploaded = last_of_each(offloader_.parameters_up(updated, last_of_each(updated), 1.0));
  }

  /// After the upload, ranks that hold whole parameters gather each other's shares.
  std::vector<After> arrival(const std::vector<After>& uploaded) {
    if (partitioned_) return uploaded;
    std::vector<After> ready = uploaded;
    for (std::size_t c = 0; c < ready.size(); ++c) ready[c].push_back(builder_.last_compute(c));
    const TaskId gathered = offloader_.gather_parameters(ready, 1.0, Operation::kAllGather);
    if (gathered != kNoTask) ready.assign(ready.size(), {gathered});
    return ready;
  }

  ProgramBuilder& builder_;
  Offloader offloader_;
  bool partitioned_;
  bool delayed_;
  Pending pending_;
};

Program ZeroOffload::build(const Job& job, std::span<const WindowShape> shapes) const {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  // A sum of several micro steps is fp32 already.
  const bool cast_gradient = job.deepspeed.gradient_accumulation_steps == 1;
  const CpuCosts costs = cpu_costs(job, cores, cores, cast_gradient);
  ProgramBuilder builder(job, plan_step(job), make_cluster(job.scenario, costs.rates));
  builder.reserve(shapes);
  resident_memory(job, builder, delayed_);
  ZeroOffloadEmitter emitter(job, builder, costs, delayed_);
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_zero_offload() {
  return std::make_unique<ZeroOffload>(false);
}
std::unique_ptr<const Schedule> make_zero_offload_dpu() {
  return std::make_unique<ZeroOffload>(true);
}

}  // namespace zenflow::sim
