/// A recording into a Timeline: streams and threads as tracks, launches as flows.
#pragma once

#include <cstdint>

#include "runtime/trace/cupti/activity.h"
#include "sim/trace/timeline.h"

namespace zenflow::runtime {

/// Activities that are not in the timeline, by reason, and what recording cost.
struct TimelineReport {
  std::uint64_t incomplete = 0;       ///< no start or no end: not finished when flushed, or untimed
  std::uint64_t before_launch = 0;    ///< began on the GPU before the call that launched them
  std::uint64_t outside_session = 0;  ///< times that the session's clock did not show
  std::uint64_t unmatched_ranges = 0;  ///< NVTX ranges of which one end is missing
  std::uint64_t kernels = 0;           ///< in the timeline, as are all below
  std::uint64_t copies = 0;
  std::uint64_t memsets = 0;
  std::uint64_t calls = 0;
  std::uint64_t synchronizations = 0;
  std::uint64_t ranges = 0;
  Picoseconds overhead{};  ///< CUPTI's own, as it says: summed over threads
  Picoseconds duration{};  ///< of the session

  [[nodiscard]] std::uint64_t dropped() const {
    return incomplete + before_launch + outside_session + unmatched_ranges;
  }
};

struct MeasuredTimeline {
  sim::Timeline timeline;
  TimelineReport report;
};

/// Times count from `origin`, nanoseconds of steady_clock: the recording's session_start, or
/// earlier if spans of other sources are to be added; later throws Error(kRuntime). Order of the
/// activities does not matter. Fields, names and categories are the PyTorch profiler's; what is
/// lost is in the timeline's metadata too
/// ("zenflow_recording"). Nothing is guessed: an activity that cannot be right is dropped and
/// counted. Where spans of one thread overlap without nesting (NVTX ranges), viewers would lose
/// them: tracks are added. Kernels of one stream may overlap (graphs, dependent launches) and stay
/// on its track. Waits for an event say which stream recorded it last before them.
[[nodiscard]] MeasuredTimeline measured_timeline(const ActivityLog& log, std::uint64_t origin);
[[nodiscard]] MeasuredTimeline measured_timeline(const ActivityLog& log);

}  // namespace zenflow::runtime
