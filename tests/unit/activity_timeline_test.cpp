// That a recording becomes the timeline of what happened, in whatever order and state it arrived.
#include "runtime/trace/cupti/activity_timeline.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/trace/recorder.h"
#include "sim/base/error.h"
#include "sim/trace/chrome_trace.h"
#include "tests/support/mix.h"

namespace zenflow::runtime {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kBegin = 1'000'000;

/// A session from 1,000,000 to 2,000,000 ns; times of its activities count from its start.
class Session {
 public:
  Session() {
    log.process = 4711;
    log.program = "python train.py";
    log.session_start = kBegin;
    log.session_end = 2 * kBegin;
    log.complete = true;
  }

  Activity& add(ActivityKind kind, std::uint32_t correlation, std::uint64_t start,
                std::uint64_t end, const std::string& name = "") {
    Activity& activity = log.activities.emplace_back();
    activity.kind = kind;
    activity.correlation = correlation;
    activity.start = kBegin + start;
    activity.end = kBegin + end;
    activity.context = 1;
    if (!name.empty()) {
      log.strings.push_back(name);
      activity.name = static_cast<StringId>(log.strings.size() - 1);
    }
    return activity;
  }
  Activity& call(std::uint32_t correlation, std::uint64_t start, std::uint64_t end) {
    Activity& made = add(ActivityKind::kRuntimeCall, correlation, start, end, "cudaLaunchKernel");
    made.process = 4711;
    made.thread = 10;
    made.context = 0;
    return made;
  }
  Activity& kernel(std::uint32_t correlation, std::uint64_t start, std::uint64_t end,
                   std::uint32_t stream = 7) {
    Activity& made = add(ActivityKind::kKernel, correlation, start, end, "_Z4stepPf");
    made.stream = stream;
    return made;
  }
  void range(std::uint64_t id, std::uint64_t start, std::uint64_t end, const std::string& name) {
    add(ActivityKind::kRangeStart, 0, start, 0, name).id = id;
    log.activities.back().thread = 10;
    log.activities.back().end = 0;
    add(ActivityKind::kRangeEnd, 0, end, 0).id = id;
    log.activities.back().end = 0;
  }

  [[nodiscard]] MeasuredTimeline timeline() const { return measured_timeline(log); }

