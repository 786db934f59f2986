/// Times of collectives in recordings of several ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/calibrate/live_run.h"

namespace zenflow::sim {

/// Tensors of a group whose gradients went to their owners, or whose weights came from there.
struct CollectiveSample {
  Operation operation = Operation::kUnknown;
  double bytes = 0;  ///< of all of them
  std::int64_t tensors = 1;
  std::int64_t ranks = 1;
  double seconds = 0;
};

/// A rank that comes early waits: each is as long as from when the last one has come to when the
/// last one has left, on rank 0's clock. Recordings that have their own add these. Of recordings of
/// one rank there are none. Throws
/// Error(kInput) if not all ranks of a run are there, or if one has others than its model's.
[[nodiscard]] std::vector<CollectiveSample> collective_samples(
    const std::vector<LiveRecording>& recordings);

/// What ranks.jitter has to be for the slowest rank's passes to be as much later than the mean as
/// they are in these recordings, beyond what a rank always is. Empty: no recordings of several
/// ranks. Throws as collective_samples does.
[[nodiscard]] std::optional<double> rank_jitter(const std::vector<LiveRecording>& recordings);

}  // namespace zenflow::sim
