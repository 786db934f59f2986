/// Sets of times: sorted intervals that neither touch nor overlap.
#pragma once

#include <cstddef>
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
/// Adds one that starts no earlier than the last of `united` does.
void extend(Intervals& united, const Interval& one);
[[nodiscard]] Picoseconds length_of(const Intervals& intervals);
/// The length of the parts of `intervals` that lie in [start, end).
[[nodiscard]] Picoseconds length_within(const Intervals& intervals, Picoseconds start,
                                        Picoseconds end);

/// The length of the union of intervals that come by start, without holding the union: in all, and
/// within parts of the time.
class RunningLength {
 public:
  /// `parts` are sorted by start and may overlap; they must outlive this.
  explicit RunningLength(const Intervals& parts) : parts_(&parts), within_(parts.size()) {}

  void add(const Interval& one);
  /// After the last one.
  void finish();
  [[nodiscard]] Picoseconds length() const { return length_; }
  [[nodiscard]] Picoseconds within(std::size_t part) const { return within_[part]; }

 private:
  const Intervals* parts_;
  std::vector<Picoseconds> within_;
  std::size_t first_ = 0;  // of the parts that do not end before `last_`
  Interval last_{};        // not yet counted; empty: none
  Picoseconds length_{};
};

}  // namespace zenflow::sim