  ActivityLog log;
};

const sim::TimelineSpan* find(const sim::Timeline& timeline, const std::string& name) {
  for (const auto& span : timeline.spans) {
    if (timeline.name_of(span) == name) return &span;
  }
  return nullptr;
}

std::string track_of(const sim::Timeline& timeline, const std::string& name) {
  const sim::TimelineSpan* span = find(timeline, name);
  return span == nullptr ? "" : timeline.tracks[span->track].name;
}

json field(const sim::Timeline& timeline, const std::string& span_name, const std::string& name) {
  const sim::TimelineSpan* span = find(timeline, span_name);
  const sim::SpanDetail* detail = span == nullptr ? nullptr : timeline.detail_of(*span);
  if (detail == nullptr) return nullptr;
  for (const auto& [key, value] : detail->fields) {
    if (key == name) return json::parse(value);
  }
  return nullptr;
}

//   thread 10  | launch |
//   stream 7        | step     |
TEST(ActivityTimeline, TheOutermostOfTwoCallsLaunched) {
  // The runtime's call makes the driver's, and CUPTI gives both one number, in either order.
  for (const bool inner_first : {false, true}) {
    Session session;
    const auto inner = [&session] {
      Activity& call = session.add(ActivityKind::kDriverCall, 1, 120, 180, "cuLaunchKernelEx");
      call.process = 4711;
      call.thread = 10;
    };
    if (inner_first) inner();
    session.call(1, 100, 200);
    if (!inner_first) inner();
    session.kernel(1, 110, 300);  // after the outer call's begin: nothing is wrong with it
    const MeasuredTimeline measured = session.timeline();
    EXPECT_EQ(measured.report.before_launch, 0U);
    ASSERT_THAT(measured.timeline.flows, SizeIs(1));
    const sim::TimelineFlow& flow = measured.timeline.flows[0];
    EXPECT_EQ(measured.timeline.name_of(measured.timeline.spans[flow.from]), "cudaLaunchKernel");
  }
}

TEST(ActivityTimeline, ALaunchIsJoinedWithItsKernel) {
  Session session;
  session.call(1, 100, 200);
  Activity& kernel = session.kernel(1, 150, 400);
  kernel.grid = {4, 3, 2};
  kernel.block = {128, 1, 1};
  const auto [timeline, report] = session.timeline();
  ASSERT_THAT(timeline.spans, SizeIs(2));
  const sim::TimelineSpan* step = find(timeline, "step(float*)");
  ASSERT_NE(step, nullptr);
  EXPECT_EQ(step->start, Picoseconds{150'000});
  EXPECT_EQ(step->end, Picoseconds{400'000});
  EXPECT_EQ(step->correlation, 1);
  EXPECT_EQ(track_of(timeline, "step(float*)"), "stream 7");
  EXPECT_EQ(track_of(timeline, "cudaLaunchKernel"), "thread 10");
  EXPECT_EQ(field(timeline, "step(float*)", "grid"), json({4, 3, 2}));
  ASSERT_THAT(timeline.flows, SizeIs(1));
  EXPECT_EQ(timeline.name_of(timeline.spans[timeline.flows[0].from]), "cudaLaunchKernel");
  EXPECT_EQ(timeline.name_of(timeline.spans[timeline.flows[0].to]), "step(float*)");
  EXPECT_EQ(timeline.flows[0].kind, sim::FlowKind::kLaunch);
  EXPECT_EQ(report.kernels, 1U);
  EXPECT_EQ(report.calls, 1U);
  EXPECT_EQ(report.dropped(), 0U);
}

TEST(ActivityTimeline, AGraphLaunchIsJoinedWithAllItsKernels) {
  Session session;
  session.call(1, 100, 200);
  for (int i = 0; i < 3; ++i)
    session.kernel(1, 200 + 10U * static_cast<unsigned>(i), 300).graph = 5;
  EXPECT_THAT(session.timeline().timeline.flows, SizeIs(3));
}

TEST(ActivityTimeline, CopiesAreNamedAsCuptiDoes) {
  Session session;
  Activity& copy = session.add(ActivityKind::kCopy, 1, 10, 20);
  copy.copy_kind = 1;
  copy.source_memory = 2;
  copy.destination_memory = 3;
  copy.bytes = 4096;
  Activity& back = session.add(ActivityKind::kCopy, 2, 30, 40);
  back.copy_kind = 2;
  back.source_memory = 3;
  back.destination_memory = 1;
  session.add(ActivityKind::kMemset, 3, 50, 60).destination_memory = 3;
  Activity& strange = session.add(ActivityKind::kCopy, 4, 70, 80);
  strange.copy_kind = 200;
  strange.source_memory = 201;
  const auto [timeline, report] = session.timeline();
  const auto* pinned = find(timeline, "Memcpy HtoD (Pinned -> Device)");
  ASSERT_NE(pinned, nullptr);
  EXPECT_EQ(timeline.extra_of(*pinned).bytes, 4096);
  EXPECT_EQ(timeline.tracks[pinned->track].kind, sim::TrackKind::kGpuCopies);
  EXPECT_NE(find(timeline, "Memcpy DtoH (Device -> Pageable)"), nullptr);
  EXPECT_NE(find(timeline, "Memset (Device)"), nullptr);
  EXPECT_NE(find(timeline, "Memcpy Unknown (Unknown -> Unknown)"), nullptr);
  EXPECT_EQ(report.copies, 3U);
  EXPECT_EQ(report.memsets, 1U);
}

TEST(ActivityTimeline, IncompleteRecordsAreDroppedAndCounted) {
  Session session;
  session.kernel(1, 10, 20).end = 0;
  session.kernel(2, 10, 20).start = 0;
  session.kernel(3, 20, 10);  // ends before it starts
  session.call(4, 10, 20).end = 0;
  session.kernel(5, 30, 30);  // no time at all is a time
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.incomplete, 4U);
  ASSERT_THAT(timeline.spans, SizeIs(1));
  EXPECT_EQ(timeline.spans[0].correlation, 5);
}

TEST(ActivityTimeline, ARecordThatBeginsBeforeItsLaunchIsDroppedAndCounted) {
  Session session;
  session.call(1, 100, 200);
  session.kernel(1, 99, 300);
  session.call(2, 300, 400);
  session.kernel(2, 300, 500);  // at once is not before
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.before_launch, 1U);
  EXPECT_EQ(report.kernels, 1U);
  ASSERT_THAT(timeline.flows, SizeIs(1));
  EXPECT_EQ(timeline.spans[timeline.flows[0].to].correlation, 2);
}

TEST(ActivityTimeline, AnotherClockIsDroppedAndCounted) {
  Session session;
  constexpr std::uint64_t kUnixTime = 1'700'000'000'000'000'000;  // CUPTI's default clock
  Activity& late = session.kernel(1, 0, 0);
  late.start = kUnixTime;
  late.end = kUnixTime + 5;
  Activity& early = session.kernel(2, 0, 0);
  early.start = kBegin - 1;
  early.end = kBegin + 5;
  Activity& call = session.call(3, 0, 0);
  call.start = kUnixTime;
  call.end = kUnixTime + 1;
  session.kernel(3, 10, 20);     // its launch is not known then, and says nothing against it
  session.kernel(4, 0, kBegin);  // exactly the session
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.outside_session, 3U);
  EXPECT_EQ(report.kernels, 2U);
  EXPECT_EQ(report.before_launch, 0U);
  EXPECT_THAT(timeline.flows, IsEmpty());
}

TEST(ActivityTimeline, AWaitSaysWhichStreamRecordedTheEventLast) {
  Session session;
  session.kernel(1, 10, 20);  // context 1 is on device 0
  const auto record = [&](std::uint32_t correlation, std::uint32_t stream, std::uint64_t id) {
    Activity& made = session.add(ActivityKind::kEventRecord, correlation, 0, 0);
    made.start = made.end = 0;
    made.stream = stream;
    made.event = 3;
    made.id = id;
  };
  const auto wait = [&](std::uint32_t correlation, std::uint64_t start, std::uint64_t id) {
    Activity& made = session.add(ActivityKind::kSynchronization, correlation, start, start + 1);
    made.value = 2;
    made.stream = 7;
    made.event = 3;
    made.id = id;
  };
  wait(15, 100, 0);
  record(20, 14, 0);
  record(10, 13, 0);
  wait(25, 200, 0);
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.synchronizations, 2U);
  std::vector<int> streams;
  for (const auto& span : timeline.spans) {
    if (timeline.name_of(span) != "Stream Wait Event") continue;
    EXPECT_EQ(timeline.tracks[span.track].name, "stream 7 synchronization");
    for (const auto& [key, value] : timeline.detail_of(span)->fields) {
      if (key == "wait_on_stream") streams.push_back(std::stoi(value));
    }
  }
  EXPECT_THAT(streams, ElementsAre(13, 14));

  // From CUDA 12.8 on the recording has a number, and order is not asked.
  session.log.activities.clear();
  session.kernel(1, 10, 20);
  record(10, 13, 501);
  record(20, 14, 502);
  wait(25, 200, 501);
  EXPECT_EQ(field(session.timeline().timeline, "Stream Wait Event", "wait_on_stream"), 13);
}

TEST(ActivityTimeline, SynchronisationsOfTheWholeContextHaveNoStream) {
  Session session;
  session.kernel(1, 10, 20);
  Activity& wait = session.add(ActivityKind::kSynchronization, 2, 30, 40);
  wait.value = 4;
  wait.stream = kNoNumber;
  const auto timeline = session.timeline().timeline;
  EXPECT_EQ(track_of(timeline, "Context Sync"), "synchronization");
  EXPECT_EQ(field(timeline, "Context Sync", "stream"), -1);
}

TEST(ActivityTimeline, RangesNestOnTheirThreadOrMoveBesideIt) {
  Session session;
  session.range(1, 100, 500, "step");
  session.range(2, 100, 300, "forward");
  session.call(9, 150, 160);
  session.range(3, 400, 600, "prefetch");  // overlaps "step", and is not within it
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.ranges, 3U);
  EXPECT_EQ(track_of(timeline, "step"), "thread 10");
  EXPECT_EQ(track_of(timeline, "forward"), "thread 10");
  EXPECT_EQ(track_of(timeline, "cudaLaunchKernel"), "thread 10");
  EXPECT_EQ(track_of(timeline, "prefetch"), "thread 10 (overlapping 1)");
}

