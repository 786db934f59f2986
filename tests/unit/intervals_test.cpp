// Sets of times, by small numbers.
#include "sim/report/intervals.h"

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

// Against sets of single points, which cannot be wrong.
TEST(Intervals, AgreeWithSetsOfPoints) {
  std::mt19937_64 random(1);
  const auto draw = [&] {
    Intervals some;
    for (std::uint64_t i = random() % 8; i > 0; --i) {
      const auto start = static_cast<std::int64_t>(random() % 40);
      some.push_back({{start}, {start + static_cast<std::int64_t>(random() % 6)}});
    }
    return some;
  };
  for (int round = 0; round < 500; ++round) {
    const Intervals raw_a = draw();
    const Intervals raw_b = draw();
    const Intervals a = unite(raw_a);
    const Intervals b = unite(raw_b);
    const std::set<std::int64_t> in_a = points(raw_a);
    const std::set<std::int64_t> in_b = points(raw_b);
    EXPECT_EQ(points(a), in_a);
    for (std::size_t i = 1; i < a.size(); ++i) ASSERT_LT(a[i - 1].end, a[i].start);
    EXPECT_EQ(length_of(a).count, static_cast<std::int64_t>(in_a.size()));
    std::set<std::int64_t> both;
    std::set<std::int64_t> only_a;
    for (const std::int64_t t : in_a) (in_b.contains(t) ? both : only_a).insert(t);
    EXPECT_EQ(points(intersect(a, b)), both);
    EXPECT_EQ(points(subtract(a, b)), only_a);
    std::int64_t within = 0;
    for (const std::int64_t t : in_a) within += t >= 10 && t < 25 ? 1 : 0;
    EXPECT_EQ(length_within(a, {10}, {25}).count, within);
  }
}

}  // namespace
}  // namespace zenflow::sim
