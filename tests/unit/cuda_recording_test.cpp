/// A part of a run recorded by the CUDA device's own events, on the emulator's asynchronous
/// streams.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/cuda_stream.h"
#include "tests/support/offload_case.h"

namespace zenflow::runtime {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// A span by its times, whatever they count from.
struct Seen {
  std::string name;
  Clock::time_point start;
  Clock::time_point end;
  std::int32_t step;
  double bytes;
  std::string shown;  ///< as a viewer names it
};

class CudaRecording : public ::testing::Test {
 protected:
  void start(std::vector<std::string> lazy) {
    device = make_test_device({.lazy_streams = std::move(lazy)}, recorder);
    compute = device->make_stream("compute");
    down = device->make_stream("d2h");
    there = device->allocate(MemoryKind::kDevice, 64, "there");
    back = device->allocate(MemoryKind::kPinnedHost, 64, "back");
  }
  /// After the host has waited for something, as it has in every run before the first step.
  void record(std::vector<std::string> lazy = {}) {
    start(std::move(lazy));
    compute->record().wait();
    recorder.keep_spans(true);
  }
  void copy_down(std::int64_t step) {
    device->copy(*down, back.data(), there.data(), 40, CopyDirection::kDeviceToHost,
                 Traffic::kGradients, {Operation::kGradientsDown, step});
  }
  /// What a fit would get of a track now.
  [[nodiscard]] std::vector<Seen> seen(const std::string& track, bool with_waits = false) const {
    const sim::Timeline timeline =
        recorder.recent(0, {0, recorder.origin(), Clock::now()}, "run", "device");
    std::vector<Seen> found;
    for (const sim::TimelineSpan& span : timeline.spans) {
      if (timeline.tracks[span.track].name != track) continue;
      if (span.kind == sim::SpanKind::kSync && !with_waits) continue;
      const auto at = [&](Picoseconds time) {
        return recorder.origin() + std::chrono::nanoseconds(time.count / 1000);
      };
      found.push_back({std::string(operation_name(timeline, span)), at(span.start), at(span.end),
                       timeline.extra_of(span).step, timeline.extra_of(span).bytes,
                       timeline.name_of(span)});
    }
    return found;
  }
  [[nodiscard]] std::vector<std::string> names(const std::string& track) const {
    std::vector<std::string> all;
    for (const Seen& one : seen(track)) all.push_back(one.name);
    return all;
  }

  Recorder recorder{false};
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> compute;
  std::unique_ptr<Stream> down;
  Buffer there;
  Buffer back;
};

TEST_F(CudaRecording, HasOperationsAsTheHostDeviceNamesThem) {
  record();
  run_on(*compute, Operation::kForward, [] {});
  run_on(*compute, Operation::kBackward, [] {});
  down->wait(compute->record(), WaitCause::kCompute);
  copy_down(3);
  down->record().wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("forward", "backward"));
  const std::vector<Seen> copies = seen("d2h");
  ASSERT_EQ(copies.size(), 1U);
  EXPECT_EQ(copies[0].name, "gradients down");
  EXPECT_EQ(copies[0].shown, "Memcpy DtoH (Device -> Pinned)");
  EXPECT_EQ(copies[0].step, 3);
  EXPECT_EQ(copies[0].bytes, 40);
  EXPECT_EQ(seen("compute")[0].step, -1);
}

/// By what the work itself and the host read from the clock: exactly, whatever the machine does.
TEST_F(CudaRecording, PlacesThemOnTheHostsClock) {
  record();
  for (int i = 0; i < 5; ++i) {
    std::atomic<Clock::time_point> at_work{};
    const Clock::time_point before = Clock::now();
    run_on(*compute, Operation::kForward, [&] {
      at_work = Clock::now();
      std::this_thread::sleep_for(2ms);
    });
    compute->record().wait();
    const Clock::time_point after = Clock::now();
    device->collect_times();
    const Seen span = seen("compute").back();
    EXPECT_GE(span.start, before) << "nothing starts before it is launched";
    EXPECT_LE(span.start, at_work.load());
    EXPECT_GE(span.end - span.start, 2ms);
    EXPECT_LE(span.end, after);
  }
}

TEST_F(CudaRecording, StreamsShareOneClock) {
  record();
  std::atomic<bool> is_waited_for = false;
  run_on(*compute, Operation::kBackward, [&] {
    is_waited_for.wait(false);
    std::this_thread::sleep_for(1ms);
  });
  down->wait(compute->record(), WaitCause::kCompute);
  copy_down(0);
  is_waited_for = true;
  is_waited_for.notify_one();
  down->record().wait();
  device->collect_times();
  // One zero for both: the copy cannot begin before what it waits for has ended.
  EXPECT_GE(seen("d2h").back().start, seen("compute").back().start + 1ms);
  EXPECT_LE(seen("compute").back().end, Clock::now());
  EXPECT_EQ(seen("d2h", true).front().shown, "Stream Wait Event");
}

