/// What zenflow-train writes into its recordings of how it was run, so that whoever reads one need
/// not be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// LOW:HIGH of --topk-range.
struct RecordedRatios {
  double low = 0;
  double high = 0;

  friend bool operator==(const RecordedRatios&, const RecordedRatios&) = default;
};

/// Keys are the flags of zenflow-train.
struct RecordedRun {
  std::string schedule;   ///< "gpu-only", "zero-offload", "zero-offload-dpu", "zenflow"
  double topk_ratio = 0;  ///< with a topk_range the last one
  /// Between which it changed while the run went on.
  std::optional<RecordedRatios> topk_range{};
  std::int64_t update_interval = 1;  ///< steps
  bool interval_is_auto = false;     ///< it changed while the run went on
  std::int64_t select_interval = 0;  ///< steps; 0: once
  std::int64_t full_warm_up_rounds = 0;
  bool overlap_step = true;
  bool accumulate_on_device = false;  ///< accumulate_on is "device"
  std::int64_t micro_batch_size = 1;  ///< sequences
  std::int64_t gradient_accumulation_steps = 1;
  bool activation_checkpointing = false;
  std::int64_t sequence_length = 1;  ///< tokens
  std::string dtype;                 ///< "bf16", "fp32"
  std::int64_t threads = 1;          ///< of the model's computations
  std::int64_t optimizer_threads = 1;
  std::int64_t sum_threads = 1;
  std::optional<std::int64_t> gpu{};  ///< its number; none: the host was the device
  std::int64_t parameters = 0;        ///< of the model; 0: recordings of before do not say

  friend bool operator==(const RecordedRun&, const RecordedRun&) = default;
};

/// Adds it to the timeline's metadata.
void write_recorded_run(Timeline& timeline, const RecordedRun& run);
/// Empty: the timeline has none, or what it has is not complete.
[[nodiscard]] std::optional<RecordedRun> recorded_run(const Timeline& timeline);
/// Whether zenflow-train recorded it, by its tracks: recordings of before have no RecordedRun.
[[nodiscard]] bool is_of_zenflow_train(const Timeline& timeline);

}  // namespace zenflow::sim
