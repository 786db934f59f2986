/// The tuner's decisions, each with numbers worked by hand; and its monitors.
#include "runtime/tune/live_tuner.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "runtime/tune/candidates.h"
#include "runtime/tune/drift.h"
#include "tests/support/long_tests.h"

namespace zenflow::runtime {
namespace {

TunePoint interval(std::int64_t steps) {
  return {steps, 0.1};
}

/// A training whose step time is a function of S, and predictions of it that may be others.
class Loop {
 public:
  using Times = std::function<double(std::int64_t)>;

  Loop(TuneSettings settings, Times truth, Times predicted)
      : tuner_(settings),
        point_(settings.first),
        truth_(std::move(truth)),
        predicted_(std::move(predicted)),
        candidates_(
            tune_points(staleness_limit(settings.max_staleness, settings.overlap_step), {0.1})) {}

  void set_truth(Times truth) { truth_ = std::move(truth); }
  void set_prediction(Times predicted) { predicted_ = std::move(predicted); }
  void set_update_seconds(double seconds) { update_seconds_ = seconds; }
  void set_importance(std::int64_t due) { importance_ = due; }
  void set_noise(double noise, std::uint64_t seed = 1) {
    noise_ = noise;
    random_.seed(seed);
    normal_.reset();
  }
  void set_others_lately(std::optional<double> cores) { others_lately_ = cores; }
  void set_others_by_interval(Times cores) { others_by_interval_ = std::move(cores); }
  void set_steps_left(std::int64_t steps) { steps_left_ = steps; }
  void fail(int times) { failures_ = times; }
  void set_others(std::optional<double> cores, double threads, std::string remark) {
    other_cores_ = cores;
    other_threads_ = threads;
    remark_ = std::move(remark);
  }

  /// Windows of the training; a fit arrives one window after it was asked for.
  void run(int windows) {
    for (int i = 0; i < windows; ++i, ++window_) {
      const double factor = 1 + noise_ * normal_(random_);
      TuneWindow seen{.window = window_,
                      .point = point_,
                      .next_topk_ratio = point_.topk_ratio,
                      .steps = point_.update_interval,
                      .step_seconds = factor * truth_(point_.update_interval),
                      .importance_due = importance_,
                      .other_cores = others_lately_,
                      .steps_left = steps_left_ -= point_.update_interval};
      seen.busy[4] = factor * update_seconds_;
      if (others_by_interval_) seen.other_cores = others_by_interval_(point_.update_interval);
      std::optional<TuneFit> fit;
      if (asked_) fit = answer();
      const TuneOrder order = tuner_.window_ended(seen, fit);
      for (const TuneEvent& event : tuner_.events()) events_.push_back(event);
      EXPECT_TRUE(recorded_ || !order.fit) << "window " << window_;
      asked_ = order.fit;
      recorded_ = order.record;
      if (order.fit) recorded_for_fit_ = recorded_in_a_row_;
      if (order.anew) recorded_in_a_row_ = 0;
      recorded_in_a_row_ = order.record ? recorded_in_a_row_ + 1 : 0;
      longest_recording_ = std::max(longest_recording_, recorded_in_a_row_);
      if (!(order.next == point_)) ++changes_;
      visited_.push_back(order.next.update_interval);
      point_ = order.next;
    }
  }

  [[nodiscard]] std::int64_t steps() const { return point_.update_interval; }
  void end() {
    tuner_.end();
    for (const TuneEvent& event : tuner_.events()) events_.push_back(event);
  }

  [[nodiscard]] int longest_recording() const { return longest_recording_; }
  /// Windows of the last recording that was fitted.
  [[nodiscard]] int recorded_for_fit() const { return recorded_for_fit_; }
  [[nodiscard]] int changes() const { return changes_; }
  [[nodiscard]] const std::vector<TuneEvent>& events() const { return events_; }
  [[nodiscard]] const std::vector<std::int64_t>& visited() const { return visited_; }
  [[nodiscard]] int count(TuneEvent::Kind kind) const {
    int n = 0;
    for (const TuneEvent& event : events_) n += event.kind == kind ? 1 : 0;
    return n;
  }

 private:
  TuneFit answer() {
    if (failures_ > 0) {
      --failures_;
      return {.predictions = {}, .failure = "the recording is of something else"};
    }
    TuneFit fit;
    fit.other_cores = other_cores_;
    fit.other_threads = other_threads_;
    fit.remark = remark_;
    for (const TunePoint& one : candidates_) {
      fit.predictions.push_back({one, predicted_(one.update_interval)});
    }
    return fit;
  }

