/// Zen-auto's decisions, each bound deciding once.
#include "runtime/tune/interval_controller.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::runtime {
namespace {

/// 10 selected of 100 columns whose root mean square norm is `ratio` times that of the others:
/// 10 ratio^2 + 90.
SliceImportance matrix(double ratio) {
  return {.parameter = 0,
          .square_sum = 10 * ratio * ratio + 90,
          .selected_square_sum = 10 * ratio * ratio,
          .columns = 100,
          .selected = 10};
}

/// A window of 4 steps of 1 s each, none of it waiting.
WindowObservation window(std::vector<SliceImportance> importance, double update_seconds) {
  return {.window = 3,
          .steps = 4,
          .timed_steps = 4,
          .window_seconds = 4,
          .waited_seconds = 0,
          .update_seconds = update_seconds,
          .importance = std::move(importance)};
}

TEST(ChooseInterval, GradientsDecide) {
  // Selected columns are 4.5 times as strong: deferred ones are due after 5 steps.
  const IntervalDecision d = choose_interval(window({matrix(4.5)}, 2), {});
  EXPECT_EQ(d.window, 3);
  EXPECT_EQ(d.previous, 4);
  EXPECT_EQ(d.by_gradient, 5);
  EXPECT_EQ(d.by_stall, 2);
  EXPECT_EQ(d.limit, 16);
  EXPECT_EQ(d.next, 5);
  EXPECT_DOUBLE_EQ(d.deferred_share, 90 / 292.5);
  EXPECT_EQ(d.reason, "deferred gradients have added up to selected ones");
}

TEST(ChooseInterval, AnExactRatioIsDueThen) {
  EXPECT_EQ(choose_interval(window({matrix(3)}, 0), {}).by_gradient, 3);
  EXPECT_EQ(choose_interval(window({matrix(0.5)}, 0), {}).by_gradient, 1);
}

TEST(ChooseInterval, TheCpuDecides) {
  const IntervalDecision d = choose_interval(window({matrix(2)}, 6.5), {});
  EXPECT_EQ(d.by_gradient, 2);
  EXPECT_EQ(d.by_stall, 7);
  EXPECT_EQ(d.next, 7);
  EXPECT_EQ(d.reason, "the CPU update must fit into a window");
}

TEST(ChooseInterval, WaitingIsNotPartOfAStep) {
  WindowObservation seen = window({matrix(1)}, 6);
  seen.waited_seconds = 2;  // steps of 0.5 s
  EXPECT_EQ(choose_interval(seen, {}).by_stall, 12);
  seen.waited_seconds = 4;  // nothing but waiting: no step time to divide by
  EXPECT_EQ(choose_interval(seen, {}).by_stall, 0);
}

TEST(ChooseInterval, AfterAResumeTheTimesAreOfFewerSteps) {
  WindowObservation seen = window({matrix(1)}, 6);
  seen.timed_steps = 2;  // in 4 s
  EXPECT_EQ(choose_interval(seen, {}).by_stall, 3);
}

TEST(ChooseInterval, StalenessLimits) {
  const WindowObservation seen = window({matrix(7)}, 0);
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 9}).next, 5);
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 10}).next, 5);
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 9}).reason, "max_staleness 9");
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 4, .overlap_step = false}).next, 5);
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 0}).next, 1);
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 0}).limit, 1);
}

TEST(ChooseInterval, AtMostAFactorOfTwoAWindow) {
  const IntervalDecision up = choose_interval(window({matrix(12)}, 0), {});
  EXPECT_EQ(up.by_gradient, 12);
  EXPECT_EQ(up.next, 8);
  EXPECT_EQ(up.reason,
            "deferred gradients have added up to selected ones, by at most a factor of two a "
            "window");
  WindowObservation seen = window({matrix(1)}, 0);
  seen.steps = 9;
  EXPECT_EQ(choose_interval(seen, {}).next, 5);  // half of 9, rounded up
  seen.steps = 1;
  EXPECT_EQ(choose_interval(seen, {}).next, 1);
  // The limit comes before the pace: S was 9 and 3 is all that is allowed.
  seen.steps = 9;
  EXPECT_EQ(choose_interval(seen, {.max_staleness = 5}).next, 3);
}

TEST(ChooseInterval, AShareOfTheMatricesHasToBeDue) {
  const auto seen = window({matrix(2), matrix(5), matrix(3), matrix(4)}, 0);
  EXPECT_EQ(choose_interval(seen, {.auto_ratio = 1}).by_gradient, 5);
  EXPECT_EQ(choose_interval(seen, {.auto_ratio = 0.75}).by_gradient, 4);
  EXPECT_EQ(choose_interval(seen, {.auto_ratio = 0.6}).by_gradient, 4);
  EXPECT_EQ(choose_interval(seen, {.auto_ratio = 0.5}).by_gradient, 3);
  EXPECT_EQ(choose_interval(seen, {.auto_ratio = 0}).by_gradient, 2);
}

