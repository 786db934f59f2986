// What recordings show of steps, by hand-made ones; overlays; rounds.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/validate/rounds.h"
#include "sim/accuracy/imported_figures.h"
#include "sim/accuracy/overlay.h"
#include "sim/accuracy/predicted_figures.h"
#include "sim/accuracy/recorded_figures.h"
#include "sim/base/error.h"
#include "sim/trace/chrome_trace.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/import/own_operations.h"
#include "tests/support/error_of.h"
#include "tests/support/small_jobs.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Picoseconds ms(double time) {
  return Picoseconds{static_cast<std::int64_t>(time * 1e9)};
}

enum Lane : std::uint32_t { kCompute, kDown, kUp, kOptimizer, kSums, kThread };

struct Recording {
  Timeline timeline;

  Recording() {
    timeline.name = "by hand";
    timeline.devices = {"host"};
    timeline.tracks = {{"compute", TrackKind::kGpuKernels}, {"d2h", TrackKind::kGpuCopies},
                       {"h2d", TrackKind::kGpuCopies},      {"cpu optimizer", TrackKind::kHost},
                       {"cpu sums", TrackKind::kHost},      {"training thread", TrackKind::kHost}};
  }
  void add(Lane lane, const char* name, double start, double length, std::int32_t step = -1,
           double bytes = 0, const char* cause = "") {
    timeline.spans.push_back({.track = lane,
                              .name = timeline.names.intern(name),
                              .start = ms(start),
                              .end = ms(start + length),
                              .extra = timeline.extras.intern(
                                  {.bytes = bytes, .cause = wait_cause(cause), .step = step})});
  }
};

/// Six steps in windows of two, 10 ms each, but the last one 12.
Recording six_steps(bool with_causes = true) {
  Recording r;
  for (std::int32_t i = 0; i < 6; ++i) {
    const double at = 10.0 * i;
    r.timeline.steps.push_back({i, ms(at), ms(i == 5 ? at + 12 : at + 10)});
    r.add(kCompute, "forward", at, 3);
    r.add(kCompute, "backward", at + 3, 4);
    r.add(kCompute, "gather deferred", at + 7, 1, i);
    r.add(kCompute, "wait", at + 8, 1, -1, 0, with_causes ? "d2h" : "");
    // The last step's copy begins in the step after it.
    r.add(kDown, "gradients down", at + 9.5, 2, i, 1000);
    r.add(kSums, "sum gradients", at + 2, 1, i);
    if (i % 2 == 1) {
      r.add(kUp, "weights up", at, 1, i, 500);
      r.add(kUp, "scatter weights", at + 1, 0.5, i, 500);
      r.add(kThread, "wait", at + 9, 0.5, i, 0, with_causes ? "cpu_update" : "");
    } else {
      r.add(kOptimizer, "update", at, 2, i);
    }
  }
  find_operations(r.timeline);
  return r;
}

TEST(RecordedFigures, AreMeansOfTheStepsThatCount) {
  const Recording r = six_steps();
  const RecordedSteps steps = recorded_steps(r.timeline, 2, 2);
  EXPECT_EQ(steps.end, 6);
  const StepFigures f = recorded_figures(r.timeline, steps);
  EXPECT_DOUBLE_EQ(*f[Metric::kStep], 10.5);
  EXPECT_THAT(f.step_times, ElementsAre(10, 11));
  EXPECT_DOUBLE_EQ(*f[Metric::kCompute], 8);
  EXPECT_DOUBLE_EQ(*f[Metric::kStall], 2.5);
  EXPECT_DOUBLE_EQ(*f[stall_by(WaitCause::kCpuUpdate)],
                   0.25);  // half a millisecond in every other step
  EXPECT_DOUBLE_EQ(*f[stall_by(WaitCause::kD2H)], 1);
  EXPECT_DOUBLE_EQ(*f[stall_by(WaitCause::kLaunch)], 1.25);
  EXPECT_EQ(f[Metric::kD2HBytes], 1000);
  EXPECT_EQ(f[Metric::kH2DBytes], 250);  // what is put in its place is not moved again
  EXPECT_DOUBLE_EQ(*f[Metric::kForward], 3);
  EXPECT_DOUBLE_EQ(*f[Metric::kBackward], 4);
  EXPECT_DOUBLE_EQ(*f[Metric::kPacking], 1);
  EXPECT_DOUBLE_EQ(*f[Metric::kCopyDown], 2);
  EXPECT_DOUBLE_EQ(*f[Metric::kCopyUp], 0.75);
  EXPECT_DOUBLE_EQ(*f[Metric::kAccumulate], 1);
  EXPECT_DOUBLE_EQ(*f[Metric::kCpuUpdate], 1);
  EXPECT_FALSE(f[Metric::kDeviceMemory]);
}

