#include "sim/calibrate/regression.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

/// Copies of 4 KiB to 64 MiB at 20 GB/s, 10 us each, times a factor.
template <class Factor>
std::vector<TimedWork> copies(int count, Factor factor) {
  std::vector<TimedWork> times;
  for (int i = 0; i < count; ++i) {
    const double bytes = std::ldexp(4096.0, i % 15);
    times.push_back({{bytes, 1}, (bytes / 20e9 + 10e-6) * factor(i)});
  }
  return times;
}

TEST(FitTimes, FindsRateAndLatencyExactly) {
  const TimeFit fit = fit_times(copies(15, [](int) { return 1.0; }), std::vector{1.0, 1.0});
  EXPECT_NEAR(fit.units[0].value * 20e9, 1, 1e-9);
  EXPECT_NEAR(fit.units[1].value / 10e-6, 1, 1e-9);
  EXPECT_TRUE(fit.units[0].identifiable);
  EXPECT_TRUE(fit.units[1].identifiable);
  EXPECT_LT(fit.residual, 1e-9);
  EXPECT_EQ(fit.samples, 15U);
}

TEST(FitTimes, IsNotMovedByInterruptedSpans) {
  const auto interrupted = [](int i) { return i % 10 == 3 ? 50.0 : 1.0 + 0.01 * (i % 3 - 1); };
  const TimeFit fit = fit_times(copies(300, interrupted), std::vector{1.0, 1.0});
  EXPECT_NEAR(fit.units[0].value * 20e9, 1, 0.02);
  EXPECT_NEAR(fit.units[1].value / 10e-6, 1, 0.02);
}

// An emulated link lets copies catch up after its thread was late: a few take a hundredth of what
// they should. Relative to themselves they would miss by a hundred times their length.
TEST(FitTimes, IsNotMovedBySpansThatAreFarTooShort) {
  for (const double base : {1 / 20e9, 1 / 20e12, 1 / 20e6}) {
    const auto caught_up = [](int i) { return i % 25 == 5 ? 0.01 : 1.0 + 0.01 * (i % 3 - 1); };
    const TimeFit fit = fit_times(copies(600, caught_up), std::vector{base, 10e-6});
    EXPECT_TRUE(fit.units[0].identifiable) << base;
    EXPECT_NEAR(fit.units[0].value * 20e9, 1, 0.02) << base;
    EXPECT_NEAR(fit.units[1].value / 10e-6, 1, 0.02) << base;
    EXPECT_EQ(fit.units[0].damped, 24U) << base;  // i = 5, 30, ..., 580
  }
}

// Copies of 1 MB are slower, copies of 8 MB faster than one rate by the same factor: neither size
// is an outlier, however closely the times of each agree, and together they take what they took.
TEST(FitTimes, MeetsTheSumOfKindsThatItFitsBadly) {
  std::vector<TimedWork> times;
  double seconds = 0;
  double bytes = 0;
  for (int i = 0; i < 90; ++i) {
    const bool small = i % 9 != 0;
    const double noise = 1 + 0.002 * (i % 5 - 2);
    times.push_back(small ? TimedWork{{1e6}, 1e6 / 20e9 * 1.3 * noise}
                          : TimedWork{{8e6}, 8e6 / 20e9 / 1.3 * noise});
    seconds += times.back().seconds;
    bytes += times.back().work.front();
  }
  const TimeFit fit = fit_times(times, std::vector{1 / 10e9});
  // Small copies were 65 us each, large ones 308: both 1.3 times off a fit to the other.
  EXPECT_NEAR(fit.units[0].value * bytes / seconds, 1, 0.04);
  EXPECT_LE(fit.units[0].damped, 9U);
}