  LiveTuner tuner_;
  TunePoint point_;
  Times truth_;
  Times predicted_;
  std::vector<TunePoint> candidates_;
  double update_seconds_ = 1;
  std::int64_t importance_ = 0;
  double noise_ = 0;
  int failures_ = 0;
  std::optional<double> other_cores_;
  std::optional<double> others_lately_;
  Times others_by_interval_;
  std::int64_t steps_left_ = 1'000'000'000;
  int recorded_in_a_row_ = 0;
  int longest_recording_ = 0;
  int recorded_for_fit_ = 0;
  double other_threads_ = 0;
  std::string remark_;
  std::int64_t window_ = 1;
  bool asked_ = false;
  bool recorded_ = false;
  int changes_ = 0;
  std::vector<TuneEvent> events_;
  std::vector<std::int64_t> visited_;
  std::mt19937_64 random_{1};
  std::normal_distribution<double> normal_;
};

/// The update of 3.5 s fits into four steps of 1 s.
double stalls_below_four(std::int64_t steps) {
  return std::max(1.0, 3.5 / static_cast<double>(steps));
}

TEST(LiveTuner, GoesFromAPoorStartToTheLeastStaleOfTheFastest) {
  Loop loop({.first = interval(1)}, stalls_below_four, stalls_below_four);
  loop.run(12);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_EQ(loop.changes(), 1);
  const auto change = std::find_if(loop.events().begin(), loop.events().end(), [](const auto& e) {
    return e.kind == TuneEvent::Kind::kChange;
  });
  ASSERT_NE(change, loop.events().end());
  EXPECT_EQ(change->from, interval(1));
  EXPECT_EQ(change->to, interval(4));
  EXPECT_DOUBLE_EQ(change->measured, 3.5);
  EXPECT_DOUBLE_EQ(change->predicted, 1);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kOutcome), 1);
  const auto outcome = std::find_if(change, loop.events().end(), [](const auto& e) {
    return e.kind == TuneEvent::Kind::kOutcome;
  });
  ASSERT_NE(outcome, loop.events().end());
  EXPECT_EQ(outcome->reason, "as predicted");
}

// What is off by less than the slack is not recorded anew, but only what the noise that is stated
// can explain is as predicted.
TEST(LiveTuner, CallsAPredictionRightWithinTheNoiseAlone) {
  const auto off = [](std::int64_t s) { return s == 1 ? 3.5 : 1.007 * stalls_below_four(s); };
  Loop loop({.first = interval(1)}, off, stalls_below_four);
  loop.run(12);
  const auto outcome = std::find_if(loop.events().begin(), loop.events().end(), [](const auto& e) {
    return e.kind == TuneEvent::Kind::kOutcome;
  });
  ASSERT_NE(outcome, loop.events().end());
  EXPECT_EQ(outcome->reason, "0.7 % slower than predicted: tolerated");
  EXPECT_LT(outcome->noise, 0.0069) << "ln 1.007";
}

// One recording does not tell all rates apart, so that a setting far away may be predicted well and
// its neighbours not: here that 4 and more are equal.
TEST(LiveTuner, RecordsTheFirstSettingThatItChooses) {
  const auto as_seen_from_one = [](std::int64_t s) { return s == 1 ? 3.5 : s < 4 ? 2.0 : 1.0; };
  const auto truth = [](std::int64_t s) { return s == 1 ? 3.5 : s < 4 ? 2.0 : s < 6 ? 1.0 : 0.8; };
  Loop loop({.first = interval(1)}, truth, as_seen_from_one);
  while (loop.changes() == 0) loop.run(1);
  EXPECT_EQ(loop.steps(), 4);
  loop.set_prediction(truth);
  loop.run(7);
  EXPECT_EQ(loop.steps(), 6);
  loop.run(40);
  EXPECT_EQ(loop.changes(), 2);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kFitted), 2) << "the second one is not recorded";
}

TEST(LiveTuner, GivesUpWhatIsWithinTheSlackForLessStaleness) {
  // 0.8 % faster at 8 than at 4: not worth it.
  const auto times = [](std::int64_t s) { return s < 4 ? 2.0 : s < 8 ? 1.008 : 1.0; };
  Loop loop({.first = interval(16)}, times, times);
  loop.run(12);
  EXPECT_EQ(loop.steps(), 4);
}

