// A GPU's recording, made by hand as CUPTI delivers it, under the names of the operations that were
// launched: what zenflow-train --device cuda --trace writes is read as the host device's
// recordings.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/trace/cupti/activity_timeline.h"
#include "runtime/trace/cupti/operation_tracks.h"
#include "sim/accuracy/recorded_figures.h"
#include "sim/calibrate/live_samples.h"
#include "sim/trace/chrome_trace.h"
#include "sim/trace/import/import_trace.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using sim::Metric;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Not;

constexpr std::uint64_t kMicrosecond = 1000;
constexpr std::uint64_t kBegin = 1'000'000'000;
constexpr std::uint32_t kCompute = 13;
constexpr std::uint32_t kDown = 14;

Clock::time_point at(std::uint64_t microseconds) {
  return Clock::time_point(std::chrono::nanoseconds(kBegin + microseconds * kMicrosecond));
}

/// Times in microseconds from the session's begin.
class Recording {
 public:
  Recording() {
    log.process = 4711;
    log.program = "zenflow-train";
    log.session_start = kBegin;
    log.session_end = 2 * kBegin;
    log.complete = true;
  }

  /// The host launches work of an operation from `when` to `when + 2`.
  void operation(Operation operation, const char* stream, std::int64_t step, std::uint64_t when,
                 std::uint32_t thread = 10) {
    operations.push_back({.operation = operation,
                          .step = step,
                          .stream = stream,
                          .thread = thread,
                          .start = at(when),
                          .end = at(when + 2)});
    thread_ = thread;
    launch_ = when + 1;
  }
  /// Work launched by the operation before.
  Activity& work(ActivityKind kind, std::uint32_t stream, std::uint64_t start, std::uint64_t end) {
    ++correlation_;
    Activity& call = add(ActivityKind::kRuntimeCall, launch_, launch_ + 1);
    call.process = 4711;
    call.thread = thread_;
    Activity& made = add(kind, start, end);
    made.context = 1;
    made.stream = stream;
    return made;
  }
  /// What follows was launched then.
  void launched_at(std::uint64_t when) { launch_ = when; }
  void copy_down(std::uint64_t start, std::uint64_t end, std::uint64_t bytes) {
    Activity& made = work(ActivityKind::kCopy, kDown, start, end);
    made.bytes = bytes;
    made.copy_kind = 2;  // CUPTI's device to host
    made.source_memory = 3;
    made.destination_memory = 2;
  }

  [[nodiscard]] sim::Timeline timeline() const {
    sim::Timeline made = measured_timeline(log).timeline;
    add_operation_tracks(made, operations, at(0));
    return made;
  }

  ActivityLog log;
  std::vector<LaunchedOperation> operations;

 private:
  Activity& add(ActivityKind kind, std::uint64_t start, std::uint64_t end) {
    Activity& made = log.activities.emplace_back();
    made.kind = kind;
    made.correlation = correlation_;
    made.start = kBegin + start * kMicrosecond;
    made.end = kBegin + end * kMicrosecond;
    return made;
  }
  std::uint32_t correlation_ = 0;
  std::uint32_t thread_ = 10;
  std::uint64_t launch_ = 0;
};

//  compute |fwd 10-30: two kernels|bwd 30-60|gather 60-70|      of each step of 100
//  d2h                                               |copy 70-90, 4000 B|
Recording two_steps() {
  Recording r;
  for (std::uint64_t step = 0; step < 2; ++step) {
    const std::uint64_t t = 100 * step;
    r.operation(Operation::kForward, "compute", -1, t);
    r.work(ActivityKind::kKernel, kCompute, t + 10, t + 18);
    r.work(ActivityKind::kKernel, kCompute, t + 20, t + 30);
    r.operation(Operation::kBackward, "compute", -1, t + 3);
    r.work(ActivityKind::kKernel, kCompute, t + 30, t + 60);
    r.operation(Operation::kGatherDeferred, "compute", static_cast<std::int64_t>(step), t + 6);
    r.work(ActivityKind::kKernel, kCompute, t + 60, t + 65);
    Activity& on_device = r.work(ActivityKind::kCopy, kCompute, t + 65, t + 70);
    on_device.bytes = 500;
    on_device.copy_kind = 8;  // CUPTI's within the device
    on_device.source_memory = on_device.destination_memory = 3;
    // Another thread launches at the same time.
    r.operation(Operation::kGradientsDown, "d2h", static_cast<std::int64_t>(step), t + 6, 11);
    r.copy_down(t + 70, t + 90, 4000);
  }
  return r;
}