TEST(RecordedFigures, HaveSumsOnTheDevice) {
  for (const char* name : {"sum gradients", "gpu_accumulate"}) {
    Recording r = six_steps();
    for (std::int32_t i = 0; i < 6; ++i) r.add(kCompute, name, 10.0 * i + 8.5, 0.5, i);
    find_operations(r.timeline);
    const StepFigures f = recorded_figures(r.timeline, recorded_steps(r.timeline, 2, 2));
    EXPECT_DOUBLE_EQ(*f[Metric::kAccumulate], 1.5) << "1 of them on the CPU";
    EXPECT_DOUBLE_EQ(*f[Metric::kCompute], 8.5);
  }
}

TEST(RecordedFigures, WithoutCausesThereAreNone) {
  const Recording r = six_steps(false);
  const StepFigures f = recorded_figures(r.timeline, recorded_steps(r.timeline, 2, 2));
  EXPECT_DOUBLE_EQ(*f[Metric::kStall], 2.5);
  EXPECT_FALSE(f[stall_by(WaitCause::kD2H)]);
  EXPECT_FALSE(f[stall_by(WaitCause::kLaunch)]);
}

/// As the profiler names things: copies by direction, with what they carry beside; waits by kind.
TEST(RecordedFigures, AreTheSameByWhatCopiesCarry) {
  Recording r = six_steps();
  const StepFigures plain = recorded_figures(r.timeline, recorded_steps(r.timeline, 2, 2));
  r.add(kCompute, "gradient norms", 27.5, 0.5, 2, 320);
  for (TimelineSpan& span : r.timeline.spans) {
    const std::string name = r.timeline.name_of(span);
    if (name == "wait") {
      span.kind = SpanKind::kSync;
      span.name = r.timeline.names.intern("Stream Wait Event");
    } else if (name == "gradients down" || name == "weights up" || name == "gradient norms") {
      span.kind = SpanKind::kCopy;
      span.name = r.timeline.names.intern(name == "weights up" ? "Memcpy HtoD (Pinned -> Device)"
                                                               : "Memcpy DtoH (Device -> Pinned)");
      SpanExtra extra = r.timeline.extra_of(span);
      extra.detail = static_cast<std::int32_t>(r.timeline.details.size());
      span.extra = r.timeline.extras.intern(extra);
      r.timeline.details.push_back({"", {{"carries", "\"" + name + "\""}}});
    }
  }
  find_operations(r.timeline);
  const StepFigures named = recorded_figures(r.timeline, recorded_steps(r.timeline, 2, 2));
  for (const Metric metric : {Metric::kStep, stall_by(WaitCause::kCpuUpdate),
                              stall_by(WaitCause::kD2H), Metric::kD2HBytes, Metric::kH2DBytes,
                              Metric::kForward, Metric::kCopyDown, Metric::kCopyUp}) {
    EXPECT_EQ(named[metric], plain[metric]) << path_of(metric);
  }
  // Half a millisecond of norms in one of four steps.
  EXPECT_DOUBLE_EQ(*named[Metric::kPacking], *plain[Metric::kPacking] + 0.125);
  EXPECT_DOUBLE_EQ(*named[Metric::kCompute], *plain[Metric::kCompute] + 0.125);
}