// A step takes 40 ms, and each update makes one 8 ms longer, of which the profile knows nothing:
// to it all settings are alike. At S = 5 it explains 40 of 41.6 ms. Were the rest of updates, S = 4
// would take 42 ms, within the slack of 1 %, and S = 3 42.7 ms: so they do.
TEST(LiveTuner, WhatAProfileDoesNotExplainMayBeOfUpdates) {
  const auto truth = [](std::int64_t s) { return 0.040 + 0.008 / static_cast<double>(s); };
  const auto predicted = [](std::int64_t) { return 0.040; };
  Loop blind({.first = interval(5)}, truth, predicted);
  blind.run(60);
  EXPECT_EQ(*std::min_element(blind.visited().begin(), blind.visited().end()), 4);
  EXPECT_EQ(blind.changes(), 1);
  // Where nothing is left to explain, a prediction is believed.
  Loop explained({.first = interval(5)}, predicted, predicted);
  explained.run(60);
  EXPECT_EQ(explained.steps(), 1);
}

TEST(LiveTuner, TakesMoreColumnsAtTheSameStaleness) {
  LiveTuner tuner({.first = {4, 0.1}});
  TuneWindow seen{.point = {4, 0.1}, .next_topk_ratio = 0.1, .steps = 4, .step_seconds = 1};
  TuneOrder order;
  std::optional<TuneFit> fit;
  for (seen.window = 1; seen.window < 6 && order.next == seen.point; ++seen.window) {
    order = tuner.window_ended(seen, fit);
    fit.reset();
    if (order.fit) {
      fit = {.predictions = {{{4, 0.2}, 1.0}, {{4, 0.15}, 1.0}, {{4, 0.1}, 1.0}, {{4, 0.3}, 1.1}},
             .failure = {}};
    }
    if (seen.window == 1) order.next = seen.point;
  }
  EXPECT_EQ(order.next, (TunePoint{4, 0.2}));
}

TEST(LiveTuner, KeepsWithinMaxStaleness) {
  for (const bool overlap : {true, false}) {
    for (std::int64_t most = 0; most < 40; ++most) {
      if (overlap && most == 0) continue;  // S = 1 is 1 step stale
      const auto times = [](std::int64_t s) { return 1 + 10 / static_cast<double>(s); };
      Loop loop({.first = interval(1), .max_staleness = most, .overlap_step = overlap}, times,
                times);
      loop.run(40);
      std::int64_t before = 1;
      for (const std::int64_t s : loop.visited()) {
        EXPECT_LE(s - 1 + (overlap ? before : 0), most);
        before = s;
      }
    }
  }
}

TEST(LiveTuner, GoesBackWhenTheGainDoesNotComeTrue) {
  // 4 is said to be much faster than 2. It is slower.
  const auto truth = [](std::int64_t s) { return s == 2 ? 1.0 : s == 1 ? 1.2 : 1.3; };
  const auto predicted = [](std::int64_t s) { return s < 4 ? 2.0 : 1.0; };
  Loop loop({.first = interval(2)}, truth, predicted);
  loop.run(200);
  EXPECT_EQ(loop.steps(), 2);
  EXPECT_LE(loop.changes(), 4);
  EXPECT_EQ(std::count(loop.visited().end() - 150, loop.visited().end(), 2), 150);
}

// The same, less roughly: that noise leaves some doubt of what both take does not keep it where it
// is slower.
TEST(LiveTuner, GoesBackBesideNoiseToo) {
  const auto truth = [](std::int64_t s) { return s == 2 ? 1.0 : s == 4 ? 1.08 : 1.2; };
  const auto predicted = [](std::int64_t s) { return s == 2 ? 1.0 : s == 4 ? 0.9 : 1.2; };
  for (std::uint64_t seed = 1; seed <= testing::tried(50U); ++seed) {
    Loop loop({.first = interval(2)}, truth, predicted);
    loop.set_noise(0.02, seed);
    loop.run(200);
    EXPECT_EQ(loop.steps(), 2) << seed;
    EXPECT_GE(loop.changes(), 2) << seed;
    EXPECT_LE(loop.changes(), 4) << seed;
  }
}

// 3 % are less than what 10 % of noise leave in doubt of 32 windows.
TEST(LiveTuner, LooksAgainHoweverLongItTakes) {
  const auto times = [](std::int64_t s) { return s == 8 ? 0.97 : 1.0; };
  for (std::uint64_t seed = 1; seed <= 5; ++seed) {
    Loop loop({.first = interval(1), .max_staleness = 15}, times, times);
    loop.set_noise(0.1, seed);
    loop.run(1000);
    EXPECT_EQ(loop.steps(), 8) << seed;
  }
}

