/// The host device: order, failures, counters, capacity.
#include "runtime/device/host_device.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/error_of.h"
#include "tests/support/suspension.h"

namespace zenflow::runtime {
namespace {

using zenflow::testing::error_of;

void fail() {
  throw Error(ErrorKind::kRuntime, "the kernel broke");
}

struct HostStreams : ::testing::Test {
  Recorder recorder{false};
  HostStream a{recorder.add_track("a", sim::TrackKind::kHost), {}};
  HostStream b{recorder.add_track("b", sim::TrackKind::kHost), {}};
};

TEST_F(HostStreams, WorkInOrder) {
  std::vector<int> order;
  for (int i = 0; i < 100; ++i) a.run({}, [&order, i] { order.push_back(i); });
  a.synchronize();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST_F(HostStreams, AnEventCoversWhatCameBeforeItAndNothingElse) {
  HostSignal gate;
  std::atomic<int> done = 0;
  a.run({}, [&] { ++done; });
  const Event before = a.record();
  a.wait(gate.event(), WaitCause::kCpuUpdate);
  a.run({}, [&] { ++done; });
  const Event after = a.record();
  before.wait();
  EXPECT_EQ(done, 1);
  EXPECT_FALSE(after.complete());
  gate.set();
  after.wait();
  EXPECT_EQ(done, 2);
  EXPECT_TRUE(Event().complete());  // of nothing
}

TEST_F(HostStreams, AFailureSkipsTheRestAndReachesEveryWaiter) {
  std::atomic<bool> ran = false;
  const Event good = a.record();
  a.run({}, fail);
  a.run({}, [&] { ran = true; });
  const Event bad = a.record();
  b.wait(bad, WaitCause::kCompute);
  b.run({}, [&] { ran = true; });
  EXPECT_NO_THROW(good.wait());
  EXPECT_EQ(error_of([&] { bad.wait(); }).second, "the kernel broke");
  EXPECT_EQ(error_of([&] { bad.wait(); }).second, "the kernel broke");  // not only once
  EXPECT_EQ(error_of([&] { b.record().wait(); }).second, "the kernel broke");
  EXPECT_EQ(error_of([&] { a.record().wait(); }).second, "the kernel broke");
  EXPECT_FALSE(ran);
}

TEST_F(HostStreams, AFailedEventFailsAStreamThatWaitsLater) {
  a.run({}, fail);
  const Event bad = a.record();
  EXPECT_THROW(bad.wait(), Error);
  EXPECT_TRUE(bad.complete());
  b.wait(bad, WaitCause::kCompute);
  EXPECT_EQ(error_of([&] { b.synchronize(); }).second, "the kernel broke");
}

TEST_F(HostStreams, ASignalThatNobodyCanSetAnyMoreFails) {
  Event event;
  {
    const HostSignal signal;
    event = signal.event();
    a.wait(event, WaitCause::kCpuUpdate);
  }
  EXPECT_EQ(error_of([&] { a.synchronize(); }).second,
            "a thread that others wait for has given up");
  Event kept;
  {
    HostSignal signal;
    kept = signal.event();
    signal.set();
  }
  EXPECT_NO_THROW(kept.wait());
}

/// Not when the thread comes to it, which may have slept too long.
TEST_F(HostStreams, ACopyIsReadyWhenAllButCopiesBeforeItIsDone) {
  std::array<Clock::time_point, 4> ready{};
  const auto copy = [&](std::size_t which) {
    a.copy({}, CopyDirection::kHostToDevice, Traffic::kParameters, 1,
           [&ready, which](Clock::time_point when) {
             ready.at(which) = when;
             std::this_thread::sleep_for(std::chrono::milliseconds(5));
           });
  };
  HostSignal signal;
  a.wait(signal.event(), WaitCause::kCompute);
  copy(0);
  copy(1);  // behind a copy
  const Clock::time_point enqueued = Clock::now();
  EXPECT_FALSE(signal.event().complete());
  signal.set();
  const Clock::time_point set = Clock::now();
  const Clock::time_point again = Clock::now();
  copy(2);
  const Clock::time_point all = Clock::now();
  Clock::time_point worked{};
  a.run({}, [&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    worked = Clock::now();
  });
  copy(3);
  a.synchronize();
  EXPECT_GE(ready[0], enqueued);
  EXPECT_LE(ready[0], set);
  EXPECT_EQ(ready[1], ready[0]);
  EXPECT_GE(ready[2], again);
  EXPECT_LE(ready[2], all);
  EXPECT_GE(ready[3], worked);
}

TEST(HostDevice, CountsBytesByKindAndDirection) {
  Recorder recorder(false);
  HostDevice device({}, recorder);
  const auto stream = device.make_stream("d2h");
  const Buffer up = device.allocate(MemoryKind::kPinnedHost, 100, "x");
  const Buffer down = device.allocate(MemoryKind::kDevice, 100, "y");
  device.copy(*stream, down.data(), up.data(), 60, CopyDirection::kHostToDevice,
              Traffic::kParameters, {});
  device.copy(*stream, down.data(), up.data(), 7, CopyDirection::kHostToDevice,
              Traffic::kParameters, {});
  device.copy(*stream, up.data(), down.data(), 100, CopyDirection::kDeviceToHost,
              Traffic::kGradients, {});
  device.copy(*stream, up.data(), down.data(), 0, CopyDirection::kDeviceToHost, Traffic::kControl,
              {});
  stream->record().wait();
  const TrafficCount count = device.traffic();
  EXPECT_EQ(count.h2d, (std::array<std::uint64_t, kTrafficKinds>{0, 67, 0, 0, 0}));
  EXPECT_EQ(count.d2h, (std::array<std::uint64_t, kTrafficKinds>{100, 0, 0, 0, 0}));
}

/// A copy that would take a thousand years ends when the link is released while it waits, and those
/// behind it at once.
TEST(HostDevice, ReleasesTheLinkToEndARun) {
  std::atomic<bool> is_asked{false};
  std::atomic<bool> is_released{false};
  Recorder recorder(true);
  HostDevice device({.link_bandwidth = BytesPerSecond(1e-9),
                     .link_released =
                         [&] {
                           is_asked = true;
                           is_asked.notify_one();
                           return is_released.load();
                         }},
                    recorder);
  const auto stream = device.make_stream("d2h");
  const Buffer host = device.allocate(MemoryKind::kPinnedHost, 100, "x");
  const Buffer there = device.allocate(MemoryKind::kDevice, 100, "y");
  std::memset(there.data(), 7, 100);
  for (int i = 0; i < 3; ++i) {
    device.copy(*stream, host.data(), there.data(), 100, CopyDirection::kDeviceToHost,
                Traffic::kGradients, {});
  }
  is_asked.wait(false);
  EXPECT_FALSE(device.has_released_link());
  is_released = true;
  stream->record().wait();
  EXPECT_TRUE(device.has_released_link());
  EXPECT_EQ(std::to_integer<int>(host.data()[99]), 7);
  EXPECT_EQ(recorder.span_count(), 3U);
}

/// The copy of gradients would take a quarter of an hour.
TEST(HostDevice, DoesNotLetControlWaitBehindGradients) {
  std::atomic<bool> is_asked{false};
  std::atomic<bool> is_released{false};
  Recorder recorder(false);
  HostDevice device({.link_bandwidth = BytesPerSecond(1000),
                     .link_released =
                         [&] {
                           is_asked = true;
                           is_asked.notify_one();
                           return is_released.load();
                         }},
                    recorder);
  const auto d2h = device.make_stream("d2h");
  const auto compute = device.make_stream("compute");
  constexpr std::size_t kBytes = 1'000'000;
  const Buffer host = device.allocate(MemoryKind::kPinnedHost, kBytes + 1, "x");
  const Buffer there = device.allocate(MemoryKind::kDevice, kBytes + 1, "y");
  device.copy(*d2h, host.data(), there.data(), kBytes, CopyDirection::kDeviceToHost,
              Traffic::kGradients, {});
  is_asked.wait(false);  // it is under way
  device.copy(*compute, host.data() + kBytes, there.data() + kBytes, 1,
              CopyDirection::kDeviceToHost, Traffic::kControl, {});
  compute->record().wait();
  const Event gradients = d2h->record();
  EXPECT_FALSE(gradients.complete());
  EXPECT_FALSE(device.has_released_link());
  is_released = true;
  gradients.wait();
}

/// While the process was suspended for 400 ms, the link did none of the copy's 300 ms.
TEST(HostDevice, ACopyGoesOnWhereItWasWhenTheProcessWasSuspended) {
  using std::chrono::milliseconds;
  using std::chrono::steady_clock;
  zenflow::testing::become_suspendable();
  zenflow::testing::ask_for_suspension();  // streams' threads are not to take it
  ::kill(::getpid(), SIGCONT);
  Recorder recorder(false);
  HostDevice device({.link_bandwidth = BytesPerSecond(1e6)}, recorder);
  const auto stream = device.make_stream("d2h");
  constexpr std::size_t kBytes = 300'000;
  const Buffer host = device.allocate(MemoryKind::kPinnedHost, kBytes, "x");
  const Buffer there = device.allocate(MemoryKind::kDevice, kBytes, "y");
  const zenflow::testing::Waker waker(milliseconds(400));
  const auto begin = steady_clock::now();
  device.copy(*stream, host.data(), there.data(), kBytes, CopyDirection::kDeviceToHost,
              Traffic::kGradients, {});
  zenflow::testing::ask_for_suspension();
  suspend_process();
  stream->record().wait();
  EXPECT_GE(steady_clock::now() - begin, milliseconds(700));
  EXPECT_GE(recorder.find("d2h")->totals().busy, milliseconds(300));
}

TEST(HostDevice, CountsACopyOnTheComputeStreamAsWaiting) {
  Recorder recorder(false);
  HostDevice device({.link_bandwidth = BytesPerSecond(1e6)}, recorder);
  const Buffer host = device.allocate(MemoryKind::kPinnedHost, 1000, "x");
  const Buffer there = device.allocate(MemoryKind::kDevice, 1000, "y");
  const auto totals_of = [&](const char* name) {
    const auto stream = device.make_stream(name);
    device.copy(*stream, there.data(), host.data(), 1000, CopyDirection::kHostToDevice,
                Traffic::kControl, {});
    stream->record().wait();
    return recorder.find(name)->totals();
  };
  constexpr std::chrono::milliseconds kAtLeast{1};
  const auto up = static_cast<std::size_t>(WaitCause::kH2D);
  const TrackRecorder::Totals compute = totals_of("compute");
  EXPECT_EQ(compute.busy.count(), 0);
  EXPECT_GE(compute.waiting.at(up), kAtLeast);
  const TrackRecorder::Totals copies = totals_of("h2d");
  EXPECT_GE(copies.busy, kAtLeast);
  EXPECT_EQ(copies.waiting.at(up).count(), 0);
}

TEST(HostDevice, KnowsItsPeakAndWhatHeldIt) {
  Recorder recorder(false);
  HostDevice device({}, recorder);
  const Buffer a = device.allocate(MemoryKind::kDevice, 100, "a");
  { const Buffer b = device.allocate(MemoryKind::kDevice, 50, "b"); }
  const Buffer c = device.allocate(MemoryKind::kDevice, 20, "c");
  const Buffer pinned = device.allocate(MemoryKind::kPinnedHost, 1000, "p");
  const MemoryUse use = device.memory_use(MemoryKind::kDevice);
  EXPECT_EQ(use.peak, 150U);
  EXPECT_EQ(use.by_purpose, (std::map<std::string, std::uint64_t>{{"a", 100}, {"b", 50}}));
  EXPECT_EQ(device.memory_use(MemoryKind::kPinnedHost).peak, 1000U);
}

TEST(HostDevice, RefusesMoreThanItHas) {
  Recorder recorder(false);
  HostDevice device({.memory = Bytes(100)}, recorder);
  Buffer a = device.allocate(MemoryKind::kDevice, 60, "a");
  const auto [kind, message] =
      error_of([&] { (void)device.allocate(MemoryKind::kDevice, 41, "b"); });
  EXPECT_EQ(kind, ErrorKind::kInfeasible);
  EXPECT_EQ(message, "device memory: b needs 41 bytes, 40 of 100 are free; held: a: 60");
  EXPECT_TRUE(device.allocate(MemoryKind::kDevice, 40, "b"));
  EXPECT_TRUE(device.allocate(MemoryKind::kPinnedHost, 1000, "b"));  // another memory
  a = {};
  EXPECT_TRUE(device.allocate(MemoryKind::kDevice, 100, "all"));
}

TEST(HostDevice, ABufferMayOutliveIt) {
  Recorder recorder(false);
  Buffer buffer;
  {
    HostDevice device({}, recorder);
    buffer = device.allocate(MemoryKind::kDevice, 8, "late");
  }
  *buffer.as<int>() = 1;
}

TEST(HostDevice, FillsNewMemory) {
  Recorder recorder(false);
  EXPECT_EQ(HostDevice({}, recorder).allocate(MemoryKind::kDevice, 8, "z").as<std::uint64_t>()[0],
            0U);
  EXPECT_EQ(HostDevice({.fill = 0xFF}, recorder)
                .allocate(MemoryKind::kPinnedHost, 4, "z")
                .as<std::uint32_t>()[0],
            0xFFFFFFFFU);
}

TEST(HostDevice, StreamsShareALinksDirection) {
  // Twice 0.5 MB at 100 MB/s, one after the other however many streams: 10 ms at least.
  Recorder recorder(false);
  HostDevice device({.link_bandwidth = BytesPerSecond(1e8)}, recorder);
  const auto stream = device.make_stream("h2d");
  const auto other = device.make_stream("more");
  const Buffer from = device.allocate(MemoryKind::kPinnedHost, 1'000'000, "x");
  const Buffer to = device.allocate(MemoryKind::kDevice, 1'000'000, "y");
  const Clock::time_point start = Clock::now();
  std::byte* half = to.data();
  for (Stream* s : {stream.get(), other.get()}) {
    device.copy(*s, half, from.data(), 500'000, CopyDirection::kHostToDevice, Traffic::kParameters,
                {});
    half += 500'000;
  }
  stream->record().wait();
  other->record().wait();
  EXPECT_GE(Clock::now() - start, std::chrono::milliseconds(10));
}

TEST(HostDevice, KernelsWithoutIndicesTakeAllColumnsInOrder) {
  Recorder recorder(false);
  HostDevice device({}, recorder);
  const auto stream = device.make_stream("compute");
  std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::vector<std::uint32_t> columns = {2, 0};
  std::vector<float> out(6);
  std::vector<float> some(4);
  std::vector<float> back(6, 0);
  device.gather_columns(*stream, ElementType::kFloat32, {values.data(), 2, 3}, nullptr, 3,
                        out.data(), {});
  device.gather_columns(*stream, ElementType::kFloat32, {values.data(), 2, 3}, columns.data(), 2,
                        some.data(), {});
  device.scatter_columns(*stream, ElementType::kFloat32, some.data(), columns.data(), 2,
                         {back.data(), 2, 3}, {});
  stream->record().wait();
  EXPECT_EQ(out, values);
  EXPECT_EQ(some, (std::vector<float>{3, 1, 6, 4}));
  EXPECT_EQ(back, (std::vector<float>{1, 0, 3, 4, 0, 6}));
}

}  // namespace
}  // namespace zenflow::runtime
