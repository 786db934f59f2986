/// ZeRO-Infinity: parameters, gradients and optimizer state are sharded over the ranks and kept
/// in CPU memory or on NVMe; layers are fetched before use, forward and backward; the
/// CPU updates shard by shard while NVMe reads ahead and writes behind.
///
/// Where things are kept follows the DeepSpeed configuration: offload_optimizer.device nvme
/// puts master weights and moments on NVMe, offload_param.device nvme the 16-bit parameters;
/// otherwise they are in CPU memory.
/// Source: Rajbhandari et al. 2021, ZeRO-Infinity (arXiv 2104.07857). Closed form: gradients
/// once down, parameters twice up: 3 model sizes a step.
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/offload.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

constexpr double kStateBytes = 12;
// Shards in flight: one being read, one being updated, one being written.
constexpr std::size_t kNvmeBuffers = 3;

bool on_nvme(OffloadDevice device) {
  return device == OffloadDevice::kNvme;
}

class ZeroInfinity final : public Schedule {
 public:
  [[nodiscard]] std::string_view name() const override { return "zero-infinity"; }
  [[nodiscard]] std::string_view summary() const override {
    return "parameters and optimizer in CPU memory or on NVMe, fetched layer by layer";
  }
  [[nodiscard]] std::string_view source() const override {
    return "Rajbhandari et al. 2021, ZeRO-Infinity (arXiv 2104.07857)";
  }
  void check(const Job& job) const override {
    const bool wanted =
        on_nvme(job.deepspeed.offload_optimizer) || on_nvme(job.deepspeed.offload_param);
    if (!wanted || job.scenario.hardware.nvme) return;
    throw Error(ErrorKind::kInput,
                fmt::format("{}: zero_optimization: device nvme, but profile {} has no nvme block",
                            job.scenario.deepspeed.at.text(), job.scenario.hardware.name));
  }
  [[nodiscard]] std::vector<WindowShape> windows(const Job& job,
                                                 std::int64_t steps) const override {
    return accumulation_windows(job, steps);
  }
  [[nodiscard]] ClosedForm closed_form(const Job& job) const override {
    const double bytes =
        job.partition() * static_cast<double>(bytes_per_element(job.scenario.training.dtype));
    return {bytes, 2 * bytes, {0, job.deepspeed.gradient_accumulation_steps - 1}};
  }
  [[nodiscard]] Program build(const Job& job, std::span<const WindowShape> shapes) const override;
};

class ZeroInfinityEmitter {
 public:
  ZeroInfinityEmitter(const Job& job, ProgramBuilder& builder, const CpuCosts& costs)
      : job_(job),
        builder_(builder),
        offloader_(builder, costs),
        state_on_nvme_(on_nvme(job.deepspeed.offload_optimizer)),
        parameters_on_nvme_(on_nvme(job.deepspeed.offload_param)) {}

  void resident_memory() {
    const double node = job_.partition() * static_cast<double>(job_.scenario.gpus);
    const double b = builder_.element_bytes();
    constexpr auto kBuffers = static_cast<double>(kNvmeBuffers);
    double largest = 0;
    for (const GradientBucket& bucket : builder_.plan().buckets) {
      largest = std::max(largest, bucket.elements);
    }
    const double shard = largest / builder_.ranks() * static_cast<double>(job_.scenario.gpus);
    if (state_on_nvme_) {
      builder_.buffer({.name = "master, m, v of shards in flight",
                       .formula = "36 g B / N",
                       .home = pinned_home(job_),
                       .category = MemoryCategory::kOptimizerState,
                       .resident = kBuffers * kStateBytes * shard});
      declare_on_nvme("fp32 master weights, m, v", "12 g p", MemoryCategory::kOptimizerState,
                      kStateBytes * node);
    } else {
      declare_optimizer_on_host(builder_, node);
    }
    builder_.buffer({.name = "gradients arriving",
                     .formula = "b g p",
                     .home = pinned_home(job_),
                     .category = MemoryCategory::kStaging,
                     .resident = b * node});
    builder_.buffer({.name = parameters_on_nvme_ ? "weights of shards in flight" : "weights",
                     .formula = parameters_on_nvme_ ? "3 b g B / N" : "b g p",
                     .home = pinned_home(job_),
                     .category = MemoryCategory::kWeights,
                     .resident = parameters_on_nvme_ ? kBuffers * b * shard : b * node,
                     .model_state = !parameters_on_nvme_});
    if (parameters_on_nvme_) {
      declare_on_nvme("weights", "b g p", MemoryCategory::kWeights, b * node);
    }
    declare_frozen(job_, parameters_on_nvme_ ? MemoryHome::kNvme : pinned_home(job_), builder_);
    if (job_.deepspeed.gradient_accumulation_steps > 1) {
      builder_.buffer({.name = "fp32 gradient sums",
                       .formula = "4 g p",
                       .home = MemoryHome::kPageable,
                       .category = MemoryCategory::kGradients,
                       .resident = 4 * node,
                       .model_state = true});
    }
  }

