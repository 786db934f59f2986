/// The clock of runs, which does not count suspensions.
#include "runtime/trace/clock.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include <gtest/gtest.h>

#include "tests/support/suspension.h"

namespace zenflow::runtime {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::ask_for_suspension;
using testing::become_suspendable;
using testing::Waker;

TEST(Clock, IsTheSteadyClockWhileNothingIsSuspended) {
  const auto before = steady_clock::now();
  const Clock::time_point from = Clock::now();
  std::this_thread::sleep_for(milliseconds(20));
  const Clock::time_point to = Clock::now();
  const auto after = steady_clock::now();
  EXPECT_GE(to - from, milliseconds(20));
  EXPECT_LE(to - from, after - before);
}

TEST(Clock, StandsStillWhileTheProcessIsSuspended) {
  constexpr milliseconds kPause(200);
  become_suspendable();
  for (int i = 1; i <= 2; ++i) {
    const Waker waker(kPause);
    ask_for_suspension();
    const auto before = steady_clock::now();
    const Clock::time_point from = Clock::now();
    suspend_process();
    const Clock::time_point to = Clock::now();
    const auto after = steady_clock::now();
    EXPECT_GE(after - before, kPause);
    EXPECT_LE(to - from, after - before - kPause);
    EXPECT_GE(to, from);
  }
}

TEST(Clock, GoesOnIfNobodyWantsAnythingSuspendedAnyLonger) {
  become_suspendable();
  ask_for_suspension();
  ::kill(::getpid(), SIGCONT);
  const Clock::time_point from = Clock::now();
  suspend_process();
  EXPECT_GE(Clock::now(), from);
}

/// A thread that is stopped between its reading of the one and of the other part of the time.
TEST(Clock, NeverGoesBackForAThreadThatWasStopped) {
  become_suspendable();
  ask_for_suspension();  // the reader is not to take it
  ::kill(::getpid(), SIGCONT);
  std::atomic<bool> done{false};
  std::atomic<int> went_back{0};
  std::atomic<std::int64_t> readings{0};
  std::thread reader([&] {
    Clock::time_point last = Clock::now();
    while (!done) {
      const Clock::time_point now = Clock::now();
      if (now < last) ++went_back;
      last = now;
      ++readings;
    }
  });
  while (readings == 0) std::this_thread::yield();
  for (int i = 0; i < 20; ++i) {
    const Waker waker(milliseconds(5));
    ask_for_suspension();
    suspend_process();
  }
  done = true;
  reader.join();
  EXPECT_EQ(went_back, 0);
  EXPECT_GT(readings, 0);
}

}  // namespace
}  // namespace zenflow::runtime
