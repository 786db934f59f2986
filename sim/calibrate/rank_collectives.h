/// Times of collectives in recordings of several ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/calibrate/live_run.h"

namespace zenflow::sim {

/// A tensor's gradient that went to its owner, or its weight that came from there.
struct CollectiveSample {
  Operation operation = Operation::kUnknown;
  double bytes = 0;  ///< of the whole tensor
  std::int64_t ranks = 1;
  double seconds = 0;
};

/// A rank that comes early waits, so each is as long as on the rank where it is shortest. Of
/// recordings of one rank there are none. Throws Error(kInput) if not all ranks of a run are there,
/// or if one has others than its model's.
[[nodiscard]] std::vector<CollectiveSample> collective_samples(
    const std::vector<LiveRecording>& recordings);

}  // namespace zenflow::sim