TEST(LiveTuner, LearnsFromWhatItTried) {
  // The model is wrong by a factor that depends on S: still no setting is tried twice.
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> factor(0.7, 1.4);
  const int rounds = testing::long_tests() ? 200 : testing::tried(20);
  for (int round = 0; round < rounds; ++round) {
    std::map<std::int64_t, double> wrong;
    for (std::int64_t s = 1; s <= 16; ++s) wrong[s] = factor(random);
    const auto predicted = [&](std::int64_t s) { return stalls_below_four(s) * wrong.at(s); };
    Loop loop({.first = interval(1)}, stalls_below_four, predicted);
    loop.run(300);
    EXPECT_LE(loop.changes(), 10) << "round " << round;
    EXPECT_EQ(loop.count(TuneEvent::Kind::kOutcome), loop.changes()) << "round " << round;
    const std::vector<std::int64_t>& last = loop.visited();
    EXPECT_EQ(std::count(last.end() - 100, last.end(), last.back()), 100) << "round " << round;
  }
}

// S = 2 is as near to S = 1, where steps take less than the profile says, as to S = 4, where it is
// right. By the former it takes 0.698 s, as fast as S = 4 and less stale; by the latter it does
// not.
TEST(LiveTuner, OfTwoThatAreAsNearTheSettingAtHandCorrectsAPrediction) {
  const auto predicted = [](std::int64_t steps) {
    return steps == 1 ? 1.06 : steps == 2 ? 0.74 : steps == 3 ? 0.735 : steps == 4 ? 0.7 : 0.72;
  };
  const auto truth = [&](std::int64_t steps) { return steps == 1 ? 1.0 : predicted(steps); };
  Loop loop({.first = interval(1)}, truth, predicted);
  loop.run(40);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_EQ(loop.changes(), 1);
}

// S = 7 lies between S = 12, where steps take less than the profile says, and S = 4, where it is
// right. So S = 7 may be as fast as it looks from there: it is tried, once.
TEST(LiveTuner, WhatTwoSayDifferentlyIsTriedOnce) {
  const auto predicted = [](std::int64_t steps) {
    return steps == 12 ? 1.0 : steps == 4 ? 0.7 : steps == 7 ? 0.72 : 0.85;
  };
  const auto truth = [&](std::int64_t steps) { return steps == 12 ? 0.9 : predicted(steps); };
  Loop loop({.first = interval(12)}, truth, predicted);
  loop.run(100);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_LE(loop.changes(), 3);
}

// S = 8 is promised to be faster than S = 4 and is not. That the whole machine then slows down is
// no reason to try again; that S = 8 alone is predicted to take less than before is one.
TEST(LiveTuner, ADriftIsNoReasonToTryAgainWhatIsPredictedAsBefore) {
  const auto all_slower_by = [](double factor) {
    return [factor](std::int64_t steps) { return factor * (steps == 4 ? 1.0 : 1.03); };
  };
  const auto predicted = [](double factor, double of_eight) {
    return [=](std::int64_t steps) {
      return factor * (steps == 4 ? 1.0 : steps == 8 ? of_eight : 1.2);
    };
  };
  Loop loop({.first = interval(4)}, all_slower_by(1), predicted(1, 0.94));
  loop.run(40);
  ASSERT_EQ(loop.steps(), 4);
  ASSERT_EQ(loop.changes(), 2);
  loop.set_truth(all_slower_by(1.3));
  loop.set_prediction(predicted(1.3, 0.94));
  loop.run(40);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 1);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_EQ(loop.changes(), 2);
  loop.set_truth(all_slower_by(1));
  loop.set_prediction(predicted(1, 0.8));
  loop.run(40);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 2);
  EXPECT_EQ(loop.changes(), 4) << "there and back";
}

// All S take the same. A machine that becomes slower by less than a drift is so at every S: what
// S = 4 took before is no reason to go back.
TEST(LiveTuner, WhatSlowsOneSettingDownIsTakenToSlowAll) {
  const auto one = [](std::int64_t) { return 1.0; };
  Loop loop({.first = interval(4)}, one, one);
  loop.run(9);
  ASSERT_EQ(loop.steps(), 1);
  ASSERT_EQ(loop.changes(), 1);
  loop.set_truth([](std::int64_t) { return 1.019; });
  loop.run(60);
  EXPECT_EQ(loop.steps(), 1);
  EXPECT_EQ(loop.changes(), 1);
}

