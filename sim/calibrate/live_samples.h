/// Measured times of a live run's operations, read off its timeline.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/schedule/live_work.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

enum class LiveOperation : std::uint8_t {
  kForward,        ///< of a layer
  kBackward,       ///< of a layer
  kAfterBackward,  ///< of a layer: norms, selected columns gathered, deferred ones packed
  kUpdateSelected,
  kCarrySelected,
  kGradientsDown,  ///< of a layer: a step's gradients, or a window's sums
  kWeightsUp,      ///< of a layer
  kPlaceUpload,    ///< of a layer
  kSum,            ///< of a layer, on the CPU
  kSumOnDevice,    ///< of all layers
  kUpdate,         ///< of a layer
  kStepGap,        ///< idle on the device from the norm's arrival to the next forward, in a window
};

struct LiveSample {
  LiveOperation operation;
  std::size_t layer = 0;  ///< embedding, blocks, head
  bool first = false;     ///< of sums: in the window's first step
  double bytes = 0;       ///< of copies
  double seconds = 0;
  Picoseconds start{};
};

/// What a run of `layers` layers with this schedule recorded, from step `first_step` on; a
/// timeline of the runtime's host recorder or a simulated one of the same schedule. Operations are
/// told apart by their names and by the order in which the schedule issues them; a track in which
/// that order does not hold is an error: Error(kInput) names the track and the span.
/// What selections add (norms of columns, state that changes place) is left out.
[[nodiscard]] std::vector<LiveSample> live_samples(const Timeline& timeline,
                                                   const std::vector<LiveLayer>& layers,
                                                   const LiveSettings& live,
                                                   std::int64_t first_step);

}  // namespace zenflow::sim
