/// What the engine reports and holds between two windows: times, bytes, memory.
#include <chrono>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/offload/traffic.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace testing;
using namespace std::chrono_literals;

Case interval_case(std::int64_t interval) {
  Case c;
  c.settings.topk_ratio = 0.25;
  c.settings.update_interval = interval;
  c.settings.interval_is_auto = true;
  c.settings.adamw = {1e-2F, 0.9F, 0.999F, 1e-8F, 0.1F};
  return c;
}

double seconds_of(const std::function<void()>& work) {
  const Clock::time_point start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Whatever the machine does, what lies inside the calls of `step` takes no longer than the calls.
TEST(WindowObservation, LeavesOutWhatHappensBetweenSteps) {
  for (const bool overlap : {true, false}) {
    Case c = interval_case(3);
    c.settings.overlap_step = overlap;
    // The CPU is at work when somebody asks for weights between two steps, and waits for it.
    c.settings.before_update = [](std::size_t) { std::this_thread::sleep_for(3ms); };
    Trainer trainer(c);
    std::vector<WindowObservation> windows;
    trainer.engine.set_interval_policy([&](const WindowObservation& seen) {
      windows.push_back(seen);
      return seen.steps;
    });
    trainer.engine.load_weights(trainer.model.initial_weights());
    double in_steps = 0;
    double waited = 0;
    for (std::int64_t t = 0; t < 15; ++t) {
      StepResult result;
      in_steps += seconds_of([&] { result = trainer.step(); });
      waited += result.waited_for_cpu;
      if (result.window_ended && !windows.empty()) {
        const WindowObservation& seen = windows.back();
        EXPECT_EQ(seen.timed_steps, 3);
        EXPECT_LE(seen.window_seconds, in_steps);
        EXPECT_LE(seen.waited_seconds, waited);
        EXPECT_LE(seen.waited_seconds, seen.window_seconds);
      }
      if (result.window_ended) in_steps = waited = 0;
      // A validation, and a checkpoint.
      (void)trainer.engine.weights(false);
      (void)save(trainer.engine);
      std::this_thread::sleep_for(20ms);
    }
    EXPECT_EQ(windows.size(), 4U);
  }
}

TEST(WindowObservation, OfAResumedWindowHasTheStepsOfThisProcess) {
  const Case c = interval_case(4);
  Trainer first(c);
  first.engine.load_weights(first.model.initial_weights());
  for (int t = 0; t < 7; ++t) first.step();
  Trainer second(c);
  std::vector<WindowObservation> windows;
  second.engine.set_interval_policy([&](const WindowObservation& seen) {
    windows.push_back(seen);
    return seen.steps;
  });
  restore(second.engine, save(first.engine));
  for (int t = 7; t < 12; ++t) second.step();
  ASSERT_EQ(windows.size(), 2U);
  EXPECT_EQ(windows[0].steps, 4);
  EXPECT_EQ(windows[0].timed_steps, 1);
  EXPECT_EQ(windows[1].timed_steps, 4);
}

/// Bytes from one window's end to the next, however far the lanes have come by then.
TEST(WindowTraffic, BetweenTwoWindowsIsTheClosedForm) {
  for (std::uint64_t seed = 0; seed < tried(40U); ++seed) {
    Case c = random_case(seed + 700);
    c.jitter = {seed, 200us};
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const std::int64_t s = c.settings.update_interval;
    const LinkBytes expected = window_traffic(trainer.engine.layout(), c.type, c.settings, s);
    std::optional<TrafficCount> before;
    int compared = 0;
    for (std::int64_t t = 0; t < c.settings.full_warm_up_rounds + 8 * s; ++t) {
      const StepResult result = trainer.step();
      ASSERT_EQ(result.window_traffic.has_value(), result.window_ended);
      // Two windows until an update is there to be uploaded in every one.
      if (!result.window_ended || t < c.settings.full_warm_up_rounds + 2 * s - 1) continue;
      if (before) {
        const TrafficCount between = difference(*result.window_traffic, *before);
        ASSERT_EQ(between.d2h[static_cast<std::size_t>(Traffic::kGradients)], expected.d2h);
        ASSERT_EQ(between.h2d[static_cast<std::size_t>(Traffic::kParameters)], expected.h2d);
        ++compared;
      }
      before = result.window_traffic;
    }
    EXPECT_EQ(compared, 6);
  }
}

/// Allocating on a GPU waits for all that it does, and may fail hours after the start.
TEST(OffloadEngine, StepsAllocateNoDeviceMemory) {
  std::size_t exchanged = 0;
  for (std::uint64_t seed = 0; seed < tried(30U); ++seed) {
    Case c = random_case(seed + 300);
    c.settings.select_interval = c.settings.update_interval;
    SCOPED_TRACE(describe(c));
    Trainer trainer(c);
    trainer.engine.load_weights(trainer.model.initial_weights());
    const std::uint64_t before = trainer.allocations();
    EXPECT_GT(before, 0U);
    for (int t = 0; t < 20; ++t) exchanged += trainer.step().columns_exchanged;
    trainer.engine.settle();
    EXPECT_EQ(trainer.allocations(), before);
  }
  EXPECT_GT(exchanged, 100U);
}

}  // namespace
}  // namespace zenflow::runtime