TEST(RecordedFigures, NeedWholeWindowsAndTheirTrack) {
  const Recording r = six_steps();
  EXPECT_EQ(recorded_steps(r.timeline, 1, 2).end, 5);  // one step is left over
  EXPECT_THROW((void)recorded_steps(r.timeline, 4, 4), Error);
  EXPECT_THROW((void)recorded_steps(r.timeline, 6, 1), Error);
  Timeline other = r.timeline;
  other.tracks[kCompute].name = "stream 7";
  EXPECT_THROW((void)recorded_figures(other, recorded_steps(other, 2, 2)), Error);
}

/// Three steps of 10 ms: 6 computing, then a copy of 3.
ImportedTrace foreign(double bytes) {
  ImportedTrace trace;
  Timeline& t = trace.timeline;
  t.name = "foreign";
  t.devices = {"GPU"};
  t.tracks = {{"stream 7", TrackKind::kGpuKernels}, {"stream 8", TrackKind::kGpuCopies}};
  for (std::int64_t i = 0; i < 3; ++i) {
    const double at = 10.0 * static_cast<double>(i);
    t.steps.push_back({i, ms(at), ms(at + 9.9)});  // annotations end a little early
    const auto add = [&](std::uint32_t track, const char* name, double start, double length,
                         SpanKind kind, SpanPhase phase, double moved) {
      t.spans.push_back({.track = track,
                         .name = t.names.intern(name),
                         .start = ms(at + start),
                         .end = ms(at + start + length),
                         .extra = t.extras.intern({.bytes = moved}),
                         .kind = kind,
                         .phase = phase});
    };
    add(0, "gemm", 0, 4, SpanKind::kKernel, SpanPhase::kForward, 0);
    add(0, "gemm_t", 4, 2, SpanKind::kKernel, SpanPhase::kBackward, 0);
    add(1, "Memcpy DtoH (Device -> Pinned)", 6, 3, SpanKind::kCopy, SpanPhase::kCopy, bytes);
  }
  return trace;
}

TEST(ImportedFigures, AreWhatTheTraceTells) {
  const ImportedFigures found = imported_figures(foreign(100), "a.json", default_rules(), 0, 2);
  EXPECT_EQ(found.steps, 2);  // a window; the third step would be half of one
  EXPECT_TRUE(found.notes.empty());
  const StepFigures& f = found.figures;
  EXPECT_DOUBLE_EQ(*f[Metric::kStep], 10);  // until the next begins
  EXPECT_DOUBLE_EQ(*f[Metric::kCompute], 6);
  EXPECT_DOUBLE_EQ(*f[Metric::kStall], 4);
  EXPECT_DOUBLE_EQ(*f[stall_by(WaitCause::kD2H)], 3);
  EXPECT_EQ(f[Metric::kD2HBytes], 100);
  EXPECT_EQ(f[Metric::kH2DBytes], 0);
  EXPECT_DOUBLE_EQ(*f[Metric::kForward], 4);
  EXPECT_DOUBLE_EQ(*f[Metric::kBackward], 2);
  EXPECT_DOUBLE_EQ(*f[Metric::kCopyDown], 3);
  // Nothing in it says what the host did.
  EXPECT_FALSE(f[stall_by(WaitCause::kCpuUpdate)]);
  EXPECT_FALSE(f[stall_by(WaitCause::kLaunch)]);
  EXPECT_FALSE(f[Metric::kCpuUpdate]);
  EXPECT_FALSE(f[Metric::kDeviceMemory]);
}

TEST(ImportedFigures, SayWhatTheyCannotKnow) {
  EXPECT_FALSE(
      imported_figures(foreign(-1), "a.json", default_rules(), 0, 1).figures[Metric::kD2HBytes]);
  const ImportedFigures part = imported_figures(foreign(100), "a.json", default_rules(), 1, 4);
  EXPECT_EQ(part.steps, 2);
  ASSERT_EQ(part.notes.size(), 1U);
  EXPECT_THAT(part.notes[0], HasSubstr("2 steps of windows of 4"));
  EXPECT_THAT(zenflow::testing::error_of([] {
                (void)imported_figures(foreign(100), "a.json", default_rules(), 3, 1);
              }).second,
              HasSubstr("a.json: no step is found from the 3-th on (3 in all)"));
}