/// As it is read from the file that the run writes, with what the host's recorder adds.
sim::Timeline written_and_read(sim::Timeline timeline) {
  timeline.tracks.push_back({.name = "training thread", .kind = sim::TrackKind::kHost});
  timeline.spans.push_back(
      {.track = static_cast<std::uint32_t>(timeline.tracks.size() - 1),
       .name = timeline.names.intern("Event Sync"),
       .start = Picoseconds{90'000'000},
       .end = Picoseconds{100'000'000},
       .extra = timeline.extras.intern({.cause = WaitCause::kCpuUpdate, .step = 0}),
       .kind = sim::SpanKind::kSync});
  for (std::int64_t step = 0; step < 2; ++step) {
    const auto begin = Picoseconds{step * 100'000'000};
    timeline.steps.push_back({step, begin, begin + Picoseconds{100'000'000}});
  }
  const testing::TemporaryFolder folder;
  return sim::import_trace(folder.write("run.json", sim::chrome_trace(timeline))).timeline;
}

TEST(GpuRecording, HasTheNamesOfItsStreamsAndOperations) {
  const sim::Timeline timeline = written_and_read(two_steps().timeline());
  std::vector<std::string> tracks;
  for (const sim::Track& track : timeline.tracks) tracks.push_back(track.name);
  EXPECT_THAT(tracks, ElementsAre("stream 13: compute", "stream 14: d2h", "thread 10", "thread 11",
                                  "compute", "d2h", "training thread"));
  std::vector<std::string> on_compute;
  for (const sim::TimelineSpan& span : timeline.spans) {
    const std::string& track = timeline.tracks[span.track].name;
    if (track == "compute") on_compute.push_back(timeline.name_of(span));
    // Only what crosses the link counts.
    if (track == "compute") {
      EXPECT_EQ(timeline.extra_of(span).bytes, 0) << timeline.name_of(span);
    }
    if (track == "d2h") {
      EXPECT_EQ(timeline.extra_of(span).bytes, 4000);
    }
  }
  EXPECT_THAT(on_compute, ElementsAre("forward", "backward", "gather deferred", "forward",
                                      "backward", "gather deferred"));
}

TEST(GpuRecording, TellsFiguresAsARecordingOfTheHostDeviceDoes) {
  const sim::Timeline timeline = written_and_read(two_steps().timeline());
  const sim::StepFigures f = recorded_figures(timeline, sim::recorded_steps(timeline, 0, 1));
  EXPECT_DOUBLE_EQ(*f[Metric::kStep], 0.1);
  EXPECT_DOUBLE_EQ(*f[Metric::kCompute], 0.06);  // gaps within an operation count as busy
  EXPECT_DOUBLE_EQ(*f[Metric::kForward], 0.02);
  EXPECT_DOUBLE_EQ(*f[Metric::kBackward], 0.03);
  EXPECT_DOUBLE_EQ(*f[Metric::kPacking], 0.01);
  EXPECT_DOUBLE_EQ(*f[Metric::kCopyDown], 0.02);
  EXPECT_EQ(f[Metric::kD2HBytes], 4000);
  EXPECT_EQ(f[Metric::kH2DBytes], 0);
  EXPECT_DOUBLE_EQ(*f[Metric::kStall], 0.04);
  // What a stream waited for is no record of CUPTI's: it is not the host's launches.
  EXPECT_FALSE(f[sim::stall_by(WaitCause::kLaunch)]);
  EXPECT_FALSE(f[sim::stall_by(WaitCause::kD2H)]);
}

TEST(GpuRecording, IsFittedToAsARecordingOfTheHostDevice) {
  const sim::Timeline timeline = written_and_read(two_steps().timeline());
  sim::LiveLayer layer;
  layer.tensors = {{.rows = 10, .columns = 100}};
  sim::LiveSettings live;
  live.topk_ratio = 0;
  const std::vector<sim::LiveSample> samples = live_samples(timeline, {layer}, live, 0);
  std::vector<std::pair<Operation, double>> found;
  for (const sim::LiveSample& one : samples) {
    if (one.operation == Operation::kGradientsDown) {
      EXPECT_EQ(one.bytes, 4000);
    }
    found.emplace_back(one.operation, one.seconds);
  }
  const auto has = [&](Operation operation, double seconds) {
    return std::count_if(found.begin(), found.end(), [&](const auto& one) {
      return one.first == operation && std::abs(one.second - seconds) < 1e-12;
    });
  };
  EXPECT_EQ(has(Operation::kForward, 20e-6), 2);
  EXPECT_EQ(has(Operation::kBackward, 30e-6), 2);
  EXPECT_EQ(has(Operation::kPackGradients, 10e-6), 2);
  EXPECT_EQ(has(Operation::kGradientsDown, 20e-6), 2);
}

