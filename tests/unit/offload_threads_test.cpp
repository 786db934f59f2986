/// The CPU lane.
#include <atomic>
#include <future>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/offload/cpu_lane.h"
#include "sim/base/error.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using zenflow::testing::error_of;

TEST(CpuLane, RunsJobsInOrderAndKnowsWhichHaveEnded) {
  CpuLane lane;
  EXPECT_EQ(lane.last(), 0U);
  EXPECT_TRUE(lane.done(0));
  std::vector<int> order;
  std::promise<void> gate;
  const auto first = lane.submit([&] {
    gate.get_future().wait();
    order.push_back(1);
  });
  const auto second = lane.submit([&] { order.push_back(2); });
  EXPECT_EQ(lane.last(), second);
  EXPECT_FALSE(lane.done(first));
  gate.set_value();
  lane.wait(second);
  EXPECT_TRUE(lane.done(first));
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(CpuLane, AFailureDropsTheRestAndIsToldToAll) {
  CpuLane lane;
  std::promise<void> gate;
  std::atomic<bool> ran = false;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> dropped = held;
  lane.submit([&] {
    gate.get_future().wait();
    throw Error(ErrorKind::kRuntime, "the job broke");
  });
  const auto last = lane.submit([&ran, held = std::move(held)] { ran = true; });
  gate.set_value();
  EXPECT_EQ(error_of([&] { lane.wait(last); }).second, "the job broke");
  EXPECT_FALSE(lane.done(last));
  EXPECT_TRUE(dropped.expired());  // what the job held is free: a signal, for one
  EXPECT_EQ(error_of([&] { lane.check(); }).second, "the job broke");
  EXPECT_EQ(error_of([&] { lane.submit([] {}); }).second, "the job broke");
  EXPECT_FALSE(ran);
}

TEST(CpuLane, EndsWithTheJobAtWorkAndDropsTheRest) {
  std::atomic<int> ran = 0;
  std::promise<void> started;
  std::promise<void> gate;
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> dropped = held;
  std::thread opener;
  {
    CpuLane lane;
    lane.submit([&] {
      started.set_value();
      gate.get_future().wait();
      ++ran;
    });
    lane.submit([&ran, held = std::move(held)] { ran += 100; });
    started.get_future().wait();
    // The lane may end before or after its job: either way the job at work is finished. Only if it
    // ends first, which this cannot force, are jobs behind it dropped.
    opener = std::thread([&] { gate.set_value(); });
  }
  opener.join();
  EXPECT_EQ(ran % 100, 1);
  EXPECT_TRUE(dropped.expired());
}

}  // namespace
}  // namespace zenflow::runtime
