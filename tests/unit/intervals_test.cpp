// Sets of times, by small numbers.
#include "sim/base/intervals.h"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

/// Every picosecond that is in the set, of a small range.
std::set<std::int64_t> points(const Intervals& intervals) {
  std::set<std::int64_t> found;
  for (const Interval& one : intervals) {
    for (std::int64_t t = one.start.count; t < one.end.count; ++t) found.insert(t);
  }
  return found;
}

void sort_by_start(Intervals& some) {
  std::stable_sort(some.begin(), some.end(),
                   [](const Interval& a, const Interval& b) { return a.start < b.start; });
}

/// What a RunningLength over `some` says in all; expects of it `within(part)` for each of `parts`.
template <class Within>
std::int64_t length_of_running(Intervals some, Intervals parts, const Within& within) {
  sort_by_start(some);
  sort_by_start(parts);
  RunningLength running(parts);
  for (const Interval& one : some) running.add(one);
  running.finish();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    EXPECT_EQ(running.within(i).count, within(parts[i])) << i;
  }
  return running.length().count;
}

// Against sets of single points, which cannot be wrong.
TEST(Intervals, AgreeWithSetsOfPoints) {
  std::mt19937_64 random(1);
  const auto draw = [&] {
    Intervals some;
    for (std::uint64_t i = random() % 8; i > 0; --i) {
      const auto start = static_cast<std::int64_t>(random() % 40) - 15;
      some.push_back({{start}, {start + static_cast<std::int64_t>(random() % 6)}});
    }
    return some;
  };
  for (int round = 0; round < 500; ++round) {
    const Intervals raw_a = draw();
    const Intervals raw_b = draw();
    const Intervals a = unite(raw_a);
    const std::set<std::int64_t> in_a = points(raw_a);
    EXPECT_EQ(points(a), in_a);
    for (std::size_t i = 1; i < a.size(); ++i) ASSERT_LT(a[i - 1].end, a[i].start);
    EXPECT_EQ(length_of(a).count, static_cast<std::int64_t>(in_a.size()));
    const auto within = [&](const Interval& part) {
      return std::count_if(in_a.begin(), in_a.end(), [&](std::int64_t t) {
        return t >= part.start.count && t < part.end.count;
      });
    };
    EXPECT_EQ(length_within(a, {10}, {25}).count, within({{10}, {25}}));
    EXPECT_EQ(length_of_running(raw_a, raw_b, within), length_of(a).count);
  }
}

}  // namespace
}  // namespace zenflow::sim
