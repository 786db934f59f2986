// Sessions against a CUPTI without a GPU: what is recorded, what is lost, and who is not disturbed.
#include "runtime/trace/cupti/cupti_session.h"

#include <chrono>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <time.h>

#include "runtime/trace/cupti/activity_timeline.h"
#include "sim/base/error.h"
#include "tests/support/cupti_records.h"
#include "tests/support/error_of.h"
#include "tests/support/fake_cupti.h"

namespace zenflow::runtime {
namespace {

using namespace zenflow::testing;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// The functions of fake_cupti.cpp, by name, as a library's would be found.
void* fake_symbol(const std::string& name) {
#define ZF_SYMBOL(function) \
  if (name == #function) return reinterpret_cast<void*>(&(function))
  ZF_SYMBOL(cuptiGetVersion);
  ZF_SYMBOL(cuptiGetResultString);
  ZF_SYMBOL(cuptiSubscribe);
  ZF_SYMBOL(cuptiUnsubscribe);
  ZF_SYMBOL(cuptiEnableCallback);
  ZF_SYMBOL(cuptiGetCallbackName);
  ZF_SYMBOL(cuptiSetThreadIdType);
  ZF_SYMBOL(cuptiActivityRegisterCallbacks);
  ZF_SYMBOL(cuptiActivityRegisterTimestampCallback);
  ZF_SYMBOL(cuptiActivitySetAttribute);
  ZF_SYMBOL(cuptiActivityEnable);
  ZF_SYMBOL(cuptiActivityDisable);
  ZF_SYMBOL(cuptiActivityGetNextRecord);
  ZF_SYMBOL(cuptiActivityGetNumDroppedRecords);
  ZF_SYMBOL(cuptiActivityFlushAll);
  ZF_SYMBOL(cuptiActivityEnableRuntimeApi);
  ZF_SYMBOL(cuptiActivityEnableDriverApi);
#undef ZF_SYMBOL
  return nullptr;
}

const CuptiApi& api() {
  static const CuptiApi instance = resolve_cupti(fake_symbol);
  return instance;
}

// The process has one pool, made by its first session: all tests agree on its size.
constexpr std::size_t kBuffers = 4;
constexpr std::size_t kBufferBytes = 4096;

struct Recording {
  ActivityLog log;  ///< activities and strings collected by the sink

  CuptiSession::Started start(CuptiOptions options = {}) {
    options.buffers = kBuffers;
    options.buffer_bytes = kBufferBytes;
    return CuptiSession::start(
        api(), std::move(options),
        [this](const ActivityLog&, std::span<const Activity> activities, const auto& strings) {
          log.activities.insert(log.activities.end(), activities.begin(), activities.end());
          log.strings = strings;
        });
  }
  void stop(CuptiSession& session) {
    ActivityLog end = session.stop();
    end.activities = std::move(log.activities);
    end.strings = std::move(log.strings);
    log = std::move(end);
  }
  [[nodiscard]] std::multiset<std::uint32_t> correlations() const {
    std::multiset<std::uint32_t> all;
    for (const Activity& activity : log.activities) all.insert(activity.correlation);
    return all;
  }
};

template <class Record>
void emit(const Record& record) {
  fake_cupti_emit(&record, sizeof(record));
}

/// A launch and its kernel, on the session's clock.
void launch(std::uint32_t correlation) {
  const std::uint64_t now = fake_cupti_now();
  emit(call_record({.correlation = correlation, .start = now, .end = fake_cupti_now()}));
  const std::uint64_t start = fake_cupti_now();
  emit(kernel_record({.correlation = correlation, .start = start, .end = fake_cupti_now()}));
}

void expect_good_manners() {
  const FakeCuptiSeen seen = fake_cupti_seen();
  EXPECT_EQ(seen.timestamp_registrations, 1) << "in this process, however many sessions there were";
  EXPECT_EQ(seen.subscribers, 0);
  EXPECT_THAT(seen.enabled, IsEmpty());
  EXPECT_EQ(seen.misaligned_buffers, 0);
  EXPECT_EQ(seen.unzeroed_buffers, 0);
  EXPECT_EQ(seen.buffers_lent_twice, 0);
  EXPECT_THAT(seen.driver_calls, IsEmpty());
}

TEST(TraceClock, IsTheMonotonicClockAndThatOfCpuSpans) {
  const auto monotonic = [] {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U +
           static_cast<std::uint64_t>(time.tv_nsec);
  };
  // Readings of one clock, one after the other, are in order; those of another clock
  // (CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME after a sleep, CLOCK_REALTIME) are not, both ways.
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before = monotonic();
    const std::uint64_t ours = trace_clock();
    const auto cpu = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now().time_since_epoch());
    const std::uint64_t after = monotonic();
    ASSERT_LE(before, ours);
    ASSERT_LE(ours, static_cast<std::uint64_t>(cpu.count()));
    ASSERT_LE(static_cast<std::uint64_t>(cpu.count()), after);
  }
}

struct Delivery {
  bool reversed;
  bool own_thread;
  std::size_t buffer_use;
  std::size_t hold_back;
};

class CuptiSessionDelivery : public ::testing::TestWithParam<Delivery> {};

TEST_P(CuptiSessionDelivery, RecordsAllOnceWhateverTheOrder) {
  const Delivery how = GetParam();
  fake_cupti_reset({.reversed = how.reversed,
                    .own_thread = how.own_thread,
                    .buffer_use = how.buffer_use,
                    .hold_back = how.hold_back});
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  // So few buffers that the parser has to keep up: a launch waits for its room.
  std::multiset<std::uint32_t> expected;
  for (std::uint32_t i = 1; i <= 6; ++i) {
    launch(i);
    expected.insert({i, i});
  }
  recording.stop(*started.session);
  EXPECT_EQ(recording.correlations(), expected);
  EXPECT_EQ(recording.log.losses, RecordLosses{});
  EXPECT_THAT(recording.log.notes, IsEmpty());
  const auto [timeline, report] = measured_timeline(recording.log);
  EXPECT_EQ(report.kernels, 6U);
  EXPECT_EQ(report.dropped(), 0U) << "the clock of records is the session's";
  EXPECT_THAT(timeline.flows, SizeIs(6));
  expect_good_manners();
}

INSTANTIATE_TEST_SUITE_P(Orders, CuptiSessionDelivery,
                         ::testing::Values(Delivery{false, true, SIZE_MAX, 0},
                                           Delivery{true, true, 512, 2},
                                           Delivery{true, false, 512, 2},
                                           Delivery{false, false, 1024, 1}));

TEST(CuptiSession, ManyThreadsLoseNothingUncounted) {
  fake_cupti_reset({.buffer_use = 1024});
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  constexpr std::uint32_t kThreads = 6;
  constexpr std::uint32_t kLaunches = 50;
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([t] {
      for (std::uint32_t i = 1; i <= kLaunches; ++i) launch(t * kLaunches + i);
    });
  }
  for (std::thread& thread : threads) thread.join();
  recording.stop(*started.session);
  EXPECT_EQ(recording.log.activities.size() + recording.log.losses.dropped_by_cupti,
            2U * kThreads * kLaunches);
  EXPECT_EQ(recording.log.losses.refused_buffers,
            static_cast<std::uint64_t>(fake_cupti_seen().buffers_refused));
  expect_good_manners();
}

