/// What is concluded from windows at one setting and another: against trainings that are drawn from
/// the same assumptions, where it has to be as far off as it says, and cases worked by hand.
#include "runtime/tune/setting_times.h"

#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/long_tests.h"

namespace zenflow::runtime {
namespace {

using runtime::TunePoint;
using Model = std::map<TunePoint, double>;

constexpr TunePoint kTwo{2, 0.1};
constexpr TunePoint kThree{3, 0.1};
constexpr TunePoint kFour{4, 0.1};
constexpr double kFar = 1e9;  // tolerance: nothing is forgotten

Model alike() {
  Model model;
  for (std::int64_t s = 1; s <= 8; ++s) model[{s, 0.1}] = 1.0;
  return model;
}

/// Windows in a row at settings in turn.
class Measured {
 public:
  explicit Measured(Model model = alike()) { times.set_model(std::move(model), kFour, kFar); }
  void windows(const TunePoint& point, int count, double seconds) {
    for (int i = 0; i < count; ++i) times.add(point, now++, seconds);
  }

  SettingTimes times;
  std::int64_t now = 1;
};

TEST(SettingTimes, WithoutWindowsPredictionsHold) {
  Measured it({{kTwo, 3.0}, {kFour, 2.0}});
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, std::log(1.5), 1e-12);
  EXPECT_GT(it.times.compare(kFour, kTwo).deviation, 0.02) << "predictions are not exact";
  EXPECT_FALSE(it.times.tried(kTwo));
}

TEST(SettingTimes, WhatIsMeasuredHoldsAgainstWhatIsPredicted) {
  Measured it;
  it.windows(kTwo, 6, 1.3);
  it.windows(kFour, 6, 1.0);
  const SettingTimes::Ratio ratio = it.times.compare(kFour, kTwo);
  EXPECT_NEAR(ratio.log_ratio, std::log(1.3), 0.01);
  EXPECT_LT(ratio.deviation, 0.01);
  EXPECT_DOUBLE_EQ(it.times.compare(kTwo, kFour).log_ratio, -ratio.log_ratio);
  EXPECT_DOUBLE_EQ(it.times.compare(kTwo, kFour).deviation, ratio.deviation);
}

TEST(SettingTimes, NearSettingsAreOffByAboutAsMuch) {
  Measured it;
  it.windows({1, 0.1}, 6, 1.3);
  it.windows(kFour, 6, 1.0);
  // If 1 is off compared with 4, the neighbour of 1 has more of that error.
  EXPECT_GT(it.times.compare(kFour, kTwo).log_ratio, it.times.compare(kFour, kThree).log_ratio);
  EXPECT_GT(it.times.compare(kFour, kThree).log_ratio, 0.01);
  EXPECT_LT(it.times.compare(kFour, kTwo).log_ratio, std::log(1.3));
  EXPECT_GT(it.times.compare(kFour, kTwo).deviation, it.times.compare(kFour, {1, 0.1}).deviation);
}

// It gets slower wherever it is, by 2 % a window for ten windows: those of 2 took 0.95 times as
// long as they would have at 4, and the mean of all of them 0.82 times.
TEST(SettingTimes, WindowsNearAChangeSayHowTwoCompare) {
  Measured it;
  it.windows(kTwo, 8, 0.95);
  for (int i = 0; i < 10; ++i) it.windows(kTwo, 1, 0.95 * std::pow(1.02, i));
  it.windows(kFour, 8, std::pow(1.02, 10));
  const double of_means = std::log(0.95) + std::log(1.02) * (45.0 / 18 - 10);
  const double truth = std::log(0.95);
  EXPECT_LT(std::abs(it.times.compare(kFour, kTwo).log_ratio - truth),
            std::abs(of_means - truth) / 3);
}

TEST(SettingTimes, AnEarlierVisitCounts) {
  Measured it;
  it.windows(kFour, 8, 1.0);
  it.windows(kTwo, 4, 1.03);
  Measured once = it;
  it.windows(kFour, 2, 1.015);
  EXPECT_GT(it.times.compare(kFour, kTwo).log_ratio, std::log(1.03 / 1.015));
  EXPECT_LT(it.times.compare(kFour, kTwo).log_ratio, once.times.compare(kFour, kTwo).log_ratio);
}

TEST(SettingTimes, AThousandWindowsDoNotMakeItForget) {
  Measured it;
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.01);
  for (int i = 0; i < 10; ++i) it.windows(kTwo, 1, 1.2 * std::exp(noise(random)));
  for (int i = 0; i < 400; ++i) it.windows(kFour, 1, std::exp(noise(random)));
  EXPECT_TRUE(it.times.tried(kTwo));
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, std::log(1.2), 0.02);
}

