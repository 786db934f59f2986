#include "runtime/trace/clock.h"

#include <atomic>
#include <csignal>
#include <cstdint>
#include <thread>

namespace zenflow::runtime {
namespace {

// Counts up when the clock is stopped and when it goes on: odd while it stands still, and then
// nobody reads it.
std::atomic<std::uint32_t> turns{0};
std::atomic<Clock::rep> stood_still{0};  // so far

Clock::rep steady_now() noexcept {
  return std::chrono::steady_clock::now().time_since_epoch().count();
}

}  // namespace

Clock::time_point Clock::now() noexcept {
  for (;;) {
    const std::uint32_t turn = turns.load();
    const rep now = steady_now() - stood_still.load();
    // This thread, too, may have been stopped since it asked.
    if (turn % 2 == 0 && turns.load() == turn) return time_point(duration(now));
    if (turn % 2 == 1) std::this_thread::yield();
  }
}

void suspend_process() {
  ++turns;
  const Clock::rep begin = steady_now();
  sigset_t suspension;
  sigemptyset(&suspension);
  sigaddset(&suspension, SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &suspension, nullptr);  // it stops here
  pthread_sigmask(SIG_BLOCK, &suspension, nullptr);
  stood_still += steady_now() - begin;
  ++turns;
}

}  // namespace zenflow::runtime
