/// The buffers of a training job by name: where each lives, how large it is and why.
///
/// A schedule declares its buffers; tasks take and give back parts of those that are not held
/// throughout. GPU buffers are of one GPU, host and NVMe buffers of the node. Formulas are
/// written in the symbols of `memory_symbols`; side by side means times.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "sim/schedule/step_plan.h"

namespace zenflow::sim {

enum class MemoryCategory : std::uint8_t {
  kWeights,
  kGradients,
  kOptimizerState,
  kSelectedState,
  kParameterBuffer,  ///< second buffer of uploaded parameters; gathered parameters
  kActivations,
  kLogits,
  kStaging,  ///< page-locked buffers that copies read and write
  kContext,
};
[[nodiscard]] std::string to_string(MemoryCategory category);
inline constexpr int kMemoryCategories = 9;

enum class MemoryPlace : std::uint8_t { kGpu, kHost, kNvme };

/// What kind of memory a buffer is in.
enum class MemoryHome : std::uint8_t {
  kGpu,
  kPageable,
  kPinned,
  kShared,  ///< /dev/shm: RAM, as far as the tmpfs goes
  kNvme,
};
[[nodiscard]] std::string to_string(MemoryHome home);
[[nodiscard]] MemoryPlace place_of(MemoryHome home);

using BufferId = std::uint16_t;

struct MemoryBuffer {
  std::string name;     ///< "fp32 master weights"
  std::string formula;  ///< of its largest size
  MemoryHome home = MemoryHome::kGpu;
  MemoryCategory category = MemoryCategory::kStaging;
  std::string held = "always";  ///< or from which phase to which
  double resident = 0;          ///< bytes held for the whole run
  bool model_state = false;     ///< what DeepSpeed's memory estimators count
  /// PyTorch's own, besides what the program asks for: rounding of its allocators, blocks that
  /// they keep, temporaries of casts. Not part of peaks; needed all the same.
  bool of_framework = false;
};

/// One symbol of the formulas.
struct MemorySymbol {
  std::string name;
  double value;
  std::string meaning;
};
/// All symbols that formulas may use, for this job.
[[nodiscard]] std::vector<MemorySymbol> memory_symbols(const Job& job, const StepPlan& plan);

/// PyTorch's caching host allocator asks for page-locked blocks in powers of two.
/// Source: aten/src/ATen/core/CachingHostAllocator.h; pytorch issue 95823. Precondition: bytes >=
/// 0.
[[nodiscard]] double pinned_block_bytes(double bytes);
/// What rounding adds to blocks of these sizes.
[[nodiscard]] double pinned_rounding(std::span<const double> blocks);

/// Elements of stage 3's sub-groups of one rank: parts of whole tensors in model order, until there
/// are sub_group_size or more. With a size of 0 each tensor alone, with one above
/// the partition all of them. Source: deepspeed/runtime/zero/stage3.py _create_fp16_sub_groups.
[[nodiscard]] std::vector<double> sub_group_elements(const Job& job);

/// Calls `visit` with each trained tensor's elements, in model order.
void for_each_tensor(const ModelSpec& model, const std::function<void(double)>& visit);

/// Elements of the largest tensor.
[[nodiscard]] double largest_tensor(const ModelSpec& model);
/// Of the trained parameters, those in tensors of at least so many elements; 0 to 1.
[[nodiscard]] double share_in_tensors_from(const ModelSpec& model, double elements);
/// Elements of each tensor that lies wholly or in part in one rank's partition, for each rank: the
/// model flattened in order and cut into equal parts, as ZeRO stages 1 and 2 do.
[[nodiscard]] std::vector<std::vector<double>> tensors_by_rank(const ModelSpec& model,
                                                               std::int64_t ranks);

}  // namespace zenflow::sim
