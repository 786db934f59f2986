// What runs concurrently with a span, and what of its speed that leaves it.
#include "sim/calibrate/contention.h"

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

Interval between(std::int64_t start, std::int64_t end) {
  constexpr std::int64_t kSecond = 1'000'000'000'000;
  return {Picoseconds{start * kSecond}, Picoseconds{end * kSecond}};
}

//   span       |2 ............ 12|
//   a       |0 .. 4|      |8 . 10|      |14|
//   b             |3 .......  9|
TEST(WhatRanBeside, IsCountedBySets) {
  const Intervals a = {between(0, 4), between(8, 10), between(14, 15)};
  const Intervals b = {between(3, 9)};
  const WorkTimes others[] = {{2, &a}, {4, &b}};
  const ConcurrentWork expected = {{0, 2.0}, {2, 2.0}, {4, 4.0}, {6, 2.0}};
  EXPECT_EQ(concurrent_work(between(2, 12), others), expected);
}

TEST(WhatRanBeside, IsNothingWhereNothingRan) {
  const Intervals a = {between(0, 2), between(12, 15)};
  const WorkTimes others[] = {{1, &a}};
  EXPECT_EQ(concurrent_work(between(2, 12), others), (ConcurrentWork{{0, 10.0}}));
  EXPECT_EQ(concurrent_work(between(2, 12), {}), (ConcurrentWork{{0, 10.0}}));
  EXPECT_TRUE(concurrent_work(between(2, 2), others).empty());
}

// A link of 10 that a flow of 8 and one of 4 share: 5 each would leave 1 unused, so 6 and 4.
Machine two_flows() {
  Machine machine;
  machine.links = {{"dram", BytesPerSecond(10)}};
  machine.flows = {{BytesPerSecond(8), {{0, 1.0}}}, {BytesPerSecond(4), {{0, 1.0}}}};
  return machine;
}

TEST(FairProgress, IsTheFairShareOfTheSpeedAlone) {
  const Machine machine = two_flows();
  FairProgress progress(machine, {0, kNoFlow, 1});
  EXPECT_DOUBLE_EQ(progress.of(0, 0), 1);
  EXPECT_DOUBLE_EQ(progress.of(0, 2), 1) << "the other shares nothing";
  EXPECT_DOUBLE_EQ(progress.of(0, 4), 6.0 / 8);
  EXPECT_DOUBLE_EQ(progress.of(0, 5), 6.0 / 8) << "itself named once more";
  EXPECT_DOUBLE_EQ(progress.of(2, 1), 1);
  EXPECT_DOUBLE_EQ(progress.of(1, 5), 1);
}

TEST(FairProgress, IsTheMeanOverTheTime) {
  const Machine machine = two_flows();
  FairProgress progress(machine, {0, 1});
  EXPECT_DOUBLE_EQ(progress.mean(0, {{0, 1.0}, {2, 3.0}}), (1 + 3 * 0.75) / 4);
  EXPECT_DOUBLE_EQ(progress.mean(0, {}), 1);
}

}  // namespace
}  // namespace zenflow::sim
