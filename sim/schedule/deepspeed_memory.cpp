#include "sim/schedule/deepspeed_memory.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "sim/schedule/deepspeed_step.h"
#include "sim/schedule/offload.h"

namespace zenflow::sim {
namespace {

double largest_bucket(const StepPlan& plan) {
  double largest = 0;
  for (const GradientBucket& one : plan.buckets) largest = std::max(largest, one.elements);
  return largest;
}

/// Page-locked blocks that were freed and stay with PyTorch's allocator, by size; a later block of
/// the same size takes one of them.
class FreedBlocks {
 public:
  void free(double block) { ++count_[block]; }
  void take(double block) {
    const auto found = count_.find(block);
    if (found != count_.end() && found->second > 0) --found->second;
  }
  [[nodiscard]] double bytes() const {
    double sum = 0;
    for (const auto& [size, count] : count_) sum += size * static_cast<double>(count);
    return sum;
  }

 private:
  std::map<double, std::int64_t> count_;
};

/// Declares buffers of the node's host memory and keeps count of what rounding adds.
class HostMemory {
 public:
  HostMemory(const Job& job, bool all_on_cpu, ProgramBuilder& builder)
      : builder_(builder),
        all_on_cpu_(all_on_cpu),
        pins_(job.deepspeed.pin_memory),
        rounds_(!job.scenario.native_pinning || !job.has(Change::kNativePinning)),
        rounds_up_to_(job.scenario.pinned_round_threshold
                          ? job.scenario.pinned_round_threshold->value()
                          : std::numeric_limits<double>::infinity()),
        ranks_(static_cast<double>(job.scenario.gpus)) {}

  /// `blocks`: bytes of each allocation of one rank.
  void pinned(MemoryBuffer buffer, const std::vector<double>& blocks) {
    if (pins_) {
      always_pinned(std::move(buffer), blocks);
      return;
    }
    buffer.home = MemoryHome::kPageable;
    for (const double bytes : blocks) buffer.resident += ranks_ * bytes;
    declare(std::move(buffer));
  }
  /// Whatever offload_optimizer.pin_memory says.
  void always_pinned(MemoryBuffer buffer, const std::vector<double>& blocks) {
    for (const double bytes : blocks) {
      freed_.take(block(bytes));
      rounding_ += ranks_ * (block(bytes) - bytes);
    }
    locked(std::move(buffer), blocks);
  }
  /// Locked at their size, without PyTorch.
  void locked(MemoryBuffer buffer, const std::vector<double>& blocks) {
    buffer.home = MemoryHome::kPinned;
    for (const double bytes : blocks) buffer.resident += ranks_ * bytes;
    declare(std::move(buffer));
  }
  /// Blocks of all ranks that hold more than the `bytes` asked for in all.
  void pinned_tensors(MemoryBuffer buffer, double bytes, const std::vector<double>& blocks) {
    buffer.home = pins_ ? MemoryHome::kPinned : MemoryHome::kPageable;
    buffer.resident = bytes;
    if (pins_) {
      rounding_ -= bytes;
      for (const double one : blocks) rounding_ += block(one);
    }
    declare(std::move(buffer));
  }
  /// `bytes`: of one rank.
  void plain(MemoryBuffer buffer, MemoryHome home, double bytes) {
    buffer.home = home;
    buffer.resident = ranks_ * bytes;
    declare(std::move(buffer));
  }
  /// Page-locked blocks of one rank that PyTorch's allocator keeps after they became free.
  void kept(const char* name, const char* formula, const std::vector<double>& blocks) {
    if (!pins_ || !rounds_) return;
    MemoryBuffer buffer{.name = name, .formula = formula, .home = MemoryHome::kPinned};
    for (const double bytes : blocks) buffer.resident += ranks_ * block(bytes);
    buffer.of_framework = true;
    declare(std::move(buffer));
  }
  /// A block of one rank that is freed before those that follow are pinned.
  void freed(double bytes) {
    if (rounds_) freed_.free(block(bytes));
  }
  void finish() {
    declare({.name = "freed pinned partitions, kept",
             .formula = "to 2^m, each tensor",
             .home = MemoryHome::kPinned,
             .resident = ranks_ * freed_.bytes(),
             .of_framework = true});
    declare({.name = "pinned blocks rounded up",
             .formula = "to 2^m, each block",
             .home = MemoryHome::kPinned,
             .resident = rounding_,
             .of_framework = true});
  }

