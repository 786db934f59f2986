/// The tuner's decisions about topk_ratio, with numbers worked by hand.
#include <algorithm>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "runtime/tune/candidates.h"
#include "runtime/tune/live_tuner.h"

namespace zenflow::runtime {
namespace {

/// A training as an engine runs it: another S holds from the next window on, another k from the one
/// after. Predictions are the truth.
class Loop {
 public:
  using Times = std::function<double(const TunePoint&)>;

  Loop(const TuneSettings& settings, std::vector<double> ratios, Times truth)
      : tuner_(settings),
        point_(settings.first),
        truth_(std::move(truth)),
        candidates_(
            tune_points(staleness_limit(settings.max_staleness, settings.overlap_step), ratios)) {}

  /// The window at hand, and the k of the one after it.
  void resume_in(const TunePoint& at_hand, double next_ratio) {
    point_ = at_hand;
    next_ratio_ = next_ratio;
  }
  void set_costs(double carry_seconds, double reorder_seconds, std::int64_t steps) {
    carry_seconds_ = carry_seconds;
    reorder_seconds_ = reorder_seconds;
    steps_left_ = steps;
  }
  void set_selection_seconds(double seconds) { selection_seconds_ = seconds; }
  void set_shares(std::vector<DeferredShare> shares) { shares_ = std::move(shares); }

  void run(int windows) {
    for (int i = 0; i < windows; ++i, ++window_) {
      TuneWindow seen{.window = window_,
                      .point = point_,
                      .next_topk_ratio = next_ratio_,
                      .steps = point_.update_interval,
                      .step_seconds = truth_(point_),
                      .deferred_shares = shares_};
      if (steps_left_ > 0) seen.steps_left = steps_left_ -= point_.update_interval;
      if (next_ratio_ != point_.topk_ratio) seen.selection_seconds = selection_seconds_;
      const TuneOrder order =
          tuner_.window_ended(seen, asked_ ? std::optional(answer()) : std::nullopt);
      for (const TuneEvent& event : tuner_.events()) events_.push_back(event);
      asked_ = order.fit;
      point_ = {order.next.update_interval, next_ratio_};
      next_ratio_ = order.next.topk_ratio;
    }
  }

  [[nodiscard]] const TunePoint& point() const { return point_; }
  [[nodiscard]] std::vector<TuneEvent> events(TuneEvent::Kind kind) const {
    std::vector<TuneEvent> some;
    std::copy_if(events_.begin(), events_.end(), std::back_inserter(some),
                 [&](const TuneEvent& event) { return event.kind == kind; });
    return some;
  }

 private:
  TuneFit answer() {
    TuneFit fit;
    for (const TunePoint& one : candidates_) fit.predictions.push_back({one, truth_(one)});
    fit.carry_seconds = carry_seconds_;
    fit.reorder_seconds = reorder_seconds_;
    return fit;
  }

  LiveTuner tuner_;
  TunePoint point_;
  double next_ratio_ = point_.topk_ratio;
  Times truth_;
  std::vector<TunePoint> candidates_;
  double carry_seconds_ = 0;
  double reorder_seconds_ = 0;
  double selection_seconds_ = 0.25;
  std::int64_t steps_left_ = 0;
  std::vector<DeferredShare> shares_;
  std::int64_t window_ = 1;
  bool asked_ = false;
  std::vector<TuneEvent> events_;
};

const std::vector<double> kRatios = {0.1, 0.2, 0.4, 0.8};

/// The update of 4 (1 - k) s has to fit into S steps of 1 + k / 2 s.
double slow_optimizer(const TunePoint& point) {
  return std::max(1 + 0.5 * point.topk_ratio,
                  4 * (1 - point.topk_ratio) / static_cast<double>(point.update_interval));
}

/// Four steps or more, and as few columns as may be.
double four_steps_and_few_columns(const TunePoint& point) {
  return (point.update_interval < 4 ? 10 : 1) + point.topk_ratio;
}

TEST(TopkRatios, AreBothEndsThreeBetweenAndTheCurrentOne) {
  EXPECT_EQ(topk_ratios(0.05, 0.4, 0.1),
            (std::vector<double>{0.05, 0.0841, 0.1, 0.141, 0.238, 0.4}));
  EXPECT_EQ(topk_ratios(0.01, 0.16, 0.02), (std::vector<double>{0.01, 0.02, 0.04, 0.08, 0.16}));
  EXPECT_EQ(topk_ratios(0.1, 0.1, 0.1), std::vector<double>{0.1});
  // high / low is no double here.
  EXPECT_EQ(topk_ratios(1e-300, 1e+20, 1e+20),
            (std::vector<double>{1e-300, 1e-220, 1e-140, 1e-60, 1e+20}));
}

TEST(LiveTunerRatios, WhereStalenessMayNotGrowMoreColumnsRemoveTheStall) {
  Loop loop({.first = {1, 0.1}, .max_staleness = 1}, kRatios, slow_optimizer);
  loop.run(12);
  EXPECT_EQ(loop.point(), (TunePoint{1, 0.8}));  // 1.4 s; 2.4 s with 0.4
  const auto changes = loop.events(TuneEvent::Kind::kChange);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].from, (TunePoint{1, 0.1}));
  EXPECT_EQ(changes[0].to, (TunePoint{1, 0.8}));
  EXPECT_DOUBLE_EQ(changes[0].measured, 3.6);
  EXPECT_DOUBLE_EQ(changes[0].predicted, 1.4);
}