TEST(SettingTimes, ADriftOfAllSettingsLeavesTheirRatios) {
  Measured it;
  it.windows(kTwo, 6, 1.05);
  it.windows(kFour, 6, 1.0);
  const SettingTimes::Ratio before = it.times.compare(kFour, kTwo);
  it.windows(kFour, 2, 1.5);  // what the drift is known by
  it.times.drift(it.now - 2);
  it.windows(kFour, 6, 1.5);
  Model slower = alike();
  for (auto& [point, seconds] : slower) seconds *= 1.5;
  it.times.set_model(slower, kFour, 0.015);
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, before.log_ratio, 0.01);
  EXPECT_LT(it.times.compare(kFour, kTwo).deviation, 0.02);
}

TEST(SettingTimes, ADriftOfOneSettingMakesItForgotten) {
  Measured it;
  it.windows(kTwo, 6, 1.05);
  it.windows(kThree, 6, 1.02);
  it.windows(kFour, 6, 1.0);
  Model other = alike();
  other[kTwo] = 1.3;
  it.times.set_model(other, kFour, 0.015);
  EXPECT_TRUE(it.times.tried(kTwo)) << "there was no drift: it was measured as it is";
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, std::log(1.05), 0.01);
  it.times.set_model(alike(), kFour, 0.015);
  it.times.drift(it.now);
  it.windows(kFour, 2, 1.0);
  it.times.set_model(other, kFour, 0.015);
  EXPECT_FALSE(it.times.tried(kTwo));
  EXPECT_TRUE(it.times.tried(kThree));
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, std::log(1.3), 0.03) << "as predicted";
}

/// The machine drifts, and now S = 2 is predicted to take so long.
void drift(Measured& it, double two) {
  it.times.drift(it.now);
  it.windows(kFour, 2, 1.0);
  Model other = alike();
  other[kTwo] = two;
  it.times.set_model(other, kFour, 0.05);
}

TEST(SettingTimes, ADriftOfOneSettingChangesItsRatioAsPredicted) {
  Measured it;
  it.windows(kTwo, 6, 1.05);
  it.windows(kFour, 6, 1.0);
  drift(it, 1.04);
  ASSERT_TRUE(it.times.tried(kTwo)) << "within the tolerance";
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, std::log(1.05 * 1.04), 0.005);
}

TEST(SettingTimes, SmallDriftsAddUp) {
  Measured it;
  it.windows(kTwo, 6, 1.05);
  it.windows(kFour, 6, 1.0);
  drift(it, 1.04);
  drift(it, 1.04);
  EXPECT_TRUE(it.times.tried(kTwo));
  drift(it, 1.08);
  EXPECT_FALSE(it.times.tried(kTwo)) << "8 % are no longer what it was measured under";
}

TEST(SettingTimes, WhatWasMeasuredWhileNothingWasPredictedIsForgotten) {
  Measured it;
  it.windows(kTwo, 6, 1.05);
  it.times.drift(it.now);
  it.windows(kThree, 2, 1.0);
  drift(it, 1.0);
  EXPECT_TRUE(it.times.tried(kTwo));
  EXPECT_FALSE(it.times.tried(kThree));
}

