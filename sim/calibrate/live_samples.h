/// Measured times of a live run's operations, read off its timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/live_work.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

struct LiveSample {
  /// kForward to kEnqueue, of a layer but for selected columns and sums on the device. kEnqueue:
  /// idle on the device from the norm's arrival to the next forward, in a window.
  Operation operation;
  std::size_t layer = 0;  ///< embedding, blocks, head
  bool first = false;     ///< of sums: in the window's first step
  double bytes = 0;       ///< of copies
  double seconds = 0;
  Picoseconds start{};
};

/// What a run of `layers` layers with this schedule recorded, from step `first_step` on; a
/// timeline of the runtime's host recorder or a simulated one of the same schedule. Operations are
/// those of the spans, of layers in the order in which the schedule issues them; a track in which
/// that order does not hold is an error: Error(kInput) names the track and the span.
/// What selections add (norms of columns, state that changes place) is left out.
[[nodiscard]] std::vector<LiveSample> live_samples(const Timeline& timeline,
                                                   const std::vector<LiveLayer>& layers,
                                                   const LiveSettings& live,
                                                   std::int64_t first_step);

}  // namespace zenflow::sim
