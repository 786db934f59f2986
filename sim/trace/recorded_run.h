/// What zenflow-train writes into its recordings of how it was run, so that whoever reads one need
/// not be told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/offload/training_setup.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// LOW:HIGH of --topk-range.
struct RecordedRatios {
  double low = 0;
  double high = 0;

  friend bool operator==(const RecordedRatios&, const RecordedRatios&) = default;
};

/// Which of the ranks that trained together.
struct RecordedRank {
  /// The same in recordings of one run: microseconds on rank 0's clock when it began.
  std::int64_t run = 0;
  std::int64_t rank = 0;
  std::int64_t ranks = 1;
  /// What its clock shows beyond rank 0's at the same moment, at worst so far off.
  double clock_offset_ns = 0;
  double clock_uncertainty_ns = 0;

  friend bool operator==(const RecordedRank&, const RecordedRank&) = default;
};

/// Its knobs are written as the table of sim/offload/knobs.h says, by the flags of zenflow-train.
/// `topk_ratio` and `update_interval`: where they changed, the last ones.
struct RecordedRun : TrainingSetup {
  /// Between which topk_ratio changed while the run went on.
  std::optional<RecordedRatios> topk_range{};
  std::optional<std::int64_t> gpu{};  ///< its number; none: the host was the device
  std::int64_t parameters = 0;        ///< of the model; 0: recordings of before do not say
  RecordedRank among{};

  friend bool operator==(const RecordedRun&, const RecordedRun&) = default;
};

/// Adds it to the timeline's metadata.
void write_recorded_run(Timeline& timeline, const RecordedRun& run);
/// Throws Error(kInput) "FILE: zenflow_train.KEY: ..." for the first value that is not of its kind
/// or out of its range, if the timeline has such values.
void check_recorded_run(const Timeline& timeline, const std::string& file);
/// Empty: the timeline has none, or what it has is not complete.
[[nodiscard]] std::optional<RecordedRun> recorded_run(const Timeline& timeline);
/// Whether zenflow-train recorded it, by its tracks: recordings of before have no RecordedRun.
[[nodiscard]] bool is_of_zenflow_train(const Timeline& timeline);

}  // namespace zenflow::sim
