#include "runtime/device/link_pacer.h"

#include <gtest/gtest.h>

namespace zenflow::runtime {
namespace {

using std::chrono::milliseconds;

constexpr Clock::time_point kStart = Clock::time_point(std::chrono::hours(1));

Clock::time_point at(std::int64_t ms) {
  return kStart + milliseconds(ms);
}

TEST(LinkPacer, CopiesTakeTurns) {
  LinkPacer link;
  EXPECT_EQ(link.occupy(at(0), milliseconds(10)), at(10));
  EXPECT_EQ(link.occupy(at(4), milliseconds(10)), at(20));
  EXPECT_EQ(link.occupy(at(50), milliseconds(10)), at(60));
}

TEST(LinkPacer, WhatFollowsALateAwakeningLosesNothing) {
  LinkPacer link;
  Clock::time_point end = link.occupy(at(0), milliseconds(10));
  for (std::int64_t copy = 2; copy <= 100; ++copy) {
    const Clock::time_point woken = end + milliseconds(3);
    link.woke(end, woken);
    end = link.occupy(woken, milliseconds(10));
    ASSERT_EQ(end, at(10 * copy));
  }
}

TEST(LinkPacer, ACopyThatComesLaterTakesItsWholeTime) {
  LinkPacer link;
  link.woke(link.occupy(at(0), milliseconds(10)), at(13));
  const Clock::time_point later = at(13) + LinkPacer::kRightAfter + std::chrono::nanoseconds(1);
  EXPECT_EQ(link.occupy(later, milliseconds(10)), later + milliseconds(10));
}

TEST(LinkPacer, NothingIsGainedByWakingOnTime) {
  LinkPacer link;
  const Clock::time_point end = link.occupy(at(0), milliseconds(10));
  link.woke(end, end);
  const Clock::time_point next = end + std::chrono::microseconds(100);
  EXPECT_EQ(link.occupy(next, milliseconds(10)), next + milliseconds(10));
}

TEST(LinkPacer, ALateThreadDoesNotOvertakeAnother) {
  LinkPacer link;
  const Clock::time_point end = link.occupy(at(0), milliseconds(10));
  EXPECT_EQ(link.occupy(at(1), milliseconds(10)), at(20));  // of another stream
  link.woke(end, at(14));
  EXPECT_EQ(link.occupy(at(14), milliseconds(10)), at(30));
}

TEST(LinkPacer, EndsWhereClocksStillReach) {
  LinkPacer link;
  EXPECT_EQ(link.occupy(at(0), LinkPacer::kLongest), at(0) + LinkPacer::kLongest);
  EXPECT_EQ(link.occupy(at(1), LinkPacer::kLongest), at(1) + LinkPacer::kLongest);
}

}  // namespace
}  // namespace zenflow::runtime