TEST(ActivityTimeline, RangesThatLackAnEndAreCounted) {
  Session session;
  session.add(ActivityKind::kRangeStart, 0, 100, 0, "open").id = 1;
  session.add(ActivityKind::kRangeEnd, 0, 200, 0).id = 2;
  session.range(3, 400, 300, "backwards");
  Activity& mark = session.add(ActivityKind::kInstant, 0, 50, 50, "mark");
  mark.end = 0;
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.unmatched_ranges, 3U);
  ASSERT_THAT(timeline.spans, SizeIs(1));
  EXPECT_EQ(timeline.name_of(timeline.spans[0]), "mark");
}

TEST(ActivityTimeline, OverheadIsSummedAndShown) {
  Session session;
  session.add(ActivityKind::kOverhead, 0, 100, 150).value = 1U << 16U;
  session.add(ActivityKind::kOverhead, 0, 300, 325).value = 2U << 16U;
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.overhead, Picoseconds{75'000});
  EXPECT_EQ(report.duration, Picoseconds{1'000'000'000});
  EXPECT_NE(find(timeline, "Activity Buffer Flush"), nullptr);
  EXPECT_NE(find(timeline, "Instrumentation"), nullptr);
}

/// Everything at once, for the tests that follow.
Session busy_session() {
  Session session;
  for (std::uint32_t i = 1; i <= 40; ++i) {
    session.call(i, 100 * i, 100 * i + 50);
    session.kernel(i, 100 * i + (i % 5 == 0 ? 0 : 30), 100 * i + 90, 7 + i % 3);
  }
  session.kernel(41, 10, 20).end = 0;
  session.kernel(3, 1, 2);
  session.range(1, 100, 2000, "step");
  session.range(2, 200, 900, "forward");
  session.range(3, 800, 2200, "prefetch");
  Activity& event = session.add(ActivityKind::kEventRecord, 5, 0, 0);
  event.start = event.end = 0;
  event.event = 2;
  event.stream = 8;
  Activity& wait = session.add(ActivityKind::kSynchronization, 12, 1300, 1310);
  wait.value = 2;
  wait.event = 2;
  session.add(ActivityKind::kOverhead, 0, 100, 150).value = 1U << 16U;
  return session;
}

TEST(ActivityTimeline, TheOrderOfRecordsDoesNotMatter) {
  Session session = busy_session();
  const std::string expected = sim::chrome_trace(session.timeline().timeline);
  auto& all = session.log.activities;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (std::size_t i = all.size() - 1; i > 0; --i) {
      std::swap(all[i], all[testing::mix(seed * 1000 + i) % (i + 1)]);
    }
    EXPECT_EQ(sim::chrome_trace(session.timeline().timeline), expected) << "seed " << seed;
  }
}

TEST(ActivityTimeline, EveryActivityIsInTheTimelineOrCounted) {
  const Session session = busy_session();
  const auto [timeline, report] = session.timeline();
  EXPECT_EQ(report.incomplete, 1U);
  EXPECT_EQ(report.before_launch, 1U);
  // Two records make a range.
  EXPECT_EQ(timeline.spans.size() + report.dropped() + report.ranges,
            session.log.activities.size());
}

TEST(ActivityTimeline, ChromeTraceHasThePytorchProfilersFields) {
  Session session = busy_session();
  session.log.losses.dropped_by_cupti = 17;
  session.add(ActivityKind::kInstant, 0, 50, 0, "bad \xff name");
  const json trace = json::parse(sim::chrome_trace(session.timeline().timeline));
  EXPECT_EQ(trace["baseTimeNanoseconds"], kBegin);
  EXPECT_EQ(trace["zenflow_recording"]["dropped_by_cupti"], 17);
  EXPECT_EQ(trace["zenflow_recording"]["incomplete"], 1);
  int kernels = 0;
  int launches = 0;
  for (const json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "ac2g" && event["ph"] == "s") ++launches;
    if (event["ph"] != "X" || event["cat"] != "kernel") continue;
    ++kernels;
    EXPECT_EQ(event["pid"], 0);
    EXPECT_EQ(event["tid"], event["args"]["stream"]);
    EXPECT_TRUE(event["args"].contains("correlation"));
    EXPECT_TRUE(event["args"].contains("grid"));
    EXPECT_EQ(event["args"]["context"], 1);
    EXPECT_FALSE(event["args"].contains("step")) << "nobody said which";
  }
  EXPECT_EQ(kernels, 40);
  EXPECT_EQ(launches, 40);
  const auto is_call = [](const json& event) { return event.value("cat", "") == "cuda_runtime"; };
  const auto call = std::find_if(trace["traceEvents"].begin(), trace["traceEvents"].end(), is_call);
  ASSERT_NE(call, trace["traceEvents"].end());
  EXPECT_EQ((*call)["pid"], 4711);
  EXPECT_EQ((*call)["tid"], 10);
}

TEST(ActivityTimeline, CountsFromAnOriginBeforeTheSession) {
  Session session;
  session.kernel(1, 10, 20);
  EXPECT_EQ(measured_timeline(session.log, kBegin - 1).timeline.spans[0].start,
            Picoseconds{11'000});
  EXPECT_THROW(static_cast<void>(measured_timeline(session.log, kBegin + 1)), Error);
}

TEST(ActivityTimeline, AppendsToATimelineOfHostSpans) {
  sim::Timeline host;
  host.devices = {"cpu"};
  host.tracks = {{"optimizer", sim::TrackKind::kHost, 0}};
  host.spans = {{.track = 0, .name = host.names.intern("update"), .start = {1}, .end = {2}}};
  Session session;
  session.call(1, 100, 200);
  session.kernel(1, 150, 400);
  append(host, session.timeline().timeline);
  EXPECT_EQ(track_of(host, "update"), "optimizer");
  EXPECT_EQ(track_of(host, "step(float*)"), "stream 7");
  ASSERT_THAT(host.flows, SizeIs(1));
  EXPECT_EQ(host.name_of(host.spans[host.flows[0].to]), "step(float*)");
  EXPECT_TRUE(json::accept(sim::chrome_trace(host)));
}

// As a training run does it: the engine's own spans, and the GPU's within them.
TEST(ActivityTimeline, AlignsWithTheRecordersHostSpans) {
  const auto nanoseconds = [](Clock::time_point time) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count());
  };
  Recorder recorder(true);
  TrackRecorder& track = recorder.add_track("engine", sim::TrackKind::kHost);
  ActivityLog log;
  log.session_start = nanoseconds(Clock::now());
  const Clock::time_point begin = Clock::now();
  Activity& kernel = log.activities.emplace_back();
  kernel.kind = ActivityKind::kMemset;
  kernel.start = nanoseconds(Clock::now());
  kernel.end = nanoseconds(Clock::now());
  track.span(Operation::kForward, 0, begin, Clock::now());
  log.session_end = nanoseconds(Clock::now());

  sim::Timeline timeline = recorder.timeline("run", "gpu");
  append(timeline, measured_timeline(log, nanoseconds(recorder.origin())).timeline);
  const sim::TimelineSpan* host = find(timeline, "forward");
  const sim::TimelineSpan* gpu = find(timeline, "Memset (Unknown)");
  ASSERT_NE(host, nullptr);
  ASSERT_NE(gpu, nullptr);
  EXPECT_LE(host->start, gpu->start);
  EXPECT_LE(gpu->end, host->end);
}

}  // namespace
}  // namespace zenflow::runtime