  void emit(const WindowShape& shape) {
    builder_.begin_window(shape);
    const ParameterGather gather{
        .enabled = true, .from_host = true, .from_nvme = parameters_on_nvme_};
    std::vector<After> before = std::exchange(updated_, std::vector<After>(builder_.classes()));
    before.resize(builder_.classes());
    std::vector<PerClass> gradients;
    std::vector<PerClass> staging;
    for (std::int32_t step = 0; step < shape.steps; ++step) {
      gradients = offloader_.step(before, gather, staging, 1.0);
      before.assign(builder_.classes(), {});
      if (shape.steps > 1) staging = gradients = offloader_.accumulate(gradients, 1.0);
    }
    update(gradients);
  }

 private:
  void declare_on_nvme(const char* name, const char* formula, MemoryCategory category,
                       double bytes) {
    builder_.buffer({.name = name,
                     .formula = formula,
                     .home = MemoryHome::kNvme,
                     .category = category,
                     .resident = bytes});
  }

  void update(const std::vector<PerClass>& gradients) {
    if (state_on_nvme_) {
      update_through_nvme(gradients);
    } else {
      updated_ = last_of_each(offloader_.update(gradients, last_of_each(gradients), 1.0));
    }
    if (parameters_on_nvme_) write_parameters();
  }

  /// Shard by shard: read, update, write back. kNvmeBuffers shards are in memory at a time, so a
  /// read waits for the write that frees its buffer, and for the last write of its own shard.
  void update_through_nvme(const std::vector<PerClass>& gradients) {
    const std::size_t buckets = gradients.front().size();
    std::vector<PerClass> written(gradients.size(), PerClass(buckets, kNoTask));
    written_.resize(gradients.size(), PerClass(buckets, kNoTask));
    updated_.assign(gradients.size(), {});
    for (std::size_t c = 0; c < gradients.size(); ++c) {
      for (std::size_t b = 0; b < buckets; ++b) {
        const bool wraps = b < kNvmeBuffers;
        const std::size_t holder = (b + buckets - std::min(kNvmeBuffers, buckets)) % buckets;
        const TaskId buffer = (wraps ? written_ : written)[c][holder];
        const double bytes = kStateBytes * offloader_.shard(b, 1.0);
        const TaskId read =
            nvme(c, NvmeAccess::kRead, b, bytes, {gradients[c][b], buffer, written_[c][b]});
        // Clipping needs the norm of all gradients before the first update.
        const TaskId updated =
            offloader_.update_bucket(c, b, {read, b == 0 ? gradients[c].back() : kNoTask}, 1.0);
        written[c][b] = nvme(c, NvmeAccess::kWrite, b, bytes, {updated});
        updated_[c] = {updated};
      }
    }
    written_ = std::move(written);
  }

  /// The next step reads parameters from NVMe, so it waits until they are there.
  void write_parameters() {
    const double bytes = builder_.element_bytes() * job_.partition();
    for (std::size_t c = 0; c < updated_.size(); ++c) {
      updated_[c] = {nvme(c, NvmeAccess::kWrite, 0, bytes, updated_[c])};
    }
  }

  TaskId nvme(std::size_t c, NvmeAccess access, std::size_t bucket, double bytes,
              const After& after) {
    const RankClass& rank = builder_.cluster().classes[c];
    const bool reads = access == NvmeAccess::kRead;
    const Seconds time = nvme_time(*job_.scenario.hardware.nvme, access, Bytes(bytes));
    return builder_.add(reads ? rank.nvme_read : rank.nvme_write, to_picoseconds(time),
                        builder_.label(reads ? Operation::kNvmeRead : Operation::kNvmeWrite,
                                       static_cast<std::int64_t>(bucket), bytes),
                        after);
  }

  const Job& job_;
  ProgramBuilder& builder_;
  Offloader offloader_;
  bool state_on_nvme_;
  bool parameters_on_nvme_;
  std::vector<After> updated_;
  std::vector<PerClass> written_;  ///< last write of each shard's state
};

Program ZeroInfinity::build(const Job& job, std::span<const WindowShape> shapes) const {
  const auto cores = static_cast<double>(job.scenario.hardware.host.cores);
  const bool cast_gradient = job.deepspeed.gradient_accumulation_steps == 1;
  const CpuCosts costs = cpu_costs(job, cores, cores, cast_gradient);
  ProgramBuilder builder(job, plan_step(job), make_cluster(job.scenario, costs.rates));
  ZeroInfinityEmitter emitter(job, builder, costs);
  builder.reserve(shapes);
  emitter.resident_memory();
  for (const WindowShape& shape : shapes) emitter.emit(shape);
  return builder.finish();
}

}  // namespace

std::unique_ptr<const Schedule> make_zero_infinity() {
  return std::make_unique<ZeroInfinity>();
}

}  // namespace zenflow::sim
