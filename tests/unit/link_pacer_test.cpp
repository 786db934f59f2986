#include "runtime/device/link_pacer.h"

#include <gtest/gtest.h>

namespace zenflow::runtime {
namespace {

using std::chrono::milliseconds;

constexpr Clock::time_point kStart = Clock::time_point(std::chrono::hours(1));

Clock::time_point at(std::int64_t ms) {
  return kStart + milliseconds(ms);
}

/// For a copy that becomes ready when it is handed over.
Clock::time_point occupy_now(LinkPacer& link, Clock::time_point now, milliseconds duration) {
  return link.occupy(now, now, duration);
}

TEST(LinkPacer, CopiesTakeTurns) {
  LinkPacer link;
  EXPECT_EQ(occupy_now(link, at(0), milliseconds(10)), at(10));
  EXPECT_EQ(occupy_now(link, at(4), milliseconds(10)), at(20));
  EXPECT_EQ(occupy_now(link, at(50), milliseconds(10)), at(60));
}

TEST(LinkPacer, WhatWaitedForALateThreadLosesNothing) {
  LinkPacer link;
  Clock::time_point end = occupy_now(link, at(0), milliseconds(10));
  for (std::int64_t copy = 2; copy <= 100; ++copy) {
    const Clock::time_point woken = end + milliseconds(3);
    link.woke(end, woken);
    end = link.occupy(at(0), woken, milliseconds(10));
    ASSERT_EQ(end, at(10 * copy));
  }
}

TEST(LinkPacer, ACopyThatWasNotReadyTakesItsWholeTime) {
  LinkPacer link;
  link.woke(occupy_now(link, at(0), milliseconds(10)), at(13));
  EXPECT_EQ(occupy_now(link, at(13), milliseconds(10)), at(23));
  // Ready while the thread was late: from then on.
  link.woke(at(23), at(26));
  EXPECT_EQ(link.occupy(at(25), at(26), milliseconds(10)), at(35));
}

TEST(LinkPacer, NoMoreIsGainedThanTheThreadWasLate) {
  LinkPacer link;
  link.woke(occupy_now(link, at(0), milliseconds(10)), at(13));
  // Long ready, but held up by something else than sleep.
  EXPECT_EQ(link.occupy(at(0), at(20), milliseconds(10)), at(27));
}

TEST(LinkPacer, NothingIsGainedByWakingOnTime) {
  LinkPacer link;
  const Clock::time_point end = occupy_now(link, at(0), milliseconds(10));
  link.woke(end, end);
  const Clock::time_point next = end + std::chrono::microseconds(100);
  EXPECT_EQ(link.occupy(at(0), next, milliseconds(10)), next + milliseconds(10));
}

TEST(LinkPacer, ALateThreadDoesNotOvertakeAnother) {
  LinkPacer link;
  const Clock::time_point end = occupy_now(link, at(0), milliseconds(10));
  EXPECT_EQ(occupy_now(link, at(1), milliseconds(10)), at(20));  // of another stream
  link.woke(end, at(14));
  EXPECT_EQ(link.occupy(at(0), at(14), milliseconds(10)), at(30));
}

TEST(LinkPacer, EndsWhereClocksStillReach) {
  LinkPacer link;
  EXPECT_EQ(link.occupy(at(0), at(0), LinkPacer::kLongest), at(0) + LinkPacer::kLongest);
  EXPECT_EQ(link.occupy(at(1), at(1), LinkPacer::kLongest), at(1) + LinkPacer::kLongest);
}

}  // namespace
}  // namespace zenflow::runtime
