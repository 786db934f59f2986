/// What the host costs a GPU: delays of launches, gaps between kernels, returns from waits.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/trace/launches.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// A time that a trace shows, in seconds: the median, and the middle half's bounds. If the clock
/// counts whole ticks, equal times are taken to lie evenly within half a tick of their value.
struct MeasuredTime {
  std::string what;
  double median = 0;
  double lower = 0;
  double upper = 0;
  std::size_t samples = 0;
};

struct LaunchTimes {
  MeasuredTime call;    ///< how long a launching call takes
  MeasuredTime delay;   ///< from the call's start to the kernel's, if its stream was idle before
  MeasuredTime gap;     ///< between kernels of a stream, the next launched before the first ended
  MeasuredTime starve;  ///< the same where it was launched after: the GPU waited for the host
  MeasuredTime wake;    ///< from the end of the GPU's work to the return of the call waiting for it
};

/// Times without samples are all zero. `launch` is launch_of_spans(timeline).
[[nodiscard]] LaunchTimes launch_times(const Timeline& timeline, const SpanLaunches& launch);

}  // namespace zenflow::sim