TEST(CuptiSession, AnEmptyPoolRefusesAndTheLossIsCounted) {
  // Nothing is delivered before the end: four buffers of three kernels each.
  fake_cupti_reset({.buffer_use = 3 * sizeof(KernelRecord), .hold_back = 100});
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  for (std::uint32_t i = 1; i <= 20; ++i) emit(kernel_record({.correlation = i}));
  recording.stop(*started.session);
  EXPECT_THAT(recording.log.activities, SizeIs(12));
  EXPECT_EQ(recording.log.losses.dropped_by_cupti, 8U);
  EXPECT_EQ(recording.log.losses.refused_buffers, 8U);
  expect_good_manners();

  // The next session begins with a full pool and no losses.
  fake_cupti_reset();
  Recording next;
  auto again = next.start();
  ASSERT_NE(again.session, nullptr) << again.untraced;
  launch(1);
  next.stop(*again.session);
  EXPECT_THAT(next.log.activities, SizeIs(2));
  EXPECT_EQ(next.log.losses, RecordLosses{});
  expect_good_manners();
}

TEST(CuptiSession, LossesThatShowAfterTheLastBufferAreCounted) {
  fake_cupti_reset({.dropped_at_end = 5});
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  recording.stop(*started.session);
  EXPECT_EQ(recording.log.losses, (RecordLosses{.dropped_by_cupti = 5}));
}

