/// How a training is set up: one record for scenarios, jobs, recordings, predictions and the
/// runtime.
///
/// What a knob is called where, and what it may be, is in the table of sim/offload/knobs.h.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zenflow::sim {

enum class DType { kBf16, kFp16, kFp32 };
inline constexpr std::array<std::string_view, 3> kDTypeNames = {"bf16", "fp16", "fp32"};
[[nodiscard]] std::string to_string(DType dtype);
[[nodiscard]] std::int64_t bytes_per_element(DType dtype);

/// What is updated where and when, as zenflow-train's --schedule names it.
enum class OffloadSchedule : std::uint8_t { kGpuOnly, kZeroOffload, kZeroOffloadDpu, kZenFlow };
inline constexpr std::array<std::string_view, 4> kOffloadScheduleNames = {
    "gpu-only", "zero-offload", "zero-offload-dpu", "zenflow"};
[[nodiscard]] std::string_view to_string(OffloadSchedule schedule);
/// Empty: there is no such schedule.
[[nodiscard]] std::optional<OffloadSchedule> find_offload_schedule(std::string_view name);

/// Where zenflow-train sums deferred gradients, as --accumulate-on and scenarios have it: "host" or
/// "device".
[[nodiscard]] constexpr std::string_view accumulate_place(bool on_device) {
  return on_device ? "device" : "host";
}

/// Where the deferred gradients of a window are summed.
enum class WindowSums : std::uint8_t {
  kNone,  ///< nowhere: the update reads the one step's as they came down
  kHost,
  kDevice,  ///< they come down once, as sums
};

/// What the offload engine of zenflow-train is set to. Names are DeepSpeed's where it has them.
struct OffloadSetup {
  OffloadSchedule schedule = OffloadSchedule::kZenFlow;
  double topk_ratio = 0.1;           ///< share of columns of every matrix updated on the device
  std::int64_t update_interval = 4;  ///< S: steps between two updates of the rest
  bool overlap_step = true;          ///< the CPU update runs beside the next window
  /// Sum deferred gradients there: 4 bytes each, but once a window over the link.
  bool accumulate_on_device = false;
  bool interval_is_auto = false;         ///< S changes while the run goes on
  std::int64_t select_interval = 0;      ///< steps between selections of columns; 0: one only
  std::int64_t full_warm_up_rounds = 0;  ///< first steps, in which everything is updated at once
  /// Micro-batches of a step: their gradients add up in the device's gradient buffer, and the rest
  /// of the step sees the sum alone.
  std::int64_t gradient_accumulation_steps = 1;
  /// Of several ranks. 2: a micro-batch's gradients go to their owners in its backward. 1: they add
  /// up whole on every rank and go there once, in a step's last backward.
  std::int64_t zero_stage = 2;
  int optimizer_threads = 1;  ///< of the CPU optimizer
  int sum_threads = 1;        ///< add up deferred gradients while they arrive
  /// Columns of all matrices, on all ranks, compete for the share `topk_ratio` of their elements;
  /// else those of each matrix for that of its columns.
  bool topk_is_global = false;

  /// Whether any columns are updated on the device.
  [[nodiscard]] bool updates_on_device() const {
    return schedule == OffloadSchedule::kGpuOnly || topk_ratio > 0;
  }
  /// After warm-up, in a window of `steps` steps. One step that nothing overlaps has no sums.
  [[nodiscard]] WindowSums window_sums(std::int64_t steps) const {
    if (steps == 1 && !overlap_step) return WindowSums::kNone;
    return accumulate_on_device ? WindowSums::kDevice : WindowSums::kHost;
  }
  /// Whether any window may keep sums.
  [[nodiscard]] bool keeps_sums() const {
    return interval_is_auto || window_sums(update_interval) != WindowSums::kNone;
  }
  /// Whether the gradients of a step's micro-batch (from 0) go to their owners in its backward.
  [[nodiscard]] bool exchanges_gradients(std::int64_t micro_batch) const {
    return zero_stage == 2 || micro_batch + 1 == gradient_accumulation_steps;
  }
  /// Deferred gradients stay on the device, are summed there and come down once a window.
  [[nodiscard]] bool sums_on_device() const { return accumulate_on_device && keeps_sums(); }

  friend bool operator==(const OffloadSetup&, const OffloadSetup&) = default;
};

/// The one rule of which all four schedules are points: without columns that are selected, a window
/// of one step, which only the delayed update of ZeRO-Offload overlaps.
[[nodiscard]] OffloadSetup without_zenflow(OffloadSetup setup);
/// As the schedule has it: `without_zenflow` for all but kZenFlow.
[[nodiscard]] OffloadSetup as_scheduled(const OffloadSetup& setup);

/// "zenflow k=0.1 S=4", "zenflow k=0.1 S=4 sums on device".
[[nodiscard]] std::string to_string(const OffloadSetup& setup);
/// "zero-offload", "zenflow:K:S" or, with where sums are, "zenflow:K:S:device", "zenflow:K:S:host";
/// else they are where `otherwise` has them. Throws Error(kInput) naming what is expected.
[[nodiscard]] OffloadSetup parse_offload_setup(const std::string& text,
                                               const OffloadSetup& otherwise = {});
/// `setup` with what such a text says: schedule, topk_ratio, update_interval, overlap, place of
/// sums.
[[nodiscard]] OffloadSetup with_setting(OffloadSetup setup, const OffloadSetup& setting);

/// What forward and backward are of.
struct TrainingSettings {
  std::int64_t micro_batch_size_per_gpu = 1;  ///< sequences
  std::int64_t sequence_length = 1;           ///< tokens
  DType dtype = DType::kBf16;
  bool activation_checkpointing = false;
  /// Chains of element-wise kernels are fused and the host is never late with a launch, as with
  /// compiled code; else the framework is eager. DeepSpeed's schedules and the papers' read it.
  bool fused_framework = false;

  [[nodiscard]] std::int64_t tokens() const { return micro_batch_size_per_gpu * sequence_length; }

  friend bool operator==(const TrainingSettings&, const TrainingSettings&) = default;
};

/// All of it.
struct TrainingSetup : OffloadSetup, TrainingSettings {
  std::int64_t threads = 1;  ///< of the model's computations, where the host is the device

  friend bool operator==(const TrainingSetup&, const TrainingSetup&) = default;
};

}  // namespace zenflow::sim
