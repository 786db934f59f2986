/// How finely the clock of a recording resolves.
///
/// A time t is written as a multiple of the tick; the error is uniform, and that of a length, the
/// difference of two times, has the standard deviation tick / sqrt(6). Lengths of a few ticks are
/// mostly that: kernels of 2.4 us recorded in whole microseconds take 2 or 3, never 2.4.
#pragma once

#include <vector>

#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// The clock's tick, from spans of some kind: the largest time in seconds, up to a microsecond
/// (what the coarsest format writes), of which every length and every distance between two starts
/// is a multiple. 0: fewer than two such spans, from which nothing can be said.
[[nodiscard]] double clock_tick(const Timeline& timeline, bool (*counts)(SpanKind));

/// What the tick adds to the sum of `lengths` measured lengths: standard deviation, seconds.
[[nodiscard]] double clock_error(double tick, double lengths = 1);

/// The unit of the last decimal of values that are written with a fixed number of decimals, at most
/// six.
[[nodiscard]] double decimal_tick(const std::vector<double>& values);

}  // namespace zenflow::sim