TEST(LiveTuner, AnswersASlowerOptimizerAndItsRecovery) {
  Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
  loop.set_update_seconds(3.5);
  loop.run(20);
  ASSERT_EQ(loop.steps(), 4);
  const auto slow = [](std::int64_t s) { return std::max(1.0, 7 / static_cast<double>(s)); };
  loop.set_truth(slow);
  loop.set_prediction(slow);
  loop.set_update_seconds(7);
  loop.run(6);
  EXPECT_EQ(loop.steps(), 7);
  loop.run(20);
  // Steps of 7 windows do not get faster when the optimizer does: its own time tells.
  loop.set_truth(stalls_below_four);
  loop.set_prediction(stalls_below_four);
  loop.set_update_seconds(3.5);
  loop.run(8);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_EQ(loop.changes(), 2);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 2);
}

/// What was recorded when the drift was noticed may have begun before it, while something else was
/// doubted. Such a fit changes nothing, so no outcome tells that it is wrong; its share of the step
/// does.
TEST(LiveTuner, AFitThatExplainsAnotherShareOfTheStepIsMadeOnceMore) {
  Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
  loop.run(12);
  ASSERT_EQ(loop.count(TuneEvent::Kind::kFitted), 1);
  const auto slower = [](std::int64_t s) { return std::max(1.0, 14 / static_cast<double>(s)); };
  loop.set_truth(slower);
  while (loop.count(TuneEvent::Kind::kFitted) < 2) loop.run(1);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_NE(loop.events().back().reason.find("28.6 % of the step, not 100.0 %: recorded anew"),
            std::string::npos)
      << loop.events().back().reason;
  loop.set_prediction(slower);
  loop.run(12);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kFitted), 4) << "and the setting that was chosen by it";
  EXPECT_EQ(loop.steps(), 15);
  // Once: what is left over then is threads that wait for each other, or anything else.
  loop.set_truth([](std::int64_t) { return 30.0; });
  loop.run(40);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kFitted), 6);
}

/// So that a load that begins while something else is doubted is not fitted together with what was
/// before it.
TEST(LiveTuner, ARecordingInDoubtBeginsAnewWithTheNextDoubt) {
  Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
  loop.set_others_lately(0.0);
  loop.run(20);
  ASSERT_EQ(loop.count(TuneEvent::Kind::kFitted), 1);
  loop.set_update_seconds(1.4);  // a doubt
  loop.run(1);
  loop.set_update_seconds(1.1);  // that stays one
  loop.run(4);
  ASSERT_GE(loop.longest_recording(), 5);
  ASSERT_EQ(loop.count(TuneEvent::Kind::kDrift), 0);
  loop.set_others_lately(0.9);
  while (loop.count(TuneEvent::Kind::kFitted) < 2) loop.run(1);
  ASSERT_EQ(loop.count(TuneEvent::Kind::kDrift), 1);
  EXPECT_EQ(loop.recorded_for_fit(), 2) << "since the load is there";
}

TEST(LiveTuner, AFitBesideAnotherLoadThanThereIsIsMadeOnceMore) {
  Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
  loop.set_others_lately(0.9);
  loop.set_others(0.46, 0.5, "");  // half of the recording
  while (loop.count(TuneEvent::Kind::kFitted) < 1) loop.run(1);
  EXPECT_EQ(loop.events().back().reason,
            "beside other programs on 0.46 cores the profile explains 100.0 % of the step, now on "
            "0.90 cores: recorded anew");
  loop.set_others(0.9, 1, "");
  loop.run(30);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kFitted), 2);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 0);
}

TEST(LiveTuner, SaysWhatOtherProgramsUsedWhileItRecorded) {
  const auto fitted = [](std::optional<double> cores, double threads, const std::string& remark) {
    Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
    loop.set_others(cores, threads, remark);
    loop.run(12);
    const auto found = std::find_if(loop.events().begin(), loop.events().end(), [](const auto& e) {
      return e.kind == TuneEvent::Kind::kFitted;
    });
    EXPECT_NE(found, loop.events().end());
    return *found;
  };
  const TuneEvent busy = fitted(0.664, 1, "");
  EXPECT_EQ(busy.other_cores, 0.664);
  EXPECT_EQ(busy.other_threads, 1);
  EXPECT_EQ(busy.reason,
            "beside other programs on 0.66 cores the profile explains 100.0 % of the step");
  const TuneEvent quiet = fitted(0, 0, "");
  EXPECT_EQ(quiet.other_cores, 0);
  EXPECT_EQ(quiet.reason, "the profile explains 100.0 % of the step");
  const TuneEvent dark = fitted(std::nullopt, 0, "no ticks");
  EXPECT_EQ(dark.other_cores, std::nullopt);
  EXPECT_EQ(dark.reason,
            "the profile explains 100.0 % of the step (what other programs use is not known: no "
            "ticks)");
}