TEST(CuptiSession, ACallbackAfterTheEndIsHarmless) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  recording.stop(*started.session);
  cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);  // by somebody else
  emit(kernel_record({.correlation = 5}));
  cuptiActivityFlushAll(0);
  cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  EXPECT_THAT(recording.log.activities, IsEmpty());
  // That buffer's records are older than the next session, whose clock finds them out.
  Recording next;
  auto again = next.start();
  ASSERT_NE(again.session, nullptr) << again.untraced;
  launch(6);
  next.stop(*again.session);
  EXPECT_EQ(measured_timeline(next.log).report.outside_session, 1U);
  EXPECT_EQ(measured_timeline(next.log).report.kernels, 1U);
}

TEST(CuptiSession, LowOverheadIsKernelsCopiesAndMemsets) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start({.low_overhead = true});
  ASSERT_NE(started.session, nullptr) << started.untraced;
  EXPECT_THAT(fake_cupti_seen().enabled,
              ElementsAre(CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET,
                          CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY2));
  launch(1);
  recording.stop(*started.session);
  ASSERT_THAT(recording.log.activities, SizeIs(1));
  EXPECT_EQ(recording.log.activities[0].kind, ActivityKind::kKernel);
  EXPECT_TRUE(recording.log.low_overhead);
  expect_good_manners();
}

TEST(CuptiSession, KernelsAreNotSerialisedAndQuietCallsLeftOut) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  const FakeCuptiSeen seen = fake_cupti_seen();
  EXPECT_THAT(seen.enabled, Not(Contains(static_cast<int>(CUPTI_ACTIVITY_KIND_KERNEL))));
  EXPECT_THAT(seen.quiet_runtime_calls,
              Contains(static_cast<unsigned>(CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020)));
  EXPECT_THAT(seen.driver_calls,
              Contains(static_cast<unsigned>(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel)));
  recording.stop(*started.session);
}

TEST(CuptiSession, HeldByAnotherToolItSaysSoAndTouchesNothing) {
  fake_cupti_reset();
  fake_cupti_hold();
  Recording recording;
  const auto started = recording.start();
  EXPECT_EQ(started.session, nullptr);
  EXPECT_THAT(started.untraced, HasSubstr("(39)"));
  EXPECT_THAT(started.untraced, HasSubstr("another tool holds CUPTI"));
  EXPECT_THAT(fake_cupti_seen().enabled, IsEmpty());
  EXPECT_EQ(fake_cupti_seen().subscribers, 1) << "the other tool's";
  fake_cupti_reset();
  Recording later;
  const auto again = later.start();
  EXPECT_NE(again.session, nullptr) << "once it is free: " << again.untraced;
}

TEST(CuptiSession, WithoutADriverItSaysSo) {
  fake_cupti_reset({.results = {{"cuptiSubscribe", CUPTI_ERROR_UNKNOWN}}});
  Recording recording;
  EXPECT_THAT(recording.start().untraced,
              HasSubstr("CUPTI_ERROR_UNKNOWN (999); is there a driver"));
}

TEST(CuptiSession, AFailureHalfWayTakesBackWhatWasDone) {
  fake_cupti_reset(
      {.enable_results = {{CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES}}});
  Recording recording;
  EXPECT_THAT(recording.start().untraced, HasSubstr("cannot record copies"));
  EXPECT_THAT(fake_cupti_seen().enabled, IsEmpty());
  EXPECT_EQ(fake_cupti_seen().subscribers, 0);
}

