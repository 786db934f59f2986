/// The loop in a real training: recordings are whole, fits arrive, and what is chosen is applied.
/// Built twice: for the host device, and with ZENFLOW_FAKE_CUDA for the emulated GPU.
#include "runtime/tune/live_tuning.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/train/trainer.h"
#if defined(ZENFLOW_FAKE_CUDA)
#include "tests/emulator/streams.h"
#endif
#include "tests/support/train_program.h"

namespace zenflow::runtime {
namespace {

using zenflow::testing::kTinyGpt2;
using zenflow::testing::kTinyLlama;
using zenflow::testing::TemporaryFolder;

class LiveTuningRun : public ::testing::Test {
 protected:
  LiveTuningRun() {
    folder_.write("llama.json", kTinyLlama);
    folder_.write("gpt2.json", kTinyGpt2);
    folder_.write("text.txt", zenflow::testing::some_text(3000));
  }

  /// Fits are waited for: which window sees one does not depend on the machine.
  [[nodiscard]] TrainOptions options(const char* model = "llama.json") const {
    TrainOptions o;
    o.model = folder_.path() / model;
    o.data = folder_.path() / "text.txt";
    o.training.micro_batch_size_per_gpu = 2;
    o.training.sequence_length = 8;
    o.feed.validation_fraction = 0.02;
    o.steps = 24;
    o.tune_live = o.wait_for_fits = true;
    o.offload.update_interval = 1;
    o.offload.interval_is_auto = true;
    o.offload.max_staleness = 9;
    o.offload = settings_for(OffloadSchedule::kZenFlow, o.offload);
#if defined(ZENFLOW_FAKE_CUDA)
    emulator::start({});
    o.cuda.emplace();
    o.steps = 14;  // the emulator takes its time
#endif
    return o;
  }

  static std::vector<std::int64_t> windows_of(const TrainReport& report, TuneEvent::Kind kind) {
    std::vector<std::int64_t> windows;
    for (const TuneEvent& event : report.tuning.events) {
      if (event.kind == kind) windows.push_back(event.window);
    }
    return windows;
  }

  static void expect_tuned(const TrainReport& report, const TrainOptions& o) {
    for (const TuneEvent& event : report.tuning.events) {
      EXPECT_NE(event.kind, TuneEvent::Kind::kFailed) << event.reason;
    }
    // The tuner is asked from window 1 on, or from the first one after the warm-up. The next four
    // windows of a step each are recorded; a window later the profile is there.
    const auto fitted = windows_of(report, TuneEvent::Kind::kFitted);
    ASSERT_FALSE(fitted.empty());
    EXPECT_EQ(fitted.front(), std::max<std::int64_t>(1, o.offload.full_warm_up_rounds) + 5);
    ASSERT_TRUE(report.staleness_max);
    EXPECT_LE(*report.staleness_max, o.offload.max_staleness);
    std::int64_t next = report.tuning.windows.front().first_step;
    for (const TunedWindow& window : report.tuning.windows) {
      EXPECT_EQ(window.first_step, next);
      next += window.point.update_interval;
      EXPECT_GT(window.step_seconds, 0);
    }
  }

