/// Sets of times: sorted intervals that neither touch nor overlap.
#pragma once

#include <vector>

#include "sim/base/units.h"

namespace zenflow::sim {

struct Interval {
  Picoseconds start;
  Picoseconds end;
};
using Intervals = std::vector<Interval>;

/// The union of any intervals; empty ones vanish.
[[nodiscard]] Intervals unite(Intervals intervals);
[[nodiscard]] Intervals intersect(const Intervals& a, const Intervals& b);
/// What is in `a` and not in `b`.
[[nodiscard]] Intervals subtract(const Intervals& a, const Intervals& b);
[[nodiscard]] Picoseconds length_of(const Intervals& intervals);
/// Of `intervals` within [start, end).
[[nodiscard]] Picoseconds length_within(const Intervals& intervals, Picoseconds start,
                                        Picoseconds end);

}  // namespace zenflow::sim