TEST(LiveTuner, DoesNotWaitLongerThanUntilDeferredGradientsAreDue) {
  Loop loop({.first = interval(8)}, stalls_below_four, stalls_below_four);
  loop.set_importance(3);
  loop.run(12);
  EXPECT_EQ(loop.steps(), 3);
  loop.set_importance(6);
  loop.run(24);
  EXPECT_EQ(loop.steps(), 4) << "due after 6, but 4 is the fastest";
  loop.set_importance(2);
  loop.run(12);
  EXPECT_EQ(loop.steps(), 2);
  const int before = loop.changes();
  for (int i = 0; i < 100; ++i) {  // fluttering between two values
    loop.set_importance(2 + i % 2);
    loop.run(1);
  }
  EXPECT_LE(loop.changes() - before, 1);
}

TEST(LiveTuner, ImportanceLimitsTheFirstChoiceToo) {
  Loop loop({.first = interval(1)}, stalls_below_four, stalls_below_four);
  loop.set_importance(2);
  loop.run(12);
  EXPECT_EQ(loop.steps(), 2);
  EXPECT_EQ(loop.changes(), 1);
}

TEST(LiveTuner, GivesUpOnRecordingsThatCannotBeUsed) {
  Loop loop({.first = interval(2)}, stalls_below_four, stalls_below_four);
  loop.fail(100);
  loop.run(100);
  EXPECT_EQ(loop.steps(), 2);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kFailed), 3);
  loop.fail(0);
  loop.set_truth([](std::int64_t s) { return 2 * stalls_below_four(s); });
  loop.run(10);
  EXPECT_EQ(loop.steps(), 4) << "a drift is worth another try";
}

TEST(LiveTuner, OneFailureIsNotTheEnd) {
  Loop loop({.first = interval(2)}, stalls_below_four, stalls_below_four);
  loop.fail(1);
  loop.run(12);
  EXPECT_EQ(loop.steps(), 4);
}

TEST(LiveTuner, StaysPutUnderNoise) {
  for (const double noise : {0.01, 0.03, 0.1}) {
    Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
    loop.set_noise(noise);
    loop.run(1000);
    EXPECT_LE(loop.changes(), 1) << noise;
    EXPECT_EQ(loop.steps(), 4) << noise;
  }
}

// 4 % of a noisy step add up slowly; that somebody else is there is seen at once.
TEST(LiveTuner, ALoadIsAnsweredBeforeStepTimesTell) {
  const auto times = [](double slower) {
    return [slower](std::int64_t s) { return 1 + slower * 0.08 / static_cast<double>(s); };
  };
  Loop loop({.first = interval(4)}, times(0), times(0));
  loop.set_others_lately(0.0);
  loop.run(20);
  const int before = loop.count(TuneEvent::Kind::kDrift);
  EXPECT_EQ(before, 0);
  loop.set_truth(times(1));
  loop.set_prediction(times(1));
  loop.set_others_lately(0.85);
  loop.run(1);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 0) << "one window says nothing";
  loop.run(1);
  ASSERT_EQ(loop.count(TuneEvent::Kind::kDrift), 1);
  EXPECT_NE(loop.events().back().reason.find("other programs use 0.85 cores, not 0.00"),
            std::string::npos);
  loop.run(20);  // settles at another S
  // Another thread of the same load comes and goes: what moves by less than 0.3 cores is no other.
  for (const double cores : {0.9, 0.7, 1.1, 0.85}) {
    loop.set_others_lately(cores);
    loop.run(3);
  }
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 1);
  // Not known is not gone.
  loop.set_others_lately(std::nullopt);
  loop.run(10);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 1);
  loop.set_others_lately(0.0);
  loop.run(4);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 2);
}

// Beside another setting of ours other programs get more or less of the cores.
TEST(LiveTuner, WhatItsOwnChangeLeavesToOthersIsNoDrift) {
  Loop loop({.first = interval(1)}, stalls_below_four, stalls_below_four);
  loop.set_others_by_interval([](std::int64_t s) { return s < 4 ? 0.5 : 0.95; });
  loop.run(60);
  EXPECT_EQ(loop.steps(), 4);
  EXPECT_EQ(loop.changes(), 1);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 0);
  EXPECT_EQ(loop.count(TuneEvent::Kind::kOutcome), 1);
}