TEST(CuptiSession, AKindThatIsNotEssentialIsMissedAndNoted) {
  fake_cupti_reset({.enable_results = {{CUPTI_ACTIVITY_KIND_MARKER, CUPTI_ERROR_INVALID_KIND}}});
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  recording.stop(*started.session);
  EXPECT_THAT(recording.log.notes, ElementsAre(HasSubstr("cannot record NVTX ranges")));
  expect_good_manners();
}

TEST(CuptiSession, OneAtATime) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr);
  Recording second;
  EXPECT_THAT(error_of([&] { static_cast<void>(second.start()); }).second, HasSubstr("is running"));
  started.session.reset();  // the destructor stops it
  expect_good_manners();
  EXPECT_NE(second.start().session, nullptr);
}

TEST(CuptiSession, ASinkThatFailsIsHeardOfAtTheEndAndBuffersGoOn) {
  fake_cupti_reset({.buffer_use = 512});
  int calls = 0;
  auto started =
      CuptiSession::start(api(), {.buffers = kBuffers, .buffer_bytes = kBufferBytes},
                          [&calls](const ActivityLog&, std::span<const Activity>, const auto&) {
                            ++calls;
                            throw std::runtime_error("disk full");
                          });
  ASSERT_NE(started.session, nullptr) << started.untraced;
  for (std::uint32_t i = 1; i <= 6; ++i) launch(i);
  EXPECT_THROW(static_cast<void>(started.session->stop()), std::runtime_error);
  EXPECT_EQ(calls, 1);
  expect_good_manners();
}

TEST(CuptiSession, WhatADeviceResetWouldTakeIsDeliveredBefore) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  launch(1);
  fake_cupti_device_reset();
  // From here on nothing is to be had of CUPTI.
  fake_cupti_reset({.results = {{"cuptiActivityFlushAll", CUPTI_ERROR_UNKNOWN}}});
  recording.stop(*started.session);
  EXPECT_THAT(recording.log.activities, SizeIs(2));
  EXPECT_THAT(recording.log.notes, Contains(HasSubstr("flush")));
}

TEST(CuptiSession, IncompleteRecordsAreFetchedAtTheEndAndCounted) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start();
  ASSERT_NE(started.session, nullptr) << started.untraced;
  launch(1);
  emit(kernel_record({.correlation = 2, .start = 0, .end = 0}));  // still running
  recording.stop(*started.session);
  EXPECT_THAT(recording.log.activities, SizeIs(3));
  const TimelineReport report = measured_timeline(recording.log).report;
  EXPECT_EQ(report.kernels, 1U);
  EXPECT_EQ(report.incomplete, 1U);
  expect_good_manners();
}

TEST(CuptiSession, SynchronisesBeforeTheLastFlush) {
  fake_cupti_reset();
  Recording recording;
  auto started = recording.start({.synchronize = [] { launch(7); }});  // the GPU finishes its work
  ASSERT_NE(started.session, nullptr) << started.untraced;
  recording.stop(*started.session);
  EXPECT_THAT(recording.log.activities, SizeIs(2));
}

TEST(CuptiApi, AMissingFunctionIsNamed) {
  const auto [kind, message] = error_of([] {
    static_cast<void>(resolve_cupti([](const std::string& name) {
      return name == "cuptiActivityFlushAll" ? nullptr : fake_symbol(name);
    }));
  });
  EXPECT_EQ(kind, ErrorKind::kDevice);
  EXPECT_THAT(message, HasSubstr("cuptiActivityFlushAll"));
}

TEST(CuptiApi, AnOlderOneLacksTheChoiceOfCalls) {
  const CuptiApi old = resolve_cupti([](const std::string& name) {
    return name.starts_with("cuptiActivityEnableRuntime") ? nullptr : fake_symbol(name);
  });
  EXPECT_EQ(old.enable_runtime_call, nullptr);
}

}  // namespace
}  // namespace zenflow::runtime