TEST_F(CudaRecording, HasWhatHasPassedInOrderAndWaitsForNothing) {
  record({"compute"});
  run_on(*compute, Operation::kForward, [] {});
  const Event first = compute->record();
  run_on(*compute, Operation::kBackward, [] {});
  const Event second = compute->record();
  const emulator::Counts before = emulator::counts();
  device->collect_times();
  EXPECT_THAT(names("compute"), IsEmpty()) << "nobody has waited";
  EXPECT_EQ(emulator::counts().event_waits, before.event_waits);
  EXPECT_EQ(emulator::counts().synchronizations, before.synchronizations);
  first.wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("forward"));
  second.wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("forward", "backward"));
}

TEST_F(CudaRecording, IsWaitedForAtItsEnd) {
  record({"compute", "d2h"});
  run_on(*compute, Operation::kForward, [] {});
  copy_down(0);
  const emulator::Counts before = emulator::counts();
  device->collect_all_times();
  EXPECT_THAT(names("compute"), ElementsAre("forward"));
  EXPECT_THAT(names("d2h"), ElementsAre("gradients down"));
  EXPECT_EQ(emulator::counts().event_waits - before.event_waits, 2U) << "once for each stream";
  EXPECT_EQ(emulator::counts().synchronizations, before.synchronizations);
}

TEST_F(CudaRecording, AnOperationWithAnotherOneInsideIsOneSpan) {
  record();
  {
    const OperationScope outer = launching(*compute, {Operation::kForward});
    run_on(*compute, Operation::kBatch, [] { std::this_thread::sleep_for(1ms); });
    static_cast<void>(compute->record());
    // Work of its own begins here only.
    kernels::cuda_check(emulator::enqueue(handle_of(*compute), [] {}), "kernel launch");
    run_on(*compute, Operation::kLoss, [] { std::this_thread::sleep_for(1ms); });
    kernels::cuda_check(emulator::enqueue(handle_of(*compute), [] {}), "kernel launch");
  }
  run_on(*compute, Operation::kBackward, [] {});
  compute->record().wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("batch", "forward", "loss", "backward"));
  const std::vector<Seen> spans = seen("compute");
  EXPECT_GE(spans[1].start, spans[0].end);
  EXPECT_LE(spans[1].start, spans[2].start);
  EXPECT_GE(spans[1].end, spans[2].end);
  EXPECT_LE(spans[1].end, spans[3].start);
}

/// Part of it is still to come: it and all behind it stay back, so that order holds.
TEST_F(CudaRecording, AnOperationThatIsUnderWayIsNotHandedOver) {
  record({"compute"});
  {
    const OperationScope outer = launching(*compute, {Operation::kForward});
    kernels::cuda_check(emulator::enqueue(handle_of(*compute), [] {}), "kernel launch");
    run_on(*compute, Operation::kLoss, [] {});
    const Event loss = compute->record();
    kernels::cuda_check(emulator::enqueue(handle_of(*compute), [] {}), "kernel launch");
    loss.wait();
    device->collect_times();
    EXPECT_THAT(names("compute"), IsEmpty());
  }
  compute->record().wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("forward", "loss"));
}

TEST_F(CudaRecording, GapsBetweenOperationsBelongToNone) {
  record();
  run_on(*compute, Operation::kUpdateSelected, [] {});
  std::this_thread::sleep_for(5ms);  // the training thread does something else
  const Clock::time_point launched = Clock::now();
  run_on(*compute, Operation::kForward, [] {});
  compute->record().wait();
  device->collect_times();
  const std::vector<Seen> spans = seen("compute");
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_GE(spans[1].start, launched);
  // Two events for it then. Where the GPU is behind, one is enough.
  record({"compute"});
  const std::uint64_t before = emulator::counts().events;
  for (int i = 0; i < 10; ++i) run_on(*compute, Operation::kGatherSelected, [] {});
  EXPECT_EQ(emulator::counts().events - before, 11U);
}

TEST_F(CudaRecording, WorkOfNoOperationIsNoSpanNorPartOfOne) {
  record({"compute"});
  run_on(*compute, Operation::kForward, [] {});
  kernels::cuda_check(
      emulator::enqueue(handle_of(*compute), [] { std::this_thread::sleep_for(2ms); }),
      "kernel launch");
  run_on(*compute, Operation::kBackward, [] {});
  compute->record().wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("forward", "backward"));
  EXPECT_GE(seen("compute")[1].start - seen("compute")[0].end, 2ms);
}

TEST_F(CudaRecording, BeginsWhenTheHostHasSeenAnEvent) {
  start({});
  recorder.keep_spans(true);
  run_on(*compute, Operation::kForward, [] {});
  compute->record().wait();
  run_on(*compute, Operation::kBackward, [] {});
  compute->record().wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("backward"));
}