TuneEvent last_outcome(const Loop& loop) {
  const auto found = std::find_if(loop.events().rbegin(), loop.events().rend(), [](const auto& e) {
    return e.kind == TuneEvent::Kind::kOutcome;
  });
  return found == loop.events().rend() ? TuneEvent{} : *found;
}

// S follows importance, the median of five windows, from 8 to 3, and to 2 before that could be
// measured twice.
TEST(LiveTuner, EveryChangeHasAnOutcomeWhateverComesBetween) {
  const auto times = [](std::int64_t s) { return s < 8 ? 2.0 : 1.0; };
  Loop loop({.first = interval(8), .max_staleness = 15}, times, times);
  loop.run(20);
  ASSERT_EQ(loop.changes(), 0);
  for (const std::int64_t due : {3, 2, 3, 2, 2}) {
    loop.set_importance(due);
    loop.run(1);
  }
  EXPECT_EQ(loop.changes(), 2);
  EXPECT_EQ(loop.steps(), 2);
  ASSERT_EQ(loop.count(TuneEvent::Kind::kOutcome), 1);
  EXPECT_EQ(last_outcome(loop).from, interval(8));
  EXPECT_EQ(last_outcome(loop).to, interval(3));
  EXPECT_EQ(last_outcome(loop).reason, "after 1 window: changed again");
  EXPECT_DOUBLE_EQ(last_outcome(loop).measured, 2);
  loop.run(2);
  loop.end();
  EXPECT_EQ(loop.count(TuneEvent::Kind::kOutcome), 2);
  EXPECT_EQ(last_outcome(loop).to, interval(2));
  EXPECT_EQ(last_outcome(loop).reason, "after 1 window: the run has ended");
  loop.end();
  EXPECT_EQ(loop.count(TuneEvent::Kind::kOutcome), 2) << "it is told once";
}

TEST(LiveTuner, AChangeThatNothingWasPredictedOfHasAnOutcome) {
  Loop loop({.first = interval(8)}, stalls_below_four, stalls_below_four);
  loop.fail(100);
  loop.run(20);
  loop.set_importance(2);
  loop.run(20);
  EXPECT_EQ(loop.steps(), 2);
  EXPECT_EQ(last_outcome(loop).reason, "nothing was predicted");
  EXPECT_EQ(last_outcome(loop).predicted, 0);
  EXPECT_DOUBLE_EQ(last_outcome(loop).measured, 1.75);
}

// Nothing says that it was nothing: what others use is not known from then on.
TEST(LiveTuner, ADoubtThatLastsIsNotRecordedForEver) {
  Loop loop({.first = interval(4)}, stalls_below_four, stalls_below_four);
  loop.set_others_lately(0.0);
  loop.run(20);
  const int before = loop.longest_recording();
  loop.set_others_lately(0.9);
  loop.run(1);
  loop.set_others_lately(std::nullopt);
  loop.run(100);
  EXPECT_GT(loop.longest_recording(), before);
  EXPECT_LE(loop.longest_recording(), 10);
}

TEST(LiveTuner, AColdFirstWindowIsOfNoSetting) {
  for (const bool cold : {false, true}) {
    double start = 50;
    Loop loop(
        {.first = interval(4), .begins_cold = cold},
        [&](std::int64_t s) { return std::exchange(start, 1) * stalls_below_four(s); },
        stalls_below_four);
    loop.run(12);
    const auto fitted = std::find_if(loop.events().begin(), loop.events().end(), [](const auto& e) {
      return e.kind == TuneEvent::Kind::kFitted;
    });
    ASSERT_NE(fitted, loop.events().end());
    if (cold) {
      EXPECT_DOUBLE_EQ(fitted->measured, 1);
    } else {
      EXPECT_GT(fitted->measured, 10);
    }
    EXPECT_EQ(loop.count(TuneEvent::Kind::kDrift), 0);
  }
}

TEST(LiveTuner, AtTheEndNothingIsBegun) {
  // The fit would be there in window 6, after 1 step each.
  for (const std::int64_t steps : {6, 7}) {
    Loop loop({.first = interval(1)}, stalls_below_four, stalls_below_four);
    loop.set_steps_left(steps);
    loop.run(static_cast<int>(steps));
    EXPECT_EQ(loop.changes(), steps == 6 ? 0 : 1) << steps;
  }
}