// The first steps allocate and compile.
TEST(ImportedFigures, OfALogLeaveOutTheFirstSteps) {
  std::string text;
  for (const double step : {16343.5, 9500.25, 9501.25}) {
    text += fmt::format(" iteration | elapsed time per iteration (ms): {} | lm loss: 1 |\n", step);
  }
  const auto source = memory_bytes({text.data(), text.size()});
  const ImportedTrace log = import_timer_log(*source, "train.log", {});
  const auto step_from = [&](std::int64_t first) {
    return *imported_figures(log, "train.log", default_rules(), first, 4).figures[Metric::kStep];
  };
  EXPECT_DOUBLE_EQ(step_from(0), 35345.0 / 3);
  EXPECT_DOUBLE_EQ(step_from(1), 9500.75);
  EXPECT_EQ(imported_figures(log, "train.log", default_rules(), 1, 4).steps, 2);
  EXPECT_THAT(zenflow::testing::error_of([&] { (void)step_from(3); }).second,
              HasSubstr("train.log: no step is found from the 3-th on (3 in all)"));
}

StepFigures figures_of_log(const std::string& text, std::int64_t window) {
  const auto source = memory_bytes({text.data(), text.size()});
  const ImportedTrace log = import_timer_log(*source, "train.log", {});
  return imported_figures(log, "train.log", default_rules(), 0, window).figures;
}

TEST(ImportedFigures, OfALogAreItsTimers) {
  const std::string text =
      "time (ms) | forward: 377.0 | backward: 860.0 | step: 22641.0\n"
      "time (ms) | forward: 379.0 | backward: 862.0 | step: 22643.0\n";
  const StepFigures f = figures_of_log(text, 1);
  EXPECT_EQ(f[Metric::kTimerForward], 378);
  EXPECT_EQ(f[Metric::kTimerBackward], 861);
  EXPECT_EQ(f[Metric::kTimerStep], 22642);
  EXPECT_FALSE(f[Metric::kForward]);  // holds what the GPU waited for
}

// Two micro steps an update: the others are sums over both.
TEST(ImportedFigures, OfALogWithAccumulationAreOfAMicroStep) {
  const std::string text =
      "time (ms) | fwd_microstep: 10.0 | bwd_microstep: 20.0 | step_microstep: 1.0\n"
      "time (ms) | fwd_microstep: 12.0 | bwd_microstep: 22.0 | step_microstep: 51.0\n"
      "time (ms) | fwd: 22.0 | bwd: 42.0 | step: 52.0\n";
  const StepFigures f = figures_of_log(text, 2);
  EXPECT_EQ(f[Metric::kTimerForward], 11);
  EXPECT_EQ(f[Metric::kTimerBackward], 21);
  EXPECT_EQ(f[Metric::kTimerStep], 26);
  EXPECT_EQ(f[Metric::kStep], 58);
}

// Whatever the schedule: the three parts are the step.
TEST(PredictedFigures, HaveTimersThatAddUpToTheStep) {
  for (const char* schedule : {"deepspeed-zero-offload", "deepspeed-zenflow", "zero-offload"}) {
    const Job job =
        testing::make_small_job(testing::round_node(2), testing::tiny_llama(), {.gpus = 2});
    const StepFigures f = predict(job, find_schedule(schedule)).figures;
    ASSERT_TRUE(f[Metric::kTimerStep]) << schedule;
    EXPECT_NEAR(*f[Metric::kTimerForward] + *f[Metric::kTimerBackward] + *f[Metric::kTimerStep],
                *f[Metric::kStep], 1e-6 * *f[Metric::kStep])
        << schedule;
    EXPECT_GT(*f[Metric::kTimerBackward], 0) << schedule;
  }
}

