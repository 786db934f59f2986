/// How the offload engine trains.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "runtime/device/device.h"
#include "runtime/offload/topk_range.h"

namespace zenflow::runtime {

enum class OffloadSchedule : std::uint8_t { kGpuOnly, kZeroOffload, kZeroOffloadDpu, kZenFlow };

/// How an update from the mean of S gradients differs from one of a single step, which takes the
/// place of S. With kSquareRoot and kLinear the decay of moments and weights is that of S steps:
/// beta^S, and S learning_rate weight_decay.
enum class DeferredScaling : std::uint8_t {
  kNone,        ///< not at all, as in DeepSpeed
  kSquareRoot,  ///< learning rate times sqrt(S): Malladi et al. 2022, for Adam
  kLinear,      ///< learning rate times S
};

inline constexpr std::size_t kExchangeBytes = std::size_t{16} << 20;

/// DeepSpeed's names where it has them. Defaults are those of its ZenFlow block.
struct OffloadSettings {
  /// Micro-batches of a step: their gradients add up in the device's gradient buffer, and the rest
  /// of the step sees the sum alone.
  std::int64_t gradient_accumulation_steps = 1;
  double topk_ratio = 0.1;  ///< share of columns of every matrix updated on the device
  /// Between which topk_ratio may change; memory is for the worst of them. None: it stays.
  std::optional<TopkRange> topk_range{};
  std::int64_t update_interval = 4;  ///< S: steps between two updates of the rest
  /// Steps between selections, a multiple of S unless that adapts; 0: one only.
  std::int64_t select_interval = 0;
  bool adaptive_interval = false;        ///< an IntervalPolicy will change S
  std::int64_t full_warm_up_rounds = 0;  ///< first steps, in which everything is updated at once
  bool overlap_step = true;              ///< the CPU update runs beside the next window
  bool everything_on_device = false;     ///< no offloading: all columns, and vectors, are selected
  DeferredScaling deferred_scaling = DeferredScaling::kNone;
  NormKind norm = NormKind::kL2;  ///< how columns are ranked
  /// Sum deferred gradients there: 4 bytes each, but once a window over the link.
  bool accumulate_on_device = false;
  /// Deferred gradients of a whole step have a place on the device, so that copies may go on
  /// through the next forward; else two groups' take turns and backward waits for the link.
  bool whole_step_gradients = true;
  /// Of column state on its way when columns change place: of the device's buffer and the pinned
  /// one that it goes through. The host also holds one matrix's in pageable memory: up to 28 bytes
  /// for an element of its selection.
  std::size_t exchange_bytes = kExchangeBytes;
  double gradient_clipping = 0;  ///< largest global norm of a step's gradient; 0: none
  kernels::AdamWSettings adamw{1e-3F, 0.9F, 0.999F, 1e-8F, 0.01F};
  std::int64_t max_staleness = 31;  ///< steps from a gradient to its use; checked at every swap
  int sum_threads = 1;              ///< add up deferred gradients while they arrive
  int optimizer_threads = 1;
  std::vector<int> optimizer_cores;  ///< logical CPUs to bind them to; empty: not bound
  bool record_importance = false;    ///< column norms in every step, not only to select
  /// Called by the update lane before each group: for tests that delay or break it there.
  std::function<void(std::size_t group)> before_update;
};

/// `zero-offload` is topk_ratio 0, update_interval 1, no overlap; the DPU overlaps; and so on.
/// Throws Error(kInput) on values out of range and on combinations that cannot work.
[[nodiscard]] OffloadSettings settings_for(OffloadSchedule schedule, OffloadSettings settings);

/// Whether any window may keep sums: one step that nothing overlaps is updated from as it came.
[[nodiscard]] bool keeps_sums(const OffloadSettings& settings);

/// AdamW's settings for an update that stands for `steps` steps; `adamw` itself for 1.
[[nodiscard]] kernels::AdamWSettings scaled_adamw(const kernels::AdamWSettings& adamw,
                                                  DeferredScaling scaling, std::int64_t steps);

}  // namespace zenflow::runtime
