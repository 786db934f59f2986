#include "sim/base/intervals.h"

#include <algorithm>

namespace zenflow::sim {

Intervals unite(Intervals intervals) {
  const auto by_start = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) {
    std::sort(intervals.begin(), intervals.end(), by_start);
  }
  Intervals united;
  for (const Interval& one : intervals) extend(united, one);
  return united;
}

void extend(Intervals& united, const Interval& one) {
  if (one.end <= one.start) return;
  if (!united.empty() && one.start <= united.back().end) {
    united.back().end = std::max(united.back().end, one.end);
  } else {
    united.push_back(one);
  }
}

Picoseconds length_of(const Intervals& intervals) {
  Picoseconds length;
  for (const Interval& one : intervals) length += one.end - one.start;
  return length;
}

Picoseconds length_within(const Intervals& intervals, Picoseconds start, Picoseconds end) {
  const auto ends_before = [](const Interval& one, Picoseconds time) { return one.end <= time; };
  Picoseconds length;
  for (auto at = std::lower_bound(intervals.begin(), intervals.end(), start, ends_before);
       at != intervals.end() && at->start < end; ++at) {
    length += std::min(at->end, end) - std::max(at->start, start);
  }
  return length;
}

void RunningLength::add(const Interval& one) {
  if (one.end <= one.start) return;
  if (last_.start < last_.end && one.start <= last_.end) {
    last_.end = std::max(last_.end, one.end);
    return;
  }
  finish();
  last_ = one;
}

void RunningLength::finish() {
  if (last_.end <= last_.start) return;
  length_ += last_.end - last_.start;
  while (first_ < parts_->size() && (*parts_)[first_].end <= last_.start) ++first_;
  for (std::size_t i = first_; i < parts_->size() && (*parts_)[i].start < last_.end; ++i) {
    const Interval& part = (*parts_)[i];
    const Interval both{std::max(part.start, last_.start), std::min(part.end, last_.end)};
    if (both.start < both.end) within_[i] += both.end - both.start;
  }
  last_ = {};
}

}  // namespace zenflow::sim