 private:
  /// What is pinned for `bytes`.
  [[nodiscard]] double block(double bytes) const {
    return rounds_ && bytes <= rounds_up_to_ ? pinned_block_bytes(bytes) : bytes;
  }

  void declare(MemoryBuffer buffer) {
    if (buffer.resident == 0) return;
    if (all_on_cpu_ && buffer.formula.ends_with(" c")) buffer.formula.back() = 'p';
    builder_.buffer(std::move(buffer));
  }

  ProgramBuilder& builder_;
  bool all_on_cpu_;  ///< c is p
  bool pins_;
  bool rounds_;          ///< PyTorch pins, in powers of two
  double rounds_up_to_;  ///< bytes
  double ranks_;
  double rounding_ = 0;
  FreedBlocks freed_;
};

/// A block of `bytes` an element for each of a rank's sub-groups on the CPU: of all of them, those
/// after the first ones that make up what is not among `elements`.
std::vector<double> sub_group_blocks(const Job& job, double elements, double bytes) {
  std::vector<double> blocks;
  std::vector<double> groups = sub_group_elements(job);
  if (!job.has(Change::kLastGroupsOnCpu)) std::reverse(groups.begin(), groups.end());
  double on_gpu = job.partition() - elements;
  for (const double one : groups) {
    on_gpu -= one;
    if (on_gpu > -0.5 * one) continue;
    blocks.push_back(bytes * one);
  }
  return blocks;
}

/// "4 g c"
std::string of_elements(double bytes) {
  return fmt::format("{:g} g c", bytes);
}

MemoryBuffer state(const char* name, const std::string& formula) {
  return {.name = name,
          .formula = formula,
          .category = MemoryCategory::kOptimizerState,
          .model_state = true};
}

MemoryBuffer gradient(const char* name, const std::string& formula, bool model_state) {
  return {.name = name,
          .formula = formula,
          .category = MemoryCategory::kGradients,
          .model_state = model_state};
}

/// Shared with the worker process, which keeps two sets of moments of its own.
void declare_overlapped(const Job& job, double elements, HostMemory& host) {
  host.plain(state("fp32 master weights", "4 g c"), MemoryHome::kShared, 4 * elements);
  MemoryBuffer snapshot = state("stale snapshot of the master", "4 g c");
  snapshot.model_state = false;
  host.plain(snapshot, MemoryHome::kShared, 4 * elements);
  host.plain(gradient("fp32 gradients, set 0", "4 g c", true), MemoryHome::kShared, 4 * elements);
  host.plain(gradient("fp32 gradients, set 1", "4 g c", false), MemoryHome::kShared, 4 * elements);
  host.plain(state("moments m and v, set 0", "8 g c"), MemoryHome::kPageable, 8 * elements);
  MemoryBuffer second = state("moments m and v, set 1", "8 g c");
  second.model_state = false;
  host.plain(second, MemoryHome::kPageable, 8 * elements);
  if (job.deepspeed.zero_stage == 3) {
    host.kept("freed pinned blocks, kept", "to 2^m, each block",
              sub_group_blocks(job, elements, 4));
  } else {
    host.kept("freed pinned blocks, kept", "to 2^m, 2 a rank", {4 * elements, 4 * elements});
  }
}

/// What the optimizer keeps besides the master weights.
const char* state_name(const Job& job) {
  const OptimizerSettings& optimizer = job.deepspeed.optimizer;
  if (optimizer.kind != Optimizer::kAdam) return "optimizer states";
  const bool narrow = optimizer.narrow_master && optimizer.narrow_states;
  return narrow ? "moments m and v, 16-bit" : "moments m and v, fp32";
}

/// Stage 3's gradients on their way to where the optimizer reads them, tensor by tensor: in one
/// page-locked buffer, before kStage3PinnedBuffer in a temporary, none since
/// kStage3DirectGradients.
void declare_gradient_on_its_way(const Job& job, HostMemory& host) {
  if (job.has(Change::kStage3DirectGradients)) return;
  const double bytes = stage3_gradient_bytes(job);
  const double part =
      largest_tensor(job.scenario.model) / static_cast<double>(job.scenario.ranks());
  const std::string formula = fmt::format("{:g} g t / N", bytes);
  if (job.has(Change::kStage3PinnedBuffer)) {
    host.always_pinned(gradient("buffer of a gradient", formula, false), {bytes * part});
  } else if (bytes < optimizer_bytes(job).gradient) {
    MemoryBuffer temporary = gradient("gradient, to be cast", formula, false);
    temporary.held = "backward";
    host.plain(temporary, MemoryHome::kPageable, bytes * part);
  }
}

void declare_in_process(const Job& job, double elements, HostMemory& host) {
  const OptimizerBytes bytes = optimizer_bytes(job);
  const bool narrow = job.deepspeed.optimizer.narrow_master;
  const char* master = narrow ? "16-bit master weights" : "fp32 master weights";
  const char* gradients = narrow ? "16-bit gradients" : "fp32 gradients";
  if (job.deepspeed.zero_stage == 3) {
    host.plain(state(master, of_elements(bytes.master)), MemoryHome::kPageable,
               bytes.master * elements);
    host.pinned(
        gradient(narrow ? "16-bit gradients, by sub-groups" : "fp32 gradients, by sub-groups",
                 of_elements(bytes.gradient), true),
        sub_group_blocks(job, elements, bytes.gradient));
    declare_gradient_on_its_way(job, host);
  } else {
    host.pinned(state(master, of_elements(bytes.master)), {bytes.master * elements});
    host.pinned(gradient(gradients, of_elements(bytes.gradient), true),
                {bytes.gradient * elements});
  }
  host.plain(state(state_name(job), of_elements(bytes.states)), MemoryHome::kPageable,
             bytes.states * elements);
}

void declare_swapped(const Job& job, double elements, HostMemory& host) {
  const std::vector<double> groups = sub_group_elements(job);
  const double largest = *std::max_element(groups.begin(), groups.end());
  const auto count = static_cast<std::size_t>(job.deepspeed.buffer_count);
  const OptimizerBytes bytes = optimizer_bytes(job);
  const bool narrow = job.deepspeed.optimizer.narrow_master;
  MemoryBuffer buffers =
      state("swap buffers of a sub-group", fmt::format("{:g} q g s", bytes.master));
  buffers.model_state = false;
  const std::vector<double> blocks(count, bytes.master * largest);
  if (job.has(Change::kLockedSwapBuffers)) {
    host.locked(buffers, blocks);
  } else {
    host.always_pinned(buffers, blocks);
  }
  host.plain(gradient(narrow ? "16-bit gradients of a sub-group" : "fp32 gradients of a sub-group",
                      fmt::format("{:g} g s", bytes.gradient), false),
             MemoryHome::kPageable, bytes.gradient * largest);
  const double kept = bytes.master + bytes.states;
  host.plain(state(narrow ? "16-bit master weights, m, v" : "fp32 master weights, m, v",
                   of_elements(kept)),
             MemoryHome::kNvme, kept * elements);
  host.plain(
      gradient(narrow ? "16-bit gradients" : "fp32 gradients", of_elements(bytes.gradient), true),
      MemoryHome::kNvme, bytes.gradient * elements);
}

/// offload_param: one flat page-locked block of a rank's weights; what max_in_cpu leaves out is on
/// NVMe, read through buffers that are one block. While the model is partitioned each tensor's part
/// has a page-locked block of its own, if pin_memory is set there.
/// Source: deepspeed/runtime/zero/stage3.py (_create_param_groups_fp16_flat_cpu_memory),
/// partition_parameters.py (_partition_param), swap_tensor/partitioned_param_swapper.py.
void declare_parameters(const Job& job, double b, HostMemory& host) {
  const DeepSpeedConfig& config = job.deepspeed;
  if (config.zero_stage != 3 || config.offload_param == OffloadDevice::kNone) return;
  const bool nvme = config.offload_param == OffloadDevice::kNvme;
  const auto ranks = static_cast<double>(job.scenario.ranks());
  if (!nvme && config.param_pin_memory) {
    for_each_tensor(job.scenario.model, [&](double elements) { host.freed(b * elements / ranks); });
  }
  const double in_ram =
      nvme ? std::min(job.partition(), static_cast<double>(config.max_in_cpu)) : job.partition();
  const auto weights = [](const char* name, const char* formula, bool counted) {
    return MemoryBuffer{.name = name,
                        .formula = formula,
                        .category = MemoryCategory::kWeights,
                        .model_state = counted};
  };
  host.always_pinned(weights("16-bit weights", nvme ? "b g px" : "b g p", true), {b * in_ram});
  if (!nvme) return;
  host.locked(weights("buffers of weights on NVMe", "b g qp", false),
              {b * static_cast<double>(config.param_buffer_count) *
               static_cast<double>(config.param_buffer_size)});
  host.plain(weights("16-bit weights on NVMe", "b g (p - px)", true), MemoryHome::kNvme,
             b * (job.partition() - in_ram));
}

void declare_parameter_symbols(const DeepSpeedConfig& config, double partition,
                               ProgramBuilder& builder) {
  builder.symbol({"px", std::min(partition, static_cast<double>(config.max_in_cpu)),
                  "parameters of one rank in RAM: offload_param.max_in_cpu"});
  builder.symbol({"qp",
                  static_cast<double>(config.param_buffer_count) *
                      static_cast<double>(config.param_buffer_size),
                  "offload_param's buffer_count times buffer_size"});
}

/// The running sum: stage 3 has one flat buffer, stages 1 and 2 one buffer a tensor, whole even
/// where a rank has only a part of it.
void declare_running_sum(const Job& job, double elements, double b, HostMemory& host) {
  if (job.deepspeed.zero_stage == 3) {
    const bool wide = job.deepspeed.fp32_gradient_sums;
    host.pinned(gradient(wide ? "fp32 running sum, flat" : "16-bit running sum, flat",
                         wide ? "4 g c" : "b g c", false),
                {(wide ? 4 : b) * elements});
    return;
  }
  const auto ranks = static_cast<std::size_t>(job.scenario.gpus);
  std::vector<double> blocks;
  const auto tensors = tensors_by_rank(job.scenario.model, job.scenario.ranks());
  for (std::size_t r = 0; r < ranks; ++r) {
    for (const double one : tensors[r]) blocks.push_back(b * one);
  }
  host.pinned_tensors(gradient("16-bit running sum, by tensor", "b g c", false),
                      b * elements * static_cast<double>(job.scenario.gpus), blocks);
}

}  // namespace

void declare_processes(const Job& job, ProgramBuilder& builder) {
  builder.symbol({"H", kProcessBytes, "host memory of a process: Python, CUDA, NCCL"});
  builder.buffer({.name = "Python, CUDA and NCCL of the processes",
                  .formula = "H g",
                  .home = MemoryHome::kPageable,
                  .resident = static_cast<double>(job.scenario.gpus) * kProcessBytes,
                  .of_framework = true});
}

void declare_offloaded_parameters(const Job& job, ProgramBuilder& builder) {
  if (job.deepspeed.zero_stage != 3 || job.deepspeed.offload_param == OffloadDevice::kNone) return;
  declare_parameter_symbols(job.deepspeed, job.partition(), builder);
  HostMemory host(job, true, builder);
  declare_parameters(job, builder.element_bytes(), host);
  host.finish();
}

void declare_host_memory(const Job& job, const DeepSpeedHostMemory& kept, ProgramBuilder& builder) {
  const double b = builder.element_bytes();
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const DeepSpeedConfig& config = job.deepspeed;
  builder.symbol({"c", kept.elements, "parameters of one rank that its CPU updates"});
  declare_parameter_symbols(config, job.partition(), builder);
  const bool all = std::abs(kept.elements / job.partition() - 1) < 1e-9;
  HostMemory host(job, all, builder);
  declare_parameters(job, b, host);
  if (kept.nvme) {
    declare_swapped(job, kept.elements, host);
  } else if (kept.overlap) {
    declare_overlapped(job, kept.elements, host);
  } else {
    declare_in_process(job, kept.elements, host);
  }
  if (!stage3 && job.has(Change::kBufferedUpload)) {
    host.pinned({.name = kept.overlap ? "16-bit upload buffer, unused" : "16-bit weights to upload",
                 .formula = "b g c",
                 .category = MemoryCategory::kStaging},
                {b * kept.elements});
  }
  if (stage3 || kept.running_sum) declare_running_sum(job, kept.elements, b, host);
  const bool old_upload = !stage3 && !job.has(Change::kFp32Upload);
  const bool for_upload = (kept.overlap && kept.casts_upload) || old_upload;
  if (for_upload || kept.reselects) {
    host.plain({.name = "temporary of a casting copy",
                .formula = "b g c",
                .held = for_upload ? "upload" : "reselection",
                .of_framework = true},
               MemoryHome::kPageable, b * kept.elements);
  }
  if (stage3 && config.gathers_on_save) {
    builder.buffer({.name = "16-bit weights gathered to be saved",
                    .formula = "b P",
                    .home = MemoryHome::kPageable,
                    .held = "saving",
                    .resident = b * static_cast<double>(job.scenario.model.trained()),
                    .of_framework = true});
  }
  declare_processes(job, builder);
  host.finish();
}

void declare_selected_state(const Job& job, double elements, ProgramBuilder& builder) {
  const bool host = job.deepspeed.zenflow->offload;
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const double ranks = host ? static_cast<double>(job.scenario.gpus) : 1;
  builder.symbol(
      {"Ps", elements * (stage3 ? static_cast<double>(job.scenario.ranks()) : 1),
       "selected parameters: whole columns of matrices, about k of them, and all vectors"});
  const std::string one = stage3 ? "2 b Ps / N" : "2 b Ps";
  builder.buffer({.name = "m and v of selected columns",
                  .formula = host ? one + " g" : one,
                  .home = host ? MemoryHome::kPageable : MemoryHome::kGpu,
                  .category = MemoryCategory::kSelectedState,
                  .resident = ranks * 2 * builder.element_bytes() * elements});
}

namespace {

/// Small tensors, which stage 3 keeps whole besides the rank's parts.
void declare_persistent(const Job& job, ProgramBuilder& builder) {
  const bool gathers =
      job.scenario.ranks() > 1 || job.deepspeed.offload_param != OffloadDevice::kNone;
  if (!gathers) return;
  const double persistent = stage3_gathers(job).persistent;
  builder.symbol({"Pp", persistent, "parameters of tensors up to the persistence threshold"});
  if (persistent == 0) return;
  builder.buffer({.name = "small weights, kept whole",
                  .formula = "b Pp",
                  .category = MemoryCategory::kParameterBuffer,
                  .resident = builder.element_bytes() * persistent});
}

}  // namespace

std::string weights_name(const Job& job) {
  return job.scenario.training.dtype == DType::kFp32 ? "fp32 weights" : "16-bit weights";
}

void declare_gpu_memory(const Job& job, ProgramBuilder& builder) {
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const double b = builder.element_bytes();
  const auto bucket_size = static_cast<double>(job.deepspeed.reduce_bucket_size);
  const auto all = static_cast<double>(job.scenario.model.trained());
  if (!stage3 || job.deepspeed.offload_param == OffloadDevice::kNone) {
    builder.buffer({.name = weights_name(job),
                    .formula = stage3 ? "b p" : "b P",
                    .category = MemoryCategory::kWeights,
                    .resident = b * (stage3 ? job.partition() : all),
                    .model_state = true});
  }
  MemoryHome frozen = MemoryHome::kGpu;
  if (stage3 && job.deepspeed.offload_param == OffloadDevice::kNvme) frozen = MemoryHome::kNvme;
  if (stage3 && job.deepspeed.offload_param == OffloadDevice::kCpu) {
    frozen = job.deepspeed.param_pin_memory ? MemoryHome::kPinned : MemoryHome::kPageable;
  }
  declare_frozen(job, frozen, builder);
  if (stage3) {
    declare_persistent(job, builder);
    builder.buffer({.name = "gradient bucket",
                    .formula = "b R",
                    .category = MemoryCategory::kStaging,
                    .resident = b * bucket_size});
    // A bucket of one tensor is reduced in place.
    double joined = 0;
    for (const GradientBucket& one : builder.plan().buckets) {
      if (one.tensors > 1) joined = std::max(joined, one.elements);
    }
    builder.symbol({"Bj", joined, "elements of the largest bucket of several tensors"});
    builder.buffer({.name = "bucket, joined for its reduction",
                    .formula = "b Bj",
                    .category = MemoryCategory::kStaging,
                    .resident = b * joined});
    return;
  }
  if (sums_on_gpu(job)) {
    builder.buffer({.name = "fp32 gradient sums",
                    .formula = "4 p",
                    .category = MemoryCategory::kGradients,
                    .resident = 4 * job.partition(),
                    .model_state = true});
  }
}

double bucket_memory(const Job& job) {
  if (job.deepspeed.zero_stage != 1 && job.deepspeed.zero_stage != 2) return 0;
  if (runs_bf16_optimizer(job)) return 0;
  // Without contiguous_gradients there are none.
  if (job.deepspeed.zero_stage == 1 && !job.has(Change::kStage1Overlaps)) return 0;
  return static_cast<double>(bytes_per_element(job.scenario.training.dtype)) *
         static_cast<double>(job.deepspeed.reduce_bucket_size) *
         (overlaps_communication(job) ? 2 : 1);
}

BucketMemory::BucketMemory(const Job& job, ProgramBuilder& builder)
    : builder_(builder),
      bucket_bytes_(bucket_memory(job)),
      by_first_gradient_(job.has(Change::kZenFlow)) {
  if (bucket_bytes_ == 0) return;
  const bool two = overlaps_communication(job);
  buckets_ = builder.buffer({.name = two ? "gradient buckets, two" : "gradient bucket",
                             .formula = two ? "2 b R" : "b R",
                             .category = MemoryCategory::kStaging,
                             .held = by_first_gradient_ ? "backward below the head" : "backward"});
  flattened_ = builder.buffer({.name = "bucket, flattened",
                               .formula = "b B",
                               .category = MemoryCategory::kStaging,
                               .held = "reduction"});
}

void BucketMemory::begin() {
  if (bucket_bytes_ == 0) return;
  if (by_first_gradient_) {
    builder_.grow_after_head(buckets_, bucket_bytes_);
  } else {
    builder_.grow_at_backward(buckets_, bucket_bytes_);
  }
}

void BucketMemory::reduced(std::size_t bucket, TaskId task) {
  if (bucket_bytes_ == 0) return;
  if (task != last_) flattened_bytes_ = 0;
  last_ = task;
  const double bytes = builder_.element_bytes() * builder_.plan().buckets[bucket].elements;
  const double more = std::max(0.0, bytes - flattened_bytes_);
  builder_.memory(task, false, flattened_, more);
  builder_.memory(task, true, flattened_, -more);
  flattened_bytes_ += more;
}

void BucketMemory::end(TaskId last) {
  builder_.memory(last, true, buckets_, -bucket_bytes_);
}

/// Stage 3 copies a tensor's part from the reduced bucket, takes its norm in pieces, and then casts
/// it to fp32: the norm's temporary is gone by then.
BackwardTemporaries::BackwardTemporaries(const Job& job, ProgramBuilder& builder, bool swapped)
    : builder_(builder) {
  constexpr double kNormPiece = 2.5e8;  // elements; _constant_buffered_norm2
  const double b = builder.element_bytes();
  const double largest = largest_tensor(job.scenario.model);
  MemoryBuffer copy{.name = "copy of the largest gradient",
                    .formula = "b t",
                    .category = MemoryCategory::kGradients,
                    .held = "backward"};
  MemoryBuffer norm{.name = "largest gradient in fp64 (norm)",
                    .formula = "8 t",
                    .category = MemoryCategory::kGradients,
                    .held = "boundary's backward"};
  copy_bytes_ = b * largest;
  norm_bytes_ = 8 * largest;
  const bool by_element = job.has(Change::kElementwiseOverflowCheck) &&
                          !job.has(Change::kReducedOverflowCheck) && b < 4;
  if (job.deepspeed.zero_stage < 3 && by_element) {
    // _has_inf_or_nan: in fp32, which elements are NaN, are infinite, are either, and that in fp32.
    norm_bytes_ = (4 + 1 + 1 + 1 + 4) * largest;
    norm.name = "largest gradient in fp64 (norm), checked";
    norm.formula = "11 t";
  }
  if (job.deepspeed.zero_stage == 3) {
    const double part = largest / builder.ranks();
    const double cast = swapped ? largest_bucket(builder.plan()) / builder.ranks() : part;
    copy_bytes_ = b * part;
    norm_bytes_ = 8 * std::min(part, kNormPiece);
    // Before kStage3PinnedBuffer the host casts, but for what is swapped.
    const bool casts = swapped || job.has(Change::kStage3PinnedBuffer);
    if (casts) norm_bytes_ = std::max(4 * cast, norm_bytes_);
    builder.symbol({"tn", std::min(part, kNormPiece), "elements of which a norm is taken at once"});
    copy.formula = "b t / N";
    if (casts) {
      norm.name = "largest gradient in fp64 (norm), fp32";
      norm.formula = swapped ? "max(4 B / N, 8 tn)" : "max(4 t / N, 8 tn)";
    } else {
      norm.formula = "8 tn";
    }
  }
  copy_ = builder.buffer(std::move(copy));
  norm_ = builder.buffer(std::move(norm));
}

void BackwardTemporaries::reduced(TaskId task) {
  builder_.memory(task, true, copy_, copy_bytes_);
  if (boundary_) builder_.memory(task, true, norm_, norm_bytes_);
}

void BackwardTemporaries::end(TaskId last) {
  builder_.memory(last, true, copy_, -copy_bytes_);
  if (boundary_) builder_.memory(last, true, norm_, -norm_bytes_);
}

SelectedTemporaries::SelectedTemporaries(const Job& job, double elements, ProgramBuilder& builder)
    : builder_(builder), bytes_(builder.element_bytes() * elements), bucket_share_(0) {
  for (const GradientBucket& bucket : builder.plan().buckets) {
    bucket_share_ = std::max(bucket_share_,
                             bucket.elements / static_cast<double>(job.scenario.model.trained()));
  }
  const auto declare = [&](const char* name, const std::string& factor, const char* held) {
    const char* divided = job.deepspeed.zero_stage == 3 ? " / N" : "";
    return builder.buffer({.name = name,
                           .formula = factor + "b Ps" + divided,
                           .category = MemoryCategory::kSelectedState,
                           .held = held});
  };
  gradients_ = declare("gradients of selected columns", "", "backward, update");
  saved_ = declare("selected columns, saved", "", "boundary");
  adamw_ = declare("AdamW temporaries", "2 ", "GPU update");
  moments_ = builder.buffer({.name = "m and v of selected columns, up",
                             .formula = job.deepspeed.zero_stage == 3 ? "2 b k P / N" : "2 b k P",
                             .category = MemoryCategory::kSelectedState,
                             .held = "GPU update"});
}

void SelectedTemporaries::begin(bool boundary) {
  boundary_ = boundary;
  builder_.grow_at_backward(gradients_, bytes_);
  if (boundary) builder_.grow_at_backward(saved_, bytes_);
}

void SelectedTemporaries::end(TaskId update) {
  const double adamw = 2 * bytes_ * (boundary_ ? 1 : bucket_share_);
  builder_.memory(update, false, adamw_, adamw);
  builder_.memory(update, true, adamw_, -adamw);
  builder_.memory(update, true, gradients_, -bytes_);
  if (boundary_) builder_.memory(update, true, saved_, -bytes_);
}

void SelectedTemporaries::hold_moments(TaskId up, TaskId down, double bytes) {
  builder_.memory(up, false, moments_, bytes);
  builder_.memory(down, true, moments_, -bytes);
}

}  // namespace zenflow::sim