TEST(LiveTunerRatios, MoreColumnsAreTakenWhereTheyCostNothing) {
  Loop loop({.first = {2, 0.1}}, kRatios, [](const TunePoint& point) {
    return point.update_interval < 2 ? 2 : point.topk_ratio > 0.4 ? 1.1 : 1;
  });
  loop.run(12);
  EXPECT_EQ(loop.point(), (TunePoint{2, 0.4}));
  const auto changes = loop.events(TuneEvent::Kind::kChange);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].reason, "more columns in time, within 1 % of the fastest");
}

TEST(LiveTunerRatios, BothChangeTogether) {
  // 1.05 s with 4 steps and 0.1; 1 % more allows no other: 1.1 s with 0.2, 1.2 s with 3 steps.
  Loop loop({.first = {1, 0.8}}, kRatios, slow_optimizer);
  loop.run(12);
  EXPECT_EQ(loop.point(), (TunePoint{4, 0.1}));
  EXPECT_EQ(loop.events(TuneEvent::Kind::kChange).size(), 1U);
}

TEST(LiveTunerRatios, TheWindowInWhichColumnsChangePlaceIsNoOther) {
  Loop loop({.first = {1, 0.1}, .max_staleness = 1}, kRatios, slow_optimizer);
  loop.run(40);
  EXPECT_EQ(loop.events(TuneEvent::Kind::kDrift).size(), 0U);
  EXPECT_EQ(loop.events(TuneEvent::Kind::kFitted).size(), 2U) << "before and after the change";
  const auto outcomes = loop.events(TuneEvent::Kind::kOutcome);
  ASSERT_EQ(outcomes.size(), 1U);
  EXPECT_EQ(outcomes[0].reason, "as predicted");
  EXPECT_DOUBLE_EQ(outcomes[0].measured, 1.4);
  EXPECT_DOUBLE_EQ(outcomes[0].selection_seconds, 0.25);
  EXPECT_EQ(loop.events(TuneEvent::Kind::kChange)[0].window + 4, outcomes[0].window)
      << "one window until columns change place, one that has both, two that are measured";
}

TEST(LiveTunerRatios, AChangeHasToPayBackWhatItTakes) {
  // From 0.1 to 0.8: at most 0.9 * 10 s + 1 s. 2.2 s are gained in a step.
  const TuneSettings settings{.first = {1, 0.1}, .max_staleness = 1};
  for (const bool pays : {false, true}) {
    Loop loop(settings, {0.1, 0.8}, slow_optimizer);
    loop.set_costs(10, 1, pays ? 20 : 10);
    loop.run(9);
    EXPECT_EQ(loop.point().topk_ratio, pays ? 0.8 : 0.1);
    if (!pays) continue;
    EXPECT_DOUBLE_EQ(loop.events(TuneEvent::Kind::kChange)[0].selection_seconds, 10);
  }
}

TEST(LiveTunerRatios, AChangeThatTookLongerMakesTheNextOneDearer) {
  const TuneSettings settings{.first = {1, 0.1}, .max_deferred_share = 0.5};
  Loop loop(settings, kRatios, [](const TunePoint& point) { return 1 + point.topk_ratio; });
  loop.set_costs(1, 0, 1'000'000);
  loop.set_shares({{0.1, 0.9}, {0.2, 0.8}, {0.4, 0.45}, {0.8, 0.1}});
  loop.set_selection_seconds(5);
  loop.run(12);
  loop.set_shares({{0.1, 0.9}, {0.2, 0.9}, {0.4, 0.9}, {0.8, 0.1}});
  loop.run(12);
  const auto changes = loop.events(TuneEvent::Kind::kChange);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_DOUBLE_EQ(changes[0].selection_seconds, 0.5);  // a tenth and four of a second
  EXPECT_DOUBLE_EQ(changes[1].selection_seconds, 12);   // ten times 0.4 + 0.8
}

