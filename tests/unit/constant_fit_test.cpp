// The fit of constants, on formulas simple enough to know the answer.
#include "sim/calibrate/constant_fit.h"

#include <cmath>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/calibrate/device_match.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using ::testing::HasSubstr;

/// Copies to the device of so many bytes each: latency + bytes / h2d.
TimedGroup copies(const HardwareProfile& truth, const std::vector<double>& bytes) {
  const auto predict = [bytes](const HardwareProfile& profile) {
    std::vector<double> times;
    for (const double one : bytes) {
      times.push_back(profile.host_link.latency.value() +
                      one / profile.host_link.pinned.h2d.value());
    }
    return times;
  };
  return {"copies", predict(truth), bytes, 1e6, "MB", predict};
}

std::vector<double> sizes(int count) {
  std::vector<double> bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(std::ldexp(4096.0, i % 15));
  return bytes;
}

HardwareProfile other_link() {
  HardwareProfile truth = testing::round_node();
  truth.host_link.pinned.h2d = 14.0_GBps;
  truth.host_link.latency = 17.0_us;
  return truth;
}

ConstantFit fit_to(const TimedGroup& group) {
  const HardwareProfile base = testing::round_node();
  return fit_constants(base, profile_constants(base), {group});
}

const ConstantEstimate& estimate(const ConstantFit& fit, const std::string& path) {
  const auto constants = profile_constants(testing::round_node());
  for (std::size_t i = 0; i < constants.size(); ++i) {
    if (constants[i].path == path) return fit.estimates[i];
  }
  throw std::runtime_error("no constant " + path);
}

TEST(FitConstants, FindsRateAndLatency) {
  const ConstantFit fit = fit_to(copies(other_link(), sizes(30)));
  EXPECT_NEAR(fit.profile.host_link.pinned.h2d.value() / 14e9, 1, 1e-4);
  EXPECT_NEAR(fit.profile.host_link.latency.value() / 17e-6, 1, 1e-4);
  EXPECT_THAT(estimate(fit, "host_link.h2d").range, HasSubstr("67.11 MB"));
  EXPECT_THAT(estimate(fit, "host_link.d2h").reason, HasSubstr("nothing in the traces"));
  EXPECT_EQ(fit.profile.host_link.pinned.d2h, testing::round_node().host_link.pinned.d2h);
}

TEST(FitConstants, LeavesInterruptedSpansOut) {
  TimedGroup group = copies(other_link(), sizes(300));
  std::mt19937 random(3);
  std::normal_distribution<double> noise(1, 0.02);
  for (std::size_t i = 0; i < 300; ++i) group.seconds[i] *= i % 9 == 4 ? 8 : noise(random);
  const ConstantFit fit = fit_to(group);
  const ConstantEstimate& rate = estimate(fit, "host_link.h2d");
  EXPECT_NEAR(rate.value / 14e9, 1, 4 * rate.relative_error);
  EXPECT_LT(rate.relative_error, 0.01);
}

// One size: rate and latency cannot be told apart, and neither is taken for known.
TEST(FitConstants, DoesNotTellApartWhatTheTimesDoNot) {
  const ConstantFit fit = fit_to(copies(other_link(), std::vector<double>(20, 2e5)));
  for (const char* path : {"host_link.h2d", "host_link.latency"}) {
    EXPECT_FALSE(estimate(fit, path).determined) << path;
    EXPECT_THAT(estimate(fit, path).reason, HasSubstr("apart")) << path;
  }
  EXPECT_EQ(fit.profile.host_link.latency, testing::round_node().host_link.latency);
}

// So long that the latency is nothing beside it.
TEST(FitConstants, TellsARateWithoutTheLatency) {
  const ConstantFit fit = fit_to(copies(other_link(), std::vector<double>(20, 4e9)));
  EXPECT_NEAR(fit.profile.host_link.pinned.h2d.value() / 14e9, 1, 1e-3);
  EXPECT_FALSE(estimate(fit, "host_link.latency").determined);
}

TEST(FitConstants, OfTwoSpansAndOfNoneDeterminesNothing) {
  const ConstantFit two = fit_to(copies(other_link(), {4e9, 5e9}));
  EXPECT_EQ(estimate(two, "host_link.h2d").reason, "only 2 spans depend on it");
  EXPECT_EQ(two.profile.host_link.pinned.h2d, testing::round_node().host_link.pinned.h2d);
  const HardwareProfile base = testing::round_node();
  for (const ConstantEstimate& one : fit_constants(base, profile_constants(base), {}).estimates) {
    EXPECT_FALSE(one.determined);
    EXPECT_TRUE(std::isfinite(one.value));
  }
}

TEST(FitConstants, AssumesThatFewSpansScatter) {
  const ConstantFit fit = fit_to(copies(other_link(), std::vector<double>(4, 4e9)));
  EXPECT_GT(estimate(fit, "host_link.h2d").relative_error, 0.02);
}

TEST(SameDevice, KnowsOneGpuUnderSeveralNames) {
  EXPECT_TRUE(same_device("NVIDIA H100 80GB HBM3", "H100-SXM5-80GB"));
  EXPECT_TRUE(same_device("Tesla V100-SXM2-32GB", "V100-SXM3-32GB"));
  EXPECT_TRUE(same_device("NVIDIA GeForce RTX 3090", "GeForce RTX 3090"));
  EXPECT_TRUE(same_device("GPU 0 H100-SXM5-80GB (one of 4 alike)", "H100-SXM5-80GB"));
  EXPECT_FALSE(same_device("NVIDIA A100-SXM4-40GB", "A100-SXM4-80GB"));
  EXPECT_FALSE(same_device("NVIDIA H200", "H100-SXM5-80GB"));
  EXPECT_FALSE(same_device("NVIDIA A100-PCIE-40GB", "A100-SXM4-40GB"));
  EXPECT_FALSE(same_device("", ""));
}

}  // namespace
}  // namespace zenflow::sim