TEST(GpuRecording, WithoutABackwardPassIsNotFittedTo) {
  sim::Timeline timeline = written_and_read(two_steps().timeline());
  std::erase_if(timeline.spans, [](const sim::TimelineSpan& span) {
    return span.operation == Operation::kBackward;
  });
  sim::LiveLayer layer;
  layer.tensors = {{.rows = 10, .columns = 100}};
  sim::LiveSettings live;
  live.topk_ratio = 0;
  const auto [kind, what] = zenflow::testing::error_of(
      [&] { static_cast<void>(live_samples(timeline, {layer}, live, 0)); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, ::testing::HasSubstr("expected backward, found"));
}

/// As the embedding's forward pass copies the batch first: operations within an operation.
//  launches |forward 0-9: |batch 3-5|, a kernel at 7|backward 10-12|, a kernel at 13
TEST(GpuRecording, WorkBelongsToTheInnermostOperationAroundItsLaunch) {
  Recording r;
  r.operation(Operation::kForward, "compute", -1, 0);
  r.operations.back().end = at(9);
  r.operation(Operation::kBatch, "compute", -1, 3);
  r.work(ActivityKind::kCopy, kCompute, 20, 22);
  r.launched_at(7);
  r.work(ActivityKind::kKernel, kCompute, 24, 30);
  r.operation(Operation::kBackward, "compute", -1, 10);
  r.work(ActivityKind::kKernel, kCompute, 30, 35);
  r.launched_at(13);
  r.work(ActivityKind::kKernel, kCompute, 40, 45);  // of none
  const sim::Timeline timeline = r.timeline();
  std::vector<std::tuple<std::string, std::int64_t, std::int64_t>> ranges;
  for (const sim::TimelineSpan& span : timeline.spans) {
    if (timeline.tracks[span.track].name != "compute") continue;
    constexpr std::int64_t kPicoseconds = 1'000'000;  // in a microsecond
    ranges.emplace_back(timeline.name_of(span), span.start.count / kPicoseconds,
                        span.end.count / kPicoseconds);
  }
  EXPECT_THAT(ranges, ElementsAre(std::tuple("batch", 20, 22), std::tuple("forward", 24, 30),
                                  std::tuple("backward", 30, 35)));
}

TEST(GpuRecording, WorkThatNoOperationLaunchedHasNone) {
  Recording r = two_steps();
  r.operations.resize(1);  // of the first forward alone
  r.operations[0].end = at(0);
  const sim::Timeline timeline = r.timeline();
  std::vector<std::string> tracks;
  for (const sim::Track& track : timeline.tracks) tracks.push_back(track.name);
  EXPECT_THAT(tracks, Contains("stream 13"));
  EXPECT_THAT(tracks, Not(Contains("compute")));
}

/// Rows without a number get their place, which a stream of the same process may have.
TEST(GpuRecording, RowsOfOneProcessHaveNumbersOfTheirOwn) {
  sim::Timeline timeline;
  timeline.devices = {"GPU 0"};
  timeline.tracks = {{.name = "stream 3", .kind = sim::TrackKind::kGpuKernels, .number = 3},
                     {.name = "waits", .kind = sim::TrackKind::kRuntime},
                     {.name = "compute", .kind = sim::TrackKind::kRuntime}};
  for (std::uint32_t i = 0; i < 3; ++i) {
    timeline.spans.push_back({.track = i,
                              .name = timeline.names.intern("on " + timeline.tracks[i].name),
                              .start = Picoseconds{1000},
                              .end = Picoseconds{2000},
                              .kind = i == 0 ? sim::SpanKind::kKernel : sim::SpanKind::kRange});
  }
  const testing::TemporaryFolder folder;
  const sim::Timeline read =
      sim::import_trace(folder.write("run.json", sim::chrome_trace(timeline))).timeline;
  ASSERT_EQ(read.spans.size(), 3U);
  for (const sim::TimelineSpan& span : read.spans) {
    EXPECT_EQ(read.name_of(span), "on " + read.tracks[span.track].name);
  }
}

}  // namespace
}  // namespace zenflow::runtime