TEST_F(CudaRecording, OneThatIsOverLeavesNothingInTheNext) {
  record({"compute", "d2h"});
  run_on(*compute, Operation::kForward, [] {});  // runs when the next one has begun
  const Event first = compute->record();
  copy_down(0);
  recorder.keep_spans(false);
  run_on(*compute, Operation::kLoss, [] {});
  recorder.keep_spans(true);
  run_on(*compute, Operation::kBackward, [] {});
  first.wait();
  compute->record().wait();
  device->collect_times();
  EXPECT_THAT(names("compute"), ElementsAre("backward"));
  down->record().wait();
  device->collect_times();
  EXPECT_THAT(names("d2h"), IsEmpty());
  recorder.keep_spans(false);
  device->collect_times();
  EXPECT_THAT(names("compute"), IsEmpty());
}

TEST(CudaTotals, AreThoseOfStreamsWhetherSpansAreKeptOrNot) {
  for (const bool records : {false, true}) {
    Recorder recorder(false);
    const auto device = make_test_device({}, recorder);
    const auto compute = device->make_stream("compute");
    compute->record().wait();
    recorder.keep_spans(records);
    const auto busy = [&] { return recorder.find("compute")->totals().busy; };
    std::atomic<bool> begun = false;
    run_on(*compute, Operation::kForward, [&] { begun = true; });
    while (!begun) std::this_thread::yield();
    std::this_thread::sleep_for(4ms);  // a gap between two operations counts as busy
    run_on(*compute, Operation::kBackward, [] { std::this_thread::sleep_for(2ms); });
    compute->record().wait();
    device->collect_times();
    EXPECT_GE(busy(), 6ms);
  }
}

/// A trace of a whole run is CUPTI's, under the same names.
TEST(CudaTrace, HasNoSpansOfEvents) {
  Recorder recorder(true);
  const auto device = make_test_device({}, recorder);
  const auto compute = device->make_stream("compute");
  compute->record().wait();
  run_on(*compute, Operation::kForward, [] {});
  recorder.keep_spans(true);
  run_on(*compute, Operation::kBackward, [] {});
  compute->record().wait();
  device->collect_times();
  EXPECT_EQ(recorder.span_count(), 0U);
  EXPECT_TRUE(recorder.timeline("run", "device").tracks.empty());
  const sim::Timeline recent =
      recorder.recent(0, {0, recorder.origin(), Clock::now()}, "run", "device");
  ASSERT_EQ(recent.spans.size(), 1U);
  EXPECT_EQ(recent.name_of(recent.spans[0]), "backward");
}

/// Recording costs events. It allocates nothing, and neither the GPU nor the host waits once more
/// before a recording's end.
TEST(CudaRecordingSteps, WaitNoMoreThanOthers) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    Case c = random_case(95'000 + seed);
    c.settings.full_warm_up_rounds = 0;
    c.jitter = {};
    c.lazy = {"compute", "d2h", "h2d"};
    SCOPED_TRACE(describe(c));
    emulator::Counts spent[2];
    for (const bool records : {false, true}) {
      Trainer trainer(c);
      trainer.engine.load_weights(trainer.model.initial_weights());
      const std::int64_t s = c.settings.update_interval;
      for (std::int64_t t = 0; t < 3 * s; ++t) trainer.step();
      trainer.engine.settle();  // lanes have nothing left to do: counts are those of steps
      trainer.recorder.keep_spans(records);
      const emulator::Counts before = emulator::counts();
      for (std::int64_t t = 0; t < 4 * s; ++t) {
        trainer.step();
        if ((t + 1) % s == 0) trainer.device.collect_times();
      }
      trainer.engine.settle();
      const emulator::Counts after = emulator::counts();
      spent[records ? 1 : 0] = {
          .operations = after.operations - before.operations,
          .waits = after.waits - before.waits,
          .host_functions = after.host_functions - before.host_functions,
          .synchronizations = after.synchronizations - before.synchronizations,
          .event_waits = after.event_waits - before.event_waits,
          .allocations = after.allocations - before.allocations,
          .events = after.events - before.events};
      const Clock::time_point now = Clock::now();
      EXPECT_EQ(trainer.recorder.recent(0, {0, now, now}, "run", "device").spans.empty(), !records);
    }
    EXPECT_EQ(spent[1].operations, spent[0].operations);
    EXPECT_EQ(spent[1].event_waits, spent[0].event_waits);
    EXPECT_EQ(spent[1].synchronizations, 0U);
    EXPECT_EQ(spent[1].allocations, 0U);
    EXPECT_GT(spent[1].events, spent[0].events);
    EXPECT_LE(spent[1].events, spent[0].events + 2 * spent[0].operations);
  }
}

}  // namespace
}  // namespace zenflow::runtime