// The true value lies within two standard errors in about 95 of 100 cases.
TEST(FitTimes, StandardErrorsSayHowFarOffItIs) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.1);
  int within = 0;
  constexpr int kCases = 400;
  for (int i = 0; i < kCases; ++i) {
    const TimeFit fit =
        fit_times(copies(60, [&](int) { return 1 + noise(random); }), std::vector{1.0, 1.0});
    // The mean of the logarithm of 1 + e.
    const double bias = std::exp(0.1 * 0.1 / 2);
    within += std::abs(fit.units[0].value * bias - 1 / 20e9) < 2 * fit.units[0].standard_error;
  }
  EXPECT_GT(within, kCases * 88 / 100);
  EXPECT_LT(within, kCases * 99 / 100);
}

// Five sizes of which each is off by its own 20 %, the same every time: as many as there are of
// each, their scatter does not say so.
TEST(FitTimes, KnowsThatEqualWorkMissesTogether) {
  const auto missed = [](int i) { return 1 + 0.2 * (i % 5 % 2 == 0 ? 1 : -1); };
  std::vector<TimedWork> times;
  for (int i = 0; i < 500; ++i) {
    const double bytes = 1e6 * (1 << (i % 5));
    times.push_back({{bytes, 1}, (bytes / 20e9 + 100e-6) * missed(i)});
  }
  const TimeFit fit = fit_times(times, std::vector{1 / 20e9, 100e-6});
  for (const UnitTime& one : fit.units) {
    EXPECT_LT(one.standard_error, 0.05 * one.value);
    EXPECT_GT(one.error_by_kind, 0.1 * one.value);
    EXPECT_LT(one.error_by_kind, 0.5 * one.value);
  }
  // Each of its own, they say the same as their scatter.
  for (int i = 0; i < 500; ++i) times[static_cast<std::size_t>(i)].known = 1e-12 * i;
  const TimeFit apart = fit_times(times, std::vector{1 / 20e9, 100e-6});
  EXPECT_NEAR(apart.units[0].error_by_kind / apart.units[0].standard_error, 1, 0.3);
  // Two kinds are met by two units.
  times.erase(std::remove_if(times.begin(), times.end(),
                             [](const TimedWork& one) { return one.work[0] > 2.5e6; }),
              times.end());
  for (TimedWork& one : times) one.known = 0;
  EXPECT_EQ(fit_times(times, std::vector{1 / 20e9, 100e-6}).units[0].error_by_kind, 0);
}

TEST(FitTimes, KeepsWhatTheTimesDoNotTell) {
  // One size: rate and latency cannot be told apart, and one of both is as given.
  std::vector<TimedWork> times(20, {{1e6, 1}, 1e6 / 20e9 + 10e-6});
  const TimeFit fit = fit_times(times, std::vector{1 / 20e9, 10e-6});
  EXPECT_NE(fit.units[0].identifiable, fit.units[1].identifiable);
  EXPECT_NEAR(fit.units[0].value * 20e9, 1, 1e-6);
  EXPECT_NEAR(fit.units[1].value / 10e-6, 1, 1e-6);
}

TEST(FitTimes, KeepsWhatDoesNotOccurAndWhatWouldBeNegative) {
  std::vector<TimedWork> times;
  for (int i = 1; i <= 20; ++i) {
    // Less than nothing a call: 2 us have been taken from each.
    times.push_back({{i * 1e6, 1, 0}, i * 1e6 / 20e9 - 2e-6});
  }
  const TimeFit fit = fit_times(times, std::vector{1 / 20e9, 3e-6, 42.0});
  EXPECT_FALSE(fit.units[1].identifiable);
  EXPECT_EQ(fit.units[1].value, 3e-6);
  EXPECT_FALSE(fit.units[2].identifiable);
  EXPECT_EQ(fit.units[2].value, 42.0);
  EXPECT_TRUE(fit.units[0].identifiable);
}

TEST(FitTimes, NothingMeasuredDeterminesNothing) {
  const TimeFit fit = fit_times({}, std::vector{1.0, 2.0});
  EXPECT_FALSE(fit.units[0].identifiable);
  EXPECT_EQ(fit.units[1].value, 2.0);
  EXPECT_EQ(fit.samples, 0U);
}

}  // namespace
}  // namespace zenflow::sim