TEST(LiveTunerRatios, AfterADriftChangesCostWhatIsExpectedOfThem) {
  double load = 1;
  const TuneSettings settings{.first = {1, 0.1}, .max_deferred_share = 0.5};
  Loop loop(settings, kRatios,
            [&load](const TunePoint& point) { return load * (1 + point.topk_ratio); });
  loop.set_costs(1, 0, 1'000'000);
  loop.set_shares({{0.1, 0.9}, {0.2, 0.8}, {0.4, 0.45}, {0.8, 0.1}});
  loop.set_selection_seconds(5);  // ten times what is expected
  loop.run(12);
  load = 2;
  loop.run(12);
  ASSERT_EQ(loop.events(TuneEvent::Kind::kDrift).size(), 1U);
  loop.set_shares({{0.1, 0.9}, {0.2, 0.9}, {0.4, 0.9}, {0.8, 0.1}});
  loop.run(12);
  const auto changes = loop.events(TuneEvent::Kind::kChange);
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_DOUBLE_EQ(changes[1].selection_seconds, 1.2);  // 0.4 and 0.8 of a second
}

TEST(LiveTunerRatios, WithoutTimeForColumnsTheIntervalStillChanges) {
  Loop loop({.first = {1, 0.1}}, kRatios, slow_optimizer);
  loop.set_costs(1e6, 0, 1000);
  loop.run(12);
  EXPECT_EQ(loop.point(), (TunePoint{4, 0.1}));
}

TEST(LiveTunerRatios, FewerColumnsOnlyWhereTheDeferredShareAllows) {
  const TuneSettings settings{.first = {4, 0.4}, .max_deferred_share = 0.5};
  const auto device_bound = [](const TunePoint& point) { return 1 + point.topk_ratio; };
  const auto after = [&](std::vector<DeferredShare> shares) {
    Loop loop(settings, kRatios, device_bound);
    loop.set_shares(std::move(shares));
    loop.run(30);
    return loop.point().topk_ratio;
  };
  EXPECT_EQ(after({{0.1, 0.4}, {0.2, 0.3}, {0.4, 0.2}, {0.8, 0.1}}), 0.1);
  EXPECT_EQ(after({{0.1, 0.6}, {0.2, 0.5}, {0.4, 0.2}, {0.8, 0.1}}), 0.2);
  EXPECT_EQ(after({{0.1, 0.7}, {0.2, 0.6}, {0.4, 0.2}, {0.8, 0.1}}), 0.4);
  EXPECT_EQ(after({{0.4, 0.2}, {0.8, 0.2}}), 0.4) << "of smaller ones nothing is known";
  EXPECT_EQ(after({}), 0.4);
}

TEST(LiveTunerRatios, AFirstWindowAloneAllowsNoFewerColumns) {
  Loop loop({.first = {4, 0.4}, .max_staleness = 7, .max_deferred_share = 0.5}, kRatios,
            four_steps_and_few_columns);
  loop.set_shares({{0.1, 0.4}, {0.2, 0.3}, {0.4, 0.2}, {0.8, 0.1}});
  loop.run(10);
  const auto changes = loop.events(TuneEvent::Kind::kChange);
  ASSERT_FALSE(changes.empty());
  EXPECT_EQ(changes[0].window, 5) << "the fit is there before";
  EXPECT_LT(loop.events(TuneEvent::Kind::kFitted)[0].window, 5);
}

TEST(LiveTunerRatios, MoreColumnsWhereTooMuchIsDeferred) {
  const TuneSettings settings{.first = {4, 0.1}, .max_deferred_share = 0.5};
  Loop loop(settings, kRatios, [](const TunePoint& point) { return 1 + point.topk_ratio; });
  loop.set_shares({{0.1, 0.5}, {0.2, 0.4}, {0.4, 0.2}, {0.8, 0.1}});
  loop.run(12);
  EXPECT_EQ(loop.point().topk_ratio, 0.1);
  loop.set_shares({{0.1, 0.9}, {0.2, 0.8}, {0.4, 0.45}, {0.8, 0.1}});
  loop.run(2);
  EXPECT_EQ(loop.point().topk_ratio, 0.1) << "two windows of five";
  loop.run(6);
  EXPECT_EQ(loop.point().topk_ratio, 0.4);
  EXPECT_EQ(loop.events(TuneEvent::Kind::kChange).back().reason,
            "90.0 % of the squared gradient norm are deferred");
  loop.set_shares({{0.1, 0.9}, {0.2, 0.9}, {0.4, 0.9}, {0.8, 0.9}});
  loop.run(12);
  EXPECT_EQ(loop.point().topk_ratio, 0.8) << "the largest there is";
  const std::size_t changes = loop.events(TuneEvent::Kind::kChange).size();
  loop.run(40);
  EXPECT_EQ(loop.events(TuneEvent::Kind::kChange).size(), changes);
}