// Among the windows that a reference is made of, too, as is usual for the first after a warm-up.
TEST(DriftMonitor, OneWindowIsNoDriftWhereverItIs) {
  for (const double factor : {0.2, 0.7, 1.3, 5.0}) {
    for (int odd = 0; odd < 6; ++odd) {
      DriftMonitor monitor({.allowance = 0.02, .threshold = 0.06});
      for (int i = 0; i < 20; ++i) {
        monitor.add(i == odd ? factor : 1, 1);
        EXPECT_FALSE(monitor.alarmed()) << "window " << odd << " of " << factor << ", at " << i;
      }
    }
  }
}

TEST(UseMonitor, OneValueIsNoDriftWhereverItIs) {
  for (int odd = 0; odd < 6; ++odd) {
    UseMonitor monitor;
    for (int i = 0; i < 12; ++i) {
      monitor.add(i == odd ? 0.9 : 0.05, 1);
      EXPECT_FALSE(monitor.alarmed()) << "value " << odd << ", at " << i;
    }
    monitor.add(0.9, 1);
    monitor.add(0.9, 1);
    EXPECT_TRUE(monitor.alarmed());
  }
}

TEST(DriftMonitor, AWindowOfWhichNothingIsKnownEndsADoubt) {
  DriftMonitor monitor({.allowance = 0.02, .threshold = 0.06});
  for (int i = 0; i < 20; ++i) monitor.add(1, 1);
  monitor.add(2, 1);
  EXPECT_TRUE(monitor.suspicious());
  monitor.skip();
  EXPECT_FALSE(monitor.suspicious());
  monitor.add(2, 1);
  EXPECT_FALSE(monitor.alarmed());
}

TEST(DriftMonitor, OneWindowIsNoDrift) {
  DriftMonitor monitor({.allowance = 0.02, .threshold = 0.06});
  for (int i = 0; i < 20; ++i) monitor.add(1, 1);
  monitor.add(100, 1);
  EXPECT_FALSE(monitor.alarmed());
  EXPECT_TRUE(monitor.suspicious());
  for (int i = 0; i < 20; ++i) monitor.add(1, 1);
  EXPECT_FALSE(monitor.alarmed());
}

TEST(DriftMonitor, TwoAre) {
  for (const double factor : {0.5, 2.0}) {
    DriftMonitor monitor({.allowance = 0.1, .threshold = 0.3});
    for (int i = 0; i < 20; ++i) monitor.add(3, 1);
    monitor.add(3 * factor, 1);
    EXPECT_FALSE(monitor.alarmed());
    monitor.add(3 * factor, 1);
    EXPECT_TRUE(monitor.alarmed());
    EXPECT_DOUBLE_EQ(monitor.factor(), factor);
    monitor.restart();
    for (int i = 0; i < 20; ++i) monitor.add(3 * factor, 1);
    EXPECT_FALSE(monitor.alarmed());
  }
}

TEST(DriftMonitor, SmallChangesAddUpUnlessAllowed) {
  DriftMonitor monitor({.allowance = 0.02, .threshold = 0.06});
  for (int i = 0; i < 50; ++i) monitor.add(1, 1);
  for (int i = 0; i < 50; ++i) monitor.add(1.019, 1);
  EXPECT_FALSE(monitor.alarmed());
  for (int i = 0; i < 10; ++i) monitor.add(1.06, 1);
  EXPECT_TRUE(monitor.alarmed());
}

TEST(NoiseEstimate, FindsTheSpread) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal(0, 0.05);
  NoiseEstimate noise;
  double before = normal(random);
  for (int i = 0; i < 2000; ++i) {
    const double now = normal(random);
    noise.add(now - before);
    before = now;
  }
  EXPECT_NEAR(noise.sigma(), 0.05, 0.015);  // it remembers about 50 differences
}

TEST(TunePoints, AreDenseWhereItMatters) {
  std::vector<std::int64_t> steps;
  for (const TunePoint& point : tune_points(31, {0.1})) steps.push_back(point.update_interval);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 18, 22, 27, 31}));
  const std::vector<TunePoint> both = tune_points(2, {0.1, 0.2});
  ASSERT_EQ(both.size(), 4U);
  EXPECT_EQ(both[0], (TunePoint{1, 0.2}));
  EXPECT_EQ(both[3], (TunePoint{2, 0.1}));
}

TEST(StalenessLimit, IsThatOfTheEngine) {
  EXPECT_EQ(staleness_limit(31, true), 16);
  EXPECT_EQ(staleness_limit(30, true), 15);
  EXPECT_EQ(staleness_limit(7, false), 8);
}

}  // namespace
}  // namespace zenflow::runtime