  TemporaryFolder folder_;
};

TEST_F(LiveTuningRun, FitsWhatItRecords) {
  for (const bool overlap : {true, false}) {
    for (const sim::DType type : {sim::DType::kFp32, sim::DType::kBf16}) {
      TrainOptions o = options(overlap ? "llama.json" : "gpt2.json");
      o.offload.overlap_step = overlap;
      o.training.dtype = type;
      const TrainReport report = train(o, {});
      expect_tuned(report, o);
      const auto& events = report.tuning.events;
      const auto fitted = std::find_if(events.begin(), events.end(), [](const auto& e) {
        return e.kind == TuneEvent::Kind::kFitted;
      });
      ASSERT_NE(fitted, events.end());
      EXPECT_EQ(fitted->predictions.size(), overlap ? 5U : 9U);
      EXPECT_GT(fitted->predicted, 0);
      EXPECT_GT(fitted->fit_seconds, 0);
    }
  }
}

TEST_F(LiveTuningRun, FitsStepsOfSeveralMicroBatches) {
  TrainOptions o = options();
  o.offload.gradient_accumulation_steps = 3;
  expect_tuned(train(o, {}), o);
}

/// Copies down are of windows then, and a recording has those of whole ones.
TEST_F(LiveTuningRun, FitsWindowsWhoseSumsAreOnTheDevice) {
  for (const bool overlap : {true, false}) {
    for (const std::int64_t first : {1, 3}) {
      TrainOptions o = options(overlap ? "llama.json" : "gpt2.json");
      o.offload.overlap_step = overlap;
      o.offload.accumulate_on_device = true;
      o.offload.update_interval = first;
      o.offload.select_interval = 4;
      o.steps = 40;
      const TrainReport report = train(o, {});
      for (const TuneEvent& event : report.tuning.events) {
        EXPECT_NE(event.kind, TuneEvent::Kind::kFailed) << event.reason;
      }
      EXPECT_FALSE(windows_of(report, TuneEvent::Kind::kFitted).empty());
      EXPECT_LE(*report.staleness_max, o.offload.max_staleness);
    }
  }
}

TEST_F(LiveTuningRun, IsNotDisturbedByWhatElseHappens) {
  TrainOptions o = options();
  o.offload.full_warm_up_rounds = 3;
  o.offload.select_interval = 2;
  o.evaluate_interval = 1;
  o.checkpoint = folder_.path() / "checkpoints";
  o.checkpoint_interval = 2;
  expect_tuned(train(o, {}), o);
}

#if !defined(ZENFLOW_FAKE_CUDA)  // a GPU's is CUPTI's
TEST_F(LiveTuningRun, LeavesATraceWhole) {
  TrainOptions o = options();
  o.record_trace = true;
  const TrainReport report = train(o, {});
  expect_tuned(report, o);
  std::int64_t forwards = 0;
  for (const sim::TimelineSpan& span : report.timeline.spans) {
    if (report.timeline.name_of(span) == "forward") ++forwards;
  }
  EXPECT_EQ(forwards, o.steps * 4) << "embedding, two layers, head, in every step";
}
#endif

TEST_F(LiveTuningRun, TunesAClassification) {
  std::string rows = "sentence\tlabel\n";
  for (int i = 0; i < 40; ++i) rows += i % 2 == 0 ? "good film\t1\n" : "bad\t0\n";
  folder_.write("task/train.tsv", rows);
  folder_.write("task/dev.tsv", rows);
  TrainOptions o = options();
  o.data = folder_.path() / "task";
  o.task = "sst-2";
  expect_tuned(train(o, {}), o);
}

TEST_F(LiveTuningRun, GoesOnAfterAResume) {
  TrainOptions o = options();
  o.checkpoint = folder_.path() / "checkpoints";
  o.steps = 17;
  (void)train(o, {});
  o.steps = 40;
  o.resume = true;
  const TrainReport report = train(o, {});
  EXPECT_FALSE(windows_of(report, TuneEvent::Kind::kFitted).empty());
  EXPECT_LE(report.staleness_max.value_or(0), o.offload.max_staleness);
}

TEST_F(LiveTuningRun, TellsALateOptimizer) {
  // The update of a window takes 80 ms, four groups', whatever the machine; a step without it is
  // far shorter: of few S, the largest is the fastest by far.
  TrainOptions o = options();
  o.offload.max_staleness = 7;
  o.offload.before_update = [](std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  o.steps = 40;
  const TrainReport report = train(o, {});
  expect_tuned(report, o);
  EXPECT_GE(report.update_interval, 2) << "importance may allow no more";
  const auto& events = report.tuning.events;
  const auto change = std::find_if(events.begin(), events.end(), [](const auto& e) {
    return e.kind == TuneEvent::Kind::kChange;
  });
  ASSERT_NE(change, events.end());
  EXPECT_EQ(change->reason, "faster");
  // What passes between steps hides a part of the update.
  EXPECT_GE(change->measured, 0.04);
  EXPECT_GE(change->predicted, 0.01);
  EXPECT_LT(change->predicted, change->measured);
}

/// S is 1 throughout, and the update of a window, whatever the machine, four times 20 ms, which a
/// profile puts down to the number of deferred columns: more selected ones promise a shorter step.
TEST_F(LiveTuningRun, SelectsMoreColumnsForALateOptimizer) {
  TrainOptions o = options();
  o.offload.max_staleness = 1;
  o.offload.topk_range = {0.1, 0.8};
  o.offload.before_update = [](std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  };
  o.checkpoint = folder_.path() / "checkpoints";
  const TrainReport report = train(o, {});
  expect_tuned(report, o);
  EXPECT_EQ(report.tuning.windows.front().point, (TunePoint{1, 0.1}));
  const auto& events = report.tuning.events;
  const auto change = std::find_if(events.begin(), events.end(), [](const auto& e) {
    return e.kind == TuneEvent::Kind::kChange;
  });
  ASSERT_NE(change, events.end());
  EXPECT_GT(change->to.topk_ratio, 0.1);
  EXPECT_GT(change->selection_seconds, 0);
  // The window after it still has the old columns, the next one the new ones.
  const auto at = std::find_if(report.tuning.windows.begin(), report.tuning.windows.end(),
                               [&](const auto& w) { return w.window == change->window + 1; });
  ASSERT_LT(at, report.tuning.windows.end() - 1);
  EXPECT_EQ(at->point.topk_ratio, 0.1);
  EXPECT_GT(at->selection_seconds, 0);
  EXPECT_EQ((at + 1)->point, change->to);
  EXPECT_LT((at + 1)->deferred_share, at->deferred_share);

  o.steps = 32;
  o.resume = true;
  const TrainReport resumed = train(o, {});
  const double first = resumed.tuning.windows.front().point.topk_ratio;
  EXPECT_TRUE(first == report.topk_ratio || first == report.tuning.events.back().to.topk_ratio);
}

TEST_F(LiveTuningRun, KeepsTheDeferredShareWithinItsLimit) {
  // Less than a ratio of 0.8 leaves: whatever the predictions, it is raised to the most.
  TrainOptions o = options();
  o.offload.max_staleness = 1;
  o.offload.topk_range = {0.1, 0.8};
  o.tuner.max_deferred_share = 1e-6;
  o.steps = 400;  // what is being recorded and fitted is finished first
  const TrainReport report = train(o, {});
  expect_tuned(report, o);
  EXPECT_EQ(report.topk_ratio, 0.8);
}

/// A model of three groups at S = 4, which no recording is ever fitted to.
LiveTuningSettings by_hand() {
  LiveTuningSettings settings;
  settings.model.model.name = "model";
  settings.model.model.kinds.resize(1);
  settings.model.model.order = {0};
  settings.tuner.first = {4, 0.1};
  settings.topk_ratios = {0.1};
  settings.steps = 1000;
  settings.wait_for_fits = true;
  return settings;
}

/// What the engine says of a window of `by_hand`.
WindowObservation window_by_hand(std::int64_t window) {
  WindowObservation seen;
  seen.window = window;
  seen.first_step = 4 * window;
  seen.steps = seen.timed_steps = 4;
  seen.topk_ratio = seen.next_topk_ratio = 0.1;
  seen.window_seconds = 0.2;
  return seen;
}

/// Weights are loaded, and steps of the warm-up run, before the tuner is asked for the first time.
TEST(LiveTuning, WhatCameBeforeTheFirstWindowIsNotTakenForAPartOfIt) {
  Recorder recorder(false);
  std::vector<TrackRecorder*> tracks;
  for (const char* name : kTuneTrackNames) {
    tracks.push_back(&recorder.add_track(name, sim::TrackKind::kHost));
  }
  const auto work = [&](std::chrono::milliseconds time) {
    const Clock::time_point now = Clock::now();
    for (TrackRecorder* track : tracks) track->span(Operation::kForward, 0, now, now + time);
  };
  LiveTuning tuning(by_hand(), recorder, {});
  work(std::chrono::milliseconds(100'000));
  for (std::int64_t window = 1; window < 40; ++window) {
    work(std::chrono::milliseconds(100));
    const TunePoint next = tuning.window_ended(window_by_hand(window), Clock::now());
    EXPECT_EQ(next.update_interval, 4);
  }
  std::size_t failed = 0;
  for (const TuneEvent& event : tuning.log().events) {
    EXPECT_NE(event.kind, TuneEvent::Kind::kDrift) << event.reason;
    failed += event.kind == TuneEvent::Kind::kFailed ? 1 : 0;
  }
  EXPECT_EQ(failed, 3U) << "nothing of a step was recorded; from then on drift is looked for";
}

/// Beside a trace, which has all of the optimizer's spans and none of a GPU's: the update before
/// the recording is whole, its uploads are not.
TEST(LiveTuning, UploadsOfAnUpdateThatBeganBeforeTheRecordingAreNotUsed) {
  Recorder recorder(true);
  std::vector<TrackRecorder*> tracks;
  for (const char* name : kTuneTrackNames) {
    const bool is_gpus = tracks.size() < 3;
    tracks.push_back(
        &recorder.add_track(name, sim::TrackKind::kHost,
                            is_gpus ? SpansKept::kWhenAsked : SpansKept::kAsTheRecorderDoes));
  }
  LiveTuning tuning(by_hand(), recorder, {});
  const auto span = [](TrackRecorder* track, Operation operation, std::int64_t step) {
    const Clock::time_point now = Clock::now();
    track->span(operation, step, now, now);
  };
  for (int layer = 0; layer < 3; ++layer) span(tracks[4], Operation::kCpuUpdate, 7);
  (void)tuning.window_ended(window_by_hand(1), Clock::now());
  ASSERT_EQ(tracks[2]->recording(), 2U) << "the next window is recorded";
  span(tracks[2], Operation::kPlaceWeights, 7);  // of weights that went up before
  for (std::int64_t window = 2; window < 5; ++window) {
    const Clock::time_point begin = Clock::now();
    for (std::int64_t step = 4 * window; step < 4 * window + 3; ++step) {
      recorder.step(step, begin, begin);
    }
    (void)tuning.window_ended(window_by_hand(window), begin);
  }
  ASSERT_EQ(tuning.log().events.size(), 1U);
  EXPECT_EQ(tuning.log().events[0].reason,
            "windows from step 8 on: nothing to fit host.adam_bandwidth to what was recorded");
}

/// Drifts in 20 windows on two CPUs, of which others use one from window 10 on for `loaded`
/// windows. Nothing is recorded of any step: three recordings fail first, and then drift is
/// looked for.
std::vector<TuneEvent> drifts_beside_others(double window_seconds, std::int64_t loaded,
                                            bool are_suspended = false) {
  Recorder recorder(false);
  for (const char* name : kTuneTrackNames) recorder.add_track(name, sim::TrackKind::kHost);
  LiveTuningSettings settings = by_hand();
  CoreReading now{.cpus = {{0, {}}, {1, {}}}};
  settings.cpus = {0, 1};
  settings.read_cores = [&] { return now; };
  LiveTuning tuning(settings, recorder, {});
  const double hertz = ticks_a_second();
  for (std::int64_t window = 1; window < 20; ++window) {
    now.at_seconds += window_seconds;
    const bool is_loaded = window >= 10 && window < 10 + loaded;
    const auto ticks = static_cast<std::int64_t>(window_seconds * hertz);
    for (auto& [cpu, counted] : now.cpus) {
      counted.all += ticks;
      if (cpu == 1 || !is_loaded) counted.idle += ticks;
    }
    if (are_suspended) {  // for ten times as long, in which others have all cores
      const CoreReading then = now;
      now.at_seconds += 10 * window_seconds;
      for (auto& [cpu, counted] : now.cpus) counted.all += 10 * ticks;
      tuning.suspended(then, now);
    }
    (void)tuning.window_ended(window_by_hand(window), Clock::now());
  }
  std::vector<TuneEvent> drifts;
  for (const TuneEvent& event : tuning.log().events) {
    if (event.kind == TuneEvent::Kind::kDrift) drifts.push_back(event);
  }
  return drifts;
}

/// 0.1 s are needed for a value, two windows of 0.06 s, and two values for a drift.
TEST(LiveTuning, WhatOthersUseOfTheCoresIsFollowed) {
  const std::vector<TuneEvent> drifts = drifts_beside_others(0.06, 100);
  ASSERT_EQ(drifts.size(), 1U);
  EXPECT_THAT(drifts[0].reason, ::testing::StartsWith("other programs use 1.00 cores, not 0.0"));
  EXPECT_LE(drifts[0].window, 13);
}

/// What they use while the process is suspended is not beside it.
TEST(LiveTuning, WhatOthersUseMeanwhileIsNoDrift) {
  EXPECT_TRUE(drifts_beside_others(0.06, 0, true).empty());
  EXPECT_EQ(drifts_beside_others(0.06, 100, true).size(), 1U);
}

/// However short windows are: one burst is in one value alone.
TEST(LiveTuning, ABurstOfOthersIsNoDrift) {
  for (const double seconds : {0.02, 0.05, 0.08, 0.2}) {
    const auto windows = static_cast<std::int64_t>(std::max(1.0, 0.06 / seconds));
    EXPECT_TRUE(drifts_beside_others(seconds, windows).empty()) << seconds;
  }
}

TEST(Recorder, KeepsAPartOfARun) {
  Recorder recorder(false);
  TrackRecorder& track = recorder.add_track("work", sim::TrackKind::kHost);
  const auto spans = [&](std::int64_t number) {
    track.span(Operation::kForward, number, Clock::now(), Clock::now());
    track.span(Operation::kForward, -1, Clock::now(), Clock::now());
  };
  const auto step = [&](std::int64_t number) {
    const Clock::time_point start = Clock::now();
    spans(number);
    recorder.step(number, start, Clock::now());
  };
  step(0);
  EXPECT_EQ(recorder.span_count(), 0U);
  // As at a window's end: within a step, which is known only afterwards.
  const Clock::time_point start_of_1 = Clock::now();
  recorder.keep_spans(true);
  spans(1);
  recorder.step(1, start_of_1, Clock::now());
  step(2);
  const RecordedStep at_hand{3, Clock::now(), Clock::now() + std::chrono::seconds(1)};
  spans(3);
  const sim::Timeline two = recorder.recent(2, at_hand, "run", "device");
  ASSERT_EQ(two.steps.size(), 2U);
  EXPECT_EQ(two.steps[0].number, 2);
  EXPECT_EQ(two.steps[1].number, 3);
  EXPECT_GE(two.steps[1].start, two.steps[0].end);
  EXPECT_EQ(two.steps[1].end - two.steps[1].start,
            Picoseconds{(at_hand.end - at_hand.start).count() * 1000});
  std::vector<std::int32_t> numbers;
  std::size_t unnumbered = 0;
  for (const sim::TimelineSpan& span : two.spans) {
    const std::int32_t number = two.extra_of(span).step;
    if (number < 0) {
      ++unnumbered;
    } else {
      numbers.push_back(number);
    }
  }
  EXPECT_EQ(numbers, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(unnumbered, 2U);
  const sim::Timeline one = recorder.recent(3, at_hand, "run", "device");
  ASSERT_EQ(one.steps.size(), 1U) << "a window of one step";
  EXPECT_EQ(one.steps[0].number, 3);
  recorder.keep_spans(false);
  EXPECT_EQ(recorder.span_count(), 0U);
  step(4);
  EXPECT_EQ(recorder.span_count(), 0U);

  Recorder all(true);
  TrackRecorder& kept = all.add_track("work", sim::TrackKind::kHost);
  kept.span(Operation::kForward, 0, Clock::now(), Clock::now());
  all.keep_spans(true);
  all.keep_spans(false);
  EXPECT_EQ(all.span_count(), 1U) << "a trace stays whole";
}

/// As a GPU's streams, whose spans a trace has from elsewhere.
TEST(Recorder, KeepsSomeTracksOnlyWhenAsked) {
  Recorder recorder(true);
  TrackRecorder& always = recorder.add_track("always", sim::TrackKind::kHost);
  TrackRecorder& asked =
      recorder.add_track("asked", sim::TrackKind::kGpuKernels, SpansKept::kWhenAsked);
  const Clock::time_point now = Clock::now();
  const auto spans = [&] {
    for (TrackRecorder* track : {&always, &asked}) track->span(Operation::kForward, 0, now, now);
  };
  const auto recent = [&] {
    std::vector<std::string> tracks;
    const sim::Timeline timeline = recorder.recent(0, {0, now, now}, "run", "device");
    for (const sim::TimelineSpan& span : timeline.spans) {
      tracks.push_back(timeline.tracks[span.track].name);
    }
    return tracks;
  };
  spans();
  EXPECT_EQ(asked.recording(), 0U);
  recorder.keep_spans(true);
  const std::uint32_t first = asked.recording();
  EXPECT_GT(first, 0U);
  spans();
  EXPECT_EQ(recent(), (std::vector<std::string>{"always", "always", "asked"}));
  EXPECT_EQ(recorder.span_count(), 2U);
  const sim::Timeline trace = recorder.timeline("run", "device");
  ASSERT_EQ(trace.tracks.size(), 1U);
  EXPECT_EQ(trace.spans.size(), 2U);
  recorder.keep_spans(false);
  EXPECT_EQ(asked.recording(), 0U);
  EXPECT_EQ(recent(), (std::vector<std::string>{"always", "always"}));
  recorder.keep_spans(true);
  EXPECT_GT(asked.recording(), first) << "each recording has a number of its own";
  TrackRecorder& late = recorder.add_track("late", sim::TrackKind::kHost, SpansKept::kWhenAsked);
  EXPECT_EQ(late.recording(), asked.recording());
}

// Under the thread sanitizer: writers, and a training thread that turns keeping on and off.
TEST(Recorder, KeepsWhileTracksAreWritten) {
  Recorder recorder(false);
  constexpr std::size_t kWriters = 3;
  std::atomic<bool> done = false;
  std::vector<std::thread> writers;
  for (std::size_t w = 0; w < kWriters; ++w) {
    TrackRecorder& track = recorder.add_track(std::to_string(w), sim::TrackKind::kHost);
    writers.emplace_back([&track, &done] {
      while (!done) {
        const Clock::time_point start = Clock::now();
        track.span(Operation::kForward, 0, start, start + std::chrono::nanoseconds(1));
        track.copy(CopyDirection::kDeviceToHost, Traffic::kGradients, Operation::kGradientsDown, 0,
                   start, start + std::chrono::nanoseconds(1), 4);
        track.wait(WaitCause::kD2H, 0, start, start + std::chrono::nanoseconds(1));
        std::this_thread::sleep_for(std::chrono::microseconds(10));  // others want the lock, too
      }
    });
  }
  for (int round = 0; round < 20; ++round) {
    recorder.keep_spans(true);
    while (recorder.span_count() < 30) std::this_thread::yield();
    const Clock::time_point now = Clock::now();
    const sim::Timeline timeline = recorder.recent(0, {0, now, now}, "run", "device");
    EXPECT_GE(timeline.spans.size(), 30U);
    for (const sim::TimelineSpan& span : timeline.spans) {
      EXPECT_EQ(span.end - span.start, Picoseconds{1000});
    }
    recorder.keep_spans(false);
  }
  done = true;
  for (std::thread& writer : writers) writer.join();
}

}  // namespace
}  // namespace zenflow::runtime