// An old selection defers more than a new one would. The change of k selects anew, and by those
// norms the old k would do: it is left alone all the same, or k would go to and fro for ever.
TEST(LiveTunerRatios, ARatioThatDeferredTooMuchIsNotTriedAgain) {
  const TuneSettings settings{.first = {4, 0.1}, .max_deferred_share = 0.5};
  Loop loop(settings, kRatios, four_steps_and_few_columns);
  const std::vector<DeferredShare> fresh = {{0.1, 0.45}, {0.2, 0.3}, {0.4, 0.2}, {0.8, 0.1}};
  const std::vector<DeferredShare> old = {{0.1, 0.55}, {0.2, 0.4}, {0.4, 0.3}, {0.8, 0.2}};
  for (int round = 0; round < 6; ++round) {
    loop.set_shares(fresh);
    loop.run(12);
    loop.set_shares(old);
    loop.run(12);
  }
  EXPECT_EQ(loop.point().topk_ratio, 0.2);
  EXPECT_EQ(loop.events(TuneEvent::Kind::kChange).size(), 1U);
}

// Columns change place at the end of the window after the choice: its steps gain nothing.
TEST(LiveTunerRatios, AChangeHasToPayBackInTheStepsThatHaveIt) {
  const TuneSettings settings{.first = {8, 0.1}, .max_staleness = 15};
  const auto truth = [](const TunePoint& point) {
    return (point.update_interval < 8 ? 10 : 1) + (point.topk_ratio < 0.5 ? 1 : 0);
  };
  // The choice is made when 16 steps, or 24, are left: a second each is gained, 9 s are paid.
  for (const bool pays : {false, true}) {
    Loop loop(settings, {0.1, 0.8}, truth);
    loop.set_costs(10, 0, pays ? 56 : 48);
    loop.run(6);
    EXPECT_EQ(loop.events(TuneEvent::Kind::kChange).size(), pays ? 1U : 0U);
  }
}

TEST(LiveTunerRatios, AWindowOfAnotherSettingBeginsAnew) {
  LiveTuner tuner({.first = {2, 0.1}});
  for (std::int64_t window = 1; window <= 6; ++window) {
    // As after a resume: another k than the one to begin with, which stays.
    const TuneOrder order = tuner.window_ended({.window = window,
                                                .point = {2, 0.2},
                                                .next_topk_ratio = 0.2,
                                                .steps = 2,
                                                .step_seconds = 1},
                                               std::nullopt);
    EXPECT_EQ(order.next, (TunePoint{2, 0.2}));
  }
}

/// As after a resume from a checkpoint between a choice of 0.4 and the end of the window after it.
TEST(LiveTunerRatios, AChangeThatWasOrderedBeforeAResumeStays) {
  for (const double first : {0.1, 0.2, 0.4}) {
    SCOPED_TRACE(first);
    Loop loop({.first = {4, first}}, kRatios, [](const TunePoint&) { return 1.0; });
    loop.resume_in({4, 0.2}, 0.4);
    loop.run(1);
    EXPECT_EQ(loop.point(), (TunePoint{4, 0.4}));
    loop.run(1);
    EXPECT_EQ(loop.point(), (TunePoint{4, 0.4}));
    loop.run(1);
    EXPECT_EQ(loop.point(), (TunePoint{4, 0.4}));
    EXPECT_TRUE(loop.events(TuneEvent::Kind::kChange).empty());
  }
}

TEST(LiveTunerRatios, WhatAnOrderBeforeAResumeTookTeachesNothing) {
  Loop loop({.first = {4, 0.1}, .max_staleness = 7, .max_deferred_share = 0.5}, kRatios,
            four_steps_and_few_columns);
  loop.resume_in({4, 0.1}, 0.2);
  loop.set_costs(1, 0, 1'000'000);
  loop.set_selection_seconds(1000);
  loop.set_shares({{0.1, 0.9}, {0.2, 0.8}, {0.4, 0.45}, {0.8, 0.1}});
  loop.run(12);
  const auto changes = loop.events(TuneEvent::Kind::kChange);
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].to, (TunePoint{4, 0.4}));
  EXPECT_NEAR(changes[0].selection_seconds, 0.6, 1e-12);  // 0.2 and 0.4 of a second
}

}  // namespace
}  // namespace zenflow::runtime
