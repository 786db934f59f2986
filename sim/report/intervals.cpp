#include "sim/report/intervals.h"

#include <algorithm>

namespace zenflow::sim {

Intervals unite(Intervals intervals) {
  const auto by_start = [](const Interval& a, const Interval& b) { return a.start < b.start; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) {
    std::sort(intervals.begin(), intervals.end(), by_start);
  }
  Intervals united;
  for (const Interval& one : intervals) {
    if (one.end <= one.start) continue;
    if (!united.empty() && one.start <= united.back().end) {
      united.back().end = std::max(united.back().end, one.end);
    } else {
      united.push_back(one);
    }
  }
  return united;
}

Intervals intersect(const Intervals& a, const Intervals& b) {
  Intervals common;
  for (auto left = a.begin(), right = b.begin(); left != a.end() && right != b.end();) {
    const Interval both{std::max(left->start, right->start), std::min(left->end, right->end)};
    if (both.start < both.end) common.push_back(both);
    if (left->end < right->end) {
      ++left;
    } else {
      ++right;
    }
  }
  return common;
}

Intervals subtract(const Intervals& a, const Intervals& b) {
  Intervals rest;
  auto hole = b.begin();
  for (Interval one : a) {
    while (hole != b.end() && hole->end <= one.start) ++hole;
    for (auto cut = hole; cut != b.end() && cut->start < one.end; ++cut) {
      if (cut->start > one.start) rest.push_back({one.start, cut->start});
      one.start = std::max(one.start, cut->end);
    }
    if (one.start < one.end) rest.push_back(one);
  }
  return rest;
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

}  // namespace zenflow::sim