TEST(SettingTimes, WindowsSinceADriftBeganAreForgotten) {
  Measured it;
  it.windows(kTwo, 6, 1.0);
  it.windows(kFour, 3, 1.0);
  Measured exact = it;
  it.windows(kFour, 3, 2.0);
  it.times.drift(it.now - 3);
  exact.times.drift(exact.now);
  EXPECT_DOUBLE_EQ(it.times.compare(kFour, kTwo).log_ratio,
                   exact.times.compare(kFour, kTwo).log_ratio);
}

TEST(SettingTimes, WhatIsNotPredictedIsAsItWasMeasured) {
  Measured it({{kFour, 1.0}});
  it.windows(kTwo, 6, 5.0);
  it.windows(kFour, 6, 1.0);
  EXPECT_NEAR(it.times.compare(kFour, kTwo).log_ratio, std::log(5.0), 0.02);
  SettingTimes nothing;
  nothing.add(kTwo, 1, 5.0);
  nothing.add(kFour, 2, 1.0);
  EXPECT_NEAR(nothing.compare(kFour, kTwo).log_ratio, std::log(5.0), 0.1);
}

struct Truth {
  double noise;
  double wander;
  double memory;
  double offset;
};

/// A training with true values of its own visits 4, 2 and 4, so many times as long: how far what is
/// concluded of 2 and of 3, where it has never been, is off, in deviations.
std::pair<double, double> off_in_deviations(const Truth& truth, int longer,
                                            std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  // Errors at 4, then from it to 3, from there to 2: as likely as exp(-distance).
  const auto next = [&](double before, double ratio) {
    const double like = std::exp(-std::log(ratio));
    return like * before + std::sqrt(1 - like * like) * truth.offset * normal(random);
  };
  const double four = truth.offset * normal(random);
  const double three = next(four, 4.0 / 3);
  const double two = next(three, 3.0 / 2);
  double wander = truth.wander * normal(random);
  const double left = std::exp(-1 / truth.memory);
  Measured it;
  const auto visit = [&](const TunePoint& point, double offset, int windows) {
    for (int i = 0; i < longer * windows; ++i) {
      wander = left * wander + std::sqrt(1 - left * left) * truth.wander * normal(random);
      it.windows(point, 1, std::exp(offset + wander + truth.noise * normal(random)));
    }
  };
  visit(kFour, four, 8);
  visit(kTwo, two, 6);
  visit(kFour, four, 10);
  const SettingTimes::Ratio to_two = it.times.compare(kFour, kTwo);
  const SettingTimes::Ratio to_three = it.times.compare(kFour, kThree);
  return {(to_two.log_ratio - (two - four)) / to_two.deviation,
          (to_three.log_ratio - (three - four)) / to_three.deviation};
}

TEST(SettingTimes, IsAsFarOffAsItSays) {
  std::mt19937_64 random(5);
  const int trainings = testing::long_tests() ? 200 : 60;
  for (const int longer : {1, 3}) {  // 3: more windows than are kept one by one
    for (const Truth truth : {Truth{0.005, 0, 1, 0.02}, Truth{0.01, 0.01, 8, 0.05},
                              Truth{0.04, 0.055, 8, 0.05}, Truth{0.02, 0.06, 30, 0.03}}) {
      SCOPED_TRACE(::testing::Message() << longer << " times as long, noise " << truth.noise
                                        << ", wander " << truth.wander);
      double tried = 0;
      double untried = 0;
      for (int i = 0; i < trainings; ++i) {
        const auto [two, three] = off_in_deviations(truth, longer, random);
        tried += two * two / trainings;
        untried += three * three / trainings;
      }
      // 1 if assumptions were known and not to be found.
      EXPECT_NEAR(std::sqrt(tried), 1, 0.35);
      // One change hardly tells how large offsets are: they may be larger than these.
      EXPECT_LT(std::sqrt(untried), 1.1);
      EXPECT_GT(std::sqrt(untried), 0.2);
    }
  }
}

}  // namespace
}  // namespace zenflow::runtime