TEST(ChooseInterval, ARatioInDecimalsMeansTheNumberThatItNames) {
  EXPECT_EQ(matrices_wanted(0.99, 100), 99U);
  EXPECT_EQ(matrices_wanted(0.55, 100), 55U);  // 55.00000000000001 in doubles
  EXPECT_EQ(matrices_wanted(0.07, 100), 7U);   // 7.000000000000001
  EXPECT_EQ(matrices_wanted(0.99, 16), 16U);
  EXPECT_EQ(matrices_wanted(0, 16), 1U);
  for (std::size_t hundredths = 0; hundredths <= 100; ++hundredths) {
    for (std::size_t n = 1; n <= 2000; ++n) {
      ASSERT_EQ(matrices_wanted(static_cast<double>(hundredths) / 100, n),
                std::max<std::size_t>(1, (hundredths * n + 99) / 100))
          << hundredths << " % of " << n;
    }
  }
}

TEST(ChooseInterval, MatricesWithoutBothKindsOrWithoutGradientDoNotCount) {
  SliceImportance zero = matrix(3);
  zero.square_sum = zero.selected_square_sum = 0;
  SliceImportance whole = matrix(3);
  whole.selected = whole.columns;
  SliceImportance none = matrix(3);
  none.selected = 0;
  const IntervalDecision d = choose_interval(window({zero, whole, none}, 0), {});
  EXPECT_EQ(d.by_gradient, 0);
  EXPECT_EQ(d.deferred_share, 0);
  EXPECT_EQ(d.next, 2);  // 1, at half the pace
  EXPECT_EQ(d.reason, "nothing is deferred and nothing waits, by at most a factor of two a window");
}

TEST(ChooseInterval, DeferredColumnsWithoutGradientAreNeverDue) {
  SliceImportance dead = matrix(3);
  dead.selected_square_sum = dead.square_sum;
  const IntervalDecision d = choose_interval(window({dead}, 0), {});
  EXPECT_EQ(d.by_gradient, 1'000'000'000);
  EXPECT_EQ(d.next, 8);
  EXPECT_EQ(d.reason, "max_staleness 31, by at most a factor of two a window");
  // Rounding may make the part larger than the whole.
  dead.selected_square_sum *= 1 + 1e-15;
  EXPECT_EQ(choose_interval(window({dead}, 0), {}).by_gradient, 1'000'000'000);
}

/// What the controller answers to windows that ask for these S one after the other.
std::vector<std::int64_t> answers(std::int64_t first, const std::vector<std::int64_t>& asked) {
  IntervalController controller({});
  std::vector<std::int64_t> steps;
  for (const std::int64_t ask : asked) {
    // An update as long as that many steps of 1 s.
    WindowObservation seen = window({}, static_cast<double>(ask));
    seen.steps = seen.timed_steps = steps.empty() ? first : steps.back();
    seen.window_seconds = static_cast<double>(seen.steps);
    steps.push_back(controller.decide(seen).next);
  }
  return steps;
}

/// A ratio between two whole numbers, with noise on both sides, settles.
TEST(IntervalController, DoesNotAlternate) {
  std::mt19937_64 random(1);
  for (int run = 0; run < 20; ++run) {
    std::vector<std::int64_t> asked;
    for (int i = 0; i < 60; ++i) asked.push_back(4 + static_cast<std::int64_t>(random() % 2));
    const std::vector<std::int64_t> steps = answers(4, asked);
    const auto changes = std::inner_product(steps.begin() + 1, steps.end(), steps.begin(), 0,
                                            std::plus<>(), std::not_equal_to<>());
    EXPECT_LE(changes, 3) << "run " << run;
  }
  EXPECT_EQ(answers(4, {4, 5, 4, 5, 4, 5, 4, 5}),
            (std::vector<std::int64_t>{4, 5, 5, 5, 5, 5, 5, 5}));
}

TEST(IntervalController, RisesWithMostWindowsAndFallsWithAll) {
  // One that asks for more does not decide; the third does.
  EXPECT_EQ(answers(4, {4, 4, 4, 4, 4, 7, 7, 7}).at(5), 4);
  EXPECT_EQ(answers(4, {4, 4, 4, 4, 4, 7, 7, 7}).at(7), 7);
  std::vector<std::int64_t> asked(8, 6);
  asked.insert(asked.end(), 8, 4);
  const std::vector<std::int64_t> steps = answers(6, asked);
  EXPECT_EQ(steps.at(14), 6);
  EXPECT_EQ(steps.at(15), 4);
}

/// The first windows are not like later ones.
TEST(IntervalController, FallsFromTheFifthWindowOn) {
  EXPECT_EQ(answers(4, {3, 3, 3, 3, 3, 3}), (std::vector<std::int64_t>{4, 4, 4, 4, 3, 3}));
}

/// Neither limit waits.
TEST(IntervalController, KeepsToStalenessAndToAFactorOfTwo) {
  EXPECT_EQ(answers(1, {12, 12, 12, 12, 12}), (std::vector<std::int64_t>{2, 4, 8, 12, 12}));
  EXPECT_EQ(answers(12, {100}).back(), 16);
}

}  // namespace
}  // namespace zenflow::runtime
