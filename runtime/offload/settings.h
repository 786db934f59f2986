/// How the offload engine trains.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/adamw/adamw.h"
#include "runtime/device/device.h"
#include "runtime/offload/topk_range.h"
#include "sim/offload/column_split.h"
#include "sim/offload/training_setup.h"

namespace zenflow::runtime {

using sim::OffloadSchedule;

/// How an update from the mean of S gradients differs from one of a single step, which takes the
/// place of S. With all but kNone the decay of moments and weights is that of S steps: beta^S, and
/// S learning_rate weight_decay.
enum class DeferredScaling : std::uint8_t {
  kNone,        ///< not at all, as in DeepSpeed
  kSquareRoot,  ///< learning rate times sqrt(S): Malladi et al. 2022, for Adam
  kLinear,      ///< learning rate times S
  /// Learning rate times S^0.75: between what suits gradients that are noise, sqrt(S), and what
  /// suits those that agree, S. Found by trying (docs/training.md).
  kThreeQuarters,
};

/// By their values: as flags and checkpoints name them.
inline constexpr std::array<std::string_view, 4> kDeferredScalings{"none", "sqrt", "linear",
                                                                   "0.75"};
[[nodiscard]] constexpr std::string_view to_string(DeferredScaling scaling) {
  return kDeferredScalings.at(static_cast<std::size_t>(scaling));
}

/// The one of that name; Error(kInput) if there is none.
[[nodiscard]] DeferredScaling deferred_scaling(std::string_view name);

/// The setup, and what else the engine is told. Defaults are those of DeepSpeed's ZenFlow block.
/// `select_interval` is a multiple of S unless that is auto: an IntervalPolicy will change it.
struct OffloadSettings : sim::OffloadSetup {
  /// Between which topk_ratio may change; memory is for the worst of them. None: it stays.
  std::optional<TopkRange> topk_range{};
  DeferredScaling deferred_scaling = DeferredScaling::kNone;
  NormKind norm = NormKind::kL2;  ///< how columns are ranked
  /// Deferred gradients of a whole step have a place on the device, so that copies may go on
  /// through the next forward; else two groups' take turns and backward waits for the link.
  bool whole_step_gradients = true;
  /// The size of the device's buffer, and of the pinned one, through which column state goes when
  /// columns change place. The host also holds one matrix's in pageable memory: up to 28 bytes
  /// for an element of its selection.
  std::size_t exchange_bytes = static_cast<std::size_t>(sim::kExchangeBytes);
  double gradient_clipping = 0;  ///< largest global norm of a step's gradient; 0: none
  kernels::AdamWSettings adamw{1e-3F, 0.9F, 0.999F, 1e-8F, 0.01F};
  /// Norms and biases lose weight as matrices do; false: not at all, as under Hugging Face's
  /// Trainer.
  bool decays_vectors = false;
  std::int64_t max_staleness = 31;   ///< steps from a gradient to its use; checked at every swap
  std::vector<int> optimizer_cores;  ///< logical CPUs to bind them to; empty: not bound
  bool record_importance = false;    ///< column norms in every step, not only to select
  /// Called by the update lane before each group: for tests that delay or break it there.
  std::function<void(std::size_t group)> before_update;

  /// No offloading: all columns, and vectors, are selected.
  [[nodiscard]] bool everything_on_device() const { return schedule == OffloadSchedule::kGpuOnly; }
  /// All groups' deferred gradients have a place at once.
  [[nodiscard]] bool has_whole_step() const { return whole_step_gradients || accumulate_on_device; }
};

/// `zero-offload` is topk_ratio 0, update_interval 1, no overlap; the DPU overlaps; and so on.
/// Throws Error(kInput) on values out of range and on combinations that cannot work.
[[nodiscard]] OffloadSettings settings_for(OffloadSchedule schedule, OffloadSettings settings);

/// Threads of the CPU for updates and for sums of deferred gradients.
struct CpuThreads {
  int optimizer = 1;
  int sums = 1;
};
/// Shares out `cores` that only these two have, as with a model on a GPU, so that both take as long
/// over a window: of an element, sums move 10 bytes a step (gradient, sum read and written) and the
/// update 30 a window. At least one each; without sums all cores are the optimizer's.
[[nodiscard]] CpuThreads share_cores(int cores, const OffloadSettings& settings);

/// The same without weight decay, unless `decays`.
[[nodiscard]] kernels::AdamWSettings with_decay(kernels::AdamWSettings adamw, bool decays);

/// AdamW's settings for an update that stands for `steps` steps; `adamw` itself for 1.
[[nodiscard]] kernels::AdamWSettings scaled_adamw(const kernels::AdamWSettings& adamw,
                                                  DeferredScaling scaling, std::int64_t steps);

}  // namespace zenflow::runtime