TEST(Overlay, HasBothSidesOneAboveTheOtherAndIsReadAgain) {
  Recording measured = six_steps();
  Recording predicted = six_steps();
  predicted.timeline.tracks[kOptimizer].name = "cpu_update";  // as simulated
  const Timeline both = overlay(
      {{"a setting", {&predicted.timeline, ms(20), ms(40)}, {&measured.timeline, ms(40), ms(60)}}});
  std::vector<std::string> tracks;
  for (const Track& track : both.tracks) tracks.push_back(track.name);
  EXPECT_THAT(tracks,
              ElementsAre("steps: predicted", "steps: measured", "training thread: predicted",
                          "training thread: measured", "compute: predicted", "compute: measured",
                          "d2h: predicted", "d2h: measured", "h2d: predicted", "h2d: measured",
                          "cpu_update: predicted", "cpu_update: measured",
                          "cpu_accumulate: predicted", "cpu_accumulate: measured"));
  // Two steps of each side; both begin at zero.
  std::vector<int> forwards(both.tracks.size(), 0);
  for (const TimelineSpan& span : both.spans) {
    EXPECT_GE(span.start.count, 0);
    if (both.name_of(span) != "forward") continue;
    ++forwards[span.track];
    if (forwards[span.track] == 1) {
      EXPECT_EQ(span.start.count, 0);
    }
  }
  EXPECT_EQ(forwards[4], 2);
  EXPECT_EQ(forwards[5], 2);

  const zenflow::testing::TemporaryFolder folder;
  const ImportedTrace read = import_trace(folder.write("overlay.json", chrome_trace(both)));
  EXPECT_EQ(read.timeline.spans.size(), both.spans.size());
  EXPECT_TRUE(read.left_out.empty());
  std::vector<std::string> names;
  for (const Track& track : read.timeline.tracks) names.push_back(track.name);
  EXPECT_EQ(names, tracks);
}

TEST(Rounds, GoOnOnlyForSettingsWhoseRunsDoNotAgree) {
  // The first setting always takes 10; the second 10 or 20 by turns, then always 15.
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  const auto times = runtime::run_rounds({.least = 2, .most = 12, .spread = 0.1}, 2,
                                         [&](std::int64_t round, std::size_t i) {
                                           order.emplace_back(round, i);
                                           if (i == 0) return 10.0;
                                           return round >= 4 ? 15.0 : round % 2 == 0 ? 10.0 : 20.0;
                                         });
  EXPECT_EQ(times[0].size(), 2U);
  // The newest two count, however far those before were off.
  EXPECT_THAT(times[1], ElementsAre(10, 20, 10, 20, 15, 15));
  EXPECT_THAT(runtime::newest(times[1], 3), ElementsAre(20, 15, 15));
  EXPECT_THAT(runtime::newest(times[0], 3), ElementsAre(10, 10));
  EXPECT_EQ(order[0], std::pair(std::int64_t{0}, std::size_t{0}));
  EXPECT_EQ(order[1], std::pair(std::int64_t{0}, std::size_t{1}));
}

TEST(Rounds, GiveUpAndStop) {
  int calls = 0;
  const auto noisy = runtime::run_rounds({.least = 1, .most = 5, .spread = 0.01}, 1,
                                         [&](std::int64_t round, std::size_t) {
                                           ++calls;
                                           return round % 2 == 0 ? 10.0 : 20.0;
                                         });
  // One run agrees with itself: nothing is known of noise, and nothing is repeated.
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(noisy[0].size(), 1U);
  const auto given_up = runtime::run_rounds(
      {.least = 2, .most = 5, .spread = 0.01}, 1,
      [](std::int64_t round, std::size_t) { return round % 2 == 0 ? 10.0 : 20.0; });
  EXPECT_EQ(given_up[0].size(), 5U);
  const auto stopped = runtime::run_rounds(
      {.least = 3, .most = 3, .spread = 0}, 2,
      [](std::int64_t round, std::size_t i) { return round == 1 && i == 1 ? -1.0 : 10.0; });
  EXPECT_EQ(stopped[0].size(), 2U);
  EXPECT_EQ(stopped[1].size(), 1U);
}

}  // namespace
}  // namespace zenflow::sim
