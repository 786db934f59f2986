#include "sim/schedule/deepspeed_memory.h"

#include <algorithm>
#include <utility>

namespace zenflow::sim {
namespace {

/// Declares buffers of the node's host memory and keeps count of what rounding adds.
class HostMemory {
 public:
  HostMemory(const Job& job, bool all_on_cpu, ProgramBuilder& builder)
      : builder_(builder),
        all_on_cpu_(all_on_cpu),
        pins_(job.deepspeed.pin_memory),
        ranks_(static_cast<double>(job.scenario.gpus)) {}

  /// `blocks`: bytes of each allocation of one rank.
  void pinned(MemoryBuffer buffer, const std::vector<double>& blocks) {
    buffer.home = pins_ ? MemoryHome::kPinned : MemoryHome::kPageable;
    for (const double bytes : blocks) buffer.resident += ranks_ * bytes;
    if (pins_) rounding_ += ranks_ * pinned_rounding(blocks);
    declare(std::move(buffer));
  }
  /// Blocks of all ranks that hold more than the `bytes` asked for in all.
  void pinned_tensors(MemoryBuffer buffer, double bytes, const std::vector<double>& blocks) {
    buffer.home = pins_ ? MemoryHome::kPinned : MemoryHome::kPageable;
    buffer.resident = bytes;
    if (pins_) {
      rounding_ -= bytes;
      for (const double block : blocks) rounding_ += pinned_block_bytes(block);
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
    if (!pins_) return;
    MemoryBuffer buffer{.name = name, .formula = formula, .home = MemoryHome::kPinned};
    for (const double bytes : blocks) buffer.resident += ranks_ * pinned_block_bytes(bytes);
    buffer.of_framework = true;
    declare(std::move(buffer));
  }
  void finish() {
    if (rounding_ == 0) return;
    declare({.name = "pinned blocks rounded up",
             .formula = "to 2^m, each block",
             .home = MemoryHome::kPinned,
             .resident = rounding_,
             .of_framework = true});
  }

 private:
  void declare(MemoryBuffer buffer) {
    if (buffer.resident == 0) return;
    if (all_on_cpu_ && buffer.formula.ends_with(" c")) buffer.formula.back() = 'p';
    builder_.buffer(std::move(buffer));
  }

  ProgramBuilder& builder_;
  bool all_on_cpu_;  ///< c is p
  bool pins_;
  double ranks_;
  double rounding_ = 0;
};

/// Equal parts of a rank's `elements`, the last one smaller, of `bytes` an element.
std::vector<double> sub_group_blocks(const Job& job, double elements, double bytes) {
  std::vector<double> blocks;
  const auto size = static_cast<double>(job.deepspeed.sub_group_size);
  for (double left = elements; left > 0; left -= size) {
    blocks.push_back(bytes * std::min(left, size));
  }
  return blocks;
}

MemoryBuffer state(const char* name, const char* formula) {
  return {.name = name,
          .formula = formula,
          .category = MemoryCategory::kOptimizerState,
          .model_state = true};
}

MemoryBuffer gradient(const char* name, const char* formula, bool model_state) {
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

void declare_in_process(const Job& job, double elements, HostMemory& host) {
  const bool stage3 = job.deepspeed.zero_stage == 3;
  if (stage3) {
    host.plain(state("fp32 master weights", "4 g c"), MemoryHome::kPageable, 4 * elements);
    host.pinned(gradient("fp32 gradients, by sub-groups", "4 g c", true),
                sub_group_blocks(job, elements, 4));
  } else {
    host.pinned(state("fp32 master weights", "4 g c"), {4 * elements});
    host.pinned(gradient("fp32 gradients", "4 g c", true), {4 * elements});
  }
  host.plain(state("moments m and v, fp32", "8 g c"), MemoryHome::kPageable, 8 * elements);
}

void declare_swapped(const Job& job, double elements, HostMemory& host) {
  const double largest = std::min(elements, static_cast<double>(job.deepspeed.sub_group_size));
  const auto count = static_cast<std::size_t>(job.deepspeed.buffer_count);
  MemoryBuffer buffers = state("swap buffers of a sub-group", "4 q g s");
  buffers.model_state = false;
  host.pinned(buffers, std::vector<double>(count, 4 * largest));
  host.plain(gradient("fp32 gradients of a sub-group", "4 g s", false), MemoryHome::kPageable,
             4 * largest);
  host.plain(state("fp32 master weights, m, v", "12 g c"), MemoryHome::kNvme, 12 * elements);
  host.plain(gradient("fp32 gradients", "4 g c", true), MemoryHome::kNvme, 4 * elements);
}

/// The running sum: stage 3 has one flat buffer, stages 1 and 2 one buffer a tensor, whole even
/// where a rank has only a part of it.
void declare_running_sum(const Job& job, double elements, double b, HostMemory& host) {
  if (job.deepspeed.zero_stage == 3) {
    host.pinned(gradient("16-bit running sum, flat", "b g c", false), {b * elements});
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

void declare_host_memory(const Job& job, const DeepSpeedHostMemory& kept, ProgramBuilder& builder) {
  const double b = builder.element_bytes();
  const bool stage3 = job.deepspeed.zero_stage == 3;
  builder.symbol({"c", kept.elements, "parameters of one rank that its CPU updates"});
  HostMemory host(job, kept.elements == job.partition(), builder);
  if (kept.nvme) {
    declare_swapped(job, kept.elements, host);
  } else if (kept.overlap) {
    declare_overlapped(job, kept.elements, host);
  } else {
    declare_in_process(job, kept.elements, host);
  }
  if (!stage3) {
    host.pinned({.name = kept.overlap ? "16-bit upload buffer, unused" : "16-bit weights to upload",
                 .formula = "b g c",
                 .category = MemoryCategory::kStaging},
                {b * kept.elements});
  }
  if (stage3 || kept.running_sum) declare_running_sum(job, kept.elements, b, host);
  const bool for_upload = kept.overlap && kept.casts_upload;
  if (for_upload || kept.reselects) {
    host.plain({.name = "temporary of a casting copy",
                .formula = "b g c",
                .held = for_upload ? "upload" : "reselection",
                .of_framework = true},
               MemoryHome::kPageable, b * kept.elements);
  }
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

void declare_gpu_memory(const Job& job, ProgramBuilder& builder) {
  const bool stage3 = job.deepspeed.zero_stage == 3;
  const double b = builder.element_bytes();
  const auto bucket_size = static_cast<double>(job.deepspeed.reduce_bucket_size);
  double largest = bucket_size;
  for (const GradientBucket& bucket : builder.plan().buckets) {
    largest = std::max(largest, bucket.elements);
  }
  const bool two = job.deepspeed.overlaps_communication();
  const auto all = static_cast<double>(job.scenario.model.parameters());
  builder.buffer({.name = "16-bit weights",
                  .formula = stage3 ? "b p" : "b P",
                  .category = MemoryCategory::kWeights,
                  .resident = b * (stage3 ? job.partition() : all),
                  .model_state = true});
  builder.buffer({.name = two ? "gradient buckets, two" : "gradient bucket",
                  .formula = two ? "2 b R" : "b R",
                  .category = MemoryCategory::kStaging,
                  .resident = b * bucket_size * (two ? 2 : 1)});
  builder.buffer({.name = "bucket, flattened",
                  .formula = "b max(B, R)",
                  .category = MemoryCategory::kStaging,
                  .resident = b * largest});
}

BackwardTemporaries::BackwardTemporaries(const Job& job, ProgramBuilder& builder)
    : builder_(builder),
      largest_(largest_tensor(job.scenario.model)),
      copy_(builder.buffer({.name = "copy of the largest gradient",
                            .formula = "b t",
                            .category = MemoryCategory::kGradients,
                            .held = "backward"})),
      norm_(builder.buffer({.name = "largest gradient in fp64 (norm)",
                            .formula = "8 t",
                            .category = MemoryCategory::kGradients,
                            .held = "boundary's backward"})) {}

void BackwardTemporaries::begin(bool boundary) {
  boundary_ = boundary;
  builder_.grow_at_backward(copy_, builder_.element_bytes() * largest_);
  if (boundary) builder_.grow_at_backward(norm_, 8 * largest_);
}

void BackwardTemporaries::end(TaskId last) {
  builder_.memory(last, true, copy_, -builder_.element_bytes() * largest_);
  if (boundary_) builder_.memory(last, true, norm_, -8 * largest_);
}

SelectedTemporaries::SelectedTemporaries(const Job& job, double elements, ProgramBuilder& builder)
    : builder_(builder), bytes_(builder.element_bytes() * elements), bucket_share_(0) {
  for (const GradientBucket& bucket : builder.plan().buckets) {
    bucket_share_ = std::max(
        bucket_share_, bucket.elements / static_cast<double>(job.scenario.model.parameters()));
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
