// CPU times by hand on round_node: 32 cores, Adam 160 GB/s with half of its limit at 8 cores,
// 10 GB/s a core and 200 GB/s in all for other passes.
#include "sim/cost/cpu_cost.h"

#include <gtest/gtest.h>

#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

const HostProfile& host() {
  static const HostProfile profile = testing::round_node().host;
  return profile;
}

TEST(AdamRate, IsTheProfilesOnAllCores) {
  EXPECT_DOUBLE_EQ(adam_rate(host(), 32).value(), 160e9);
}

TEST(AdamRate, SaturatesWithCores) {
  // The limit for ever more cores is 160 x 40/32 = 200 GB/s; 8 cores reach half of it.
  EXPECT_DOUBLE_EQ(adam_rate(host(), 8).value(), 100e9);
  // 16 cores: 200 x 16/24.
  EXPECT_DOUBLE_EQ(adam_rate(host(), 16).value(), 200e9 * 16 / 24);
  EXPECT_LT(adam_rate(host(), 32) / adam_rate(host(), 16), 1.21);
  EXPECT_DOUBLE_EQ(adam_rate(host(), 0.5).value(), 200e9 * 0.5 / 8.5);
}

TEST(AdamRate, IsLinearWithoutSaturation) {
  HostProfile many = host();
  many.adam_half_cores = 1e9;
  EXPECT_NEAR(adam_rate(many, 16) / adam_rate(many, 32), 0.5, 1e-7);
}

TEST(AdamRate, OfAWorkerHasItsOwnLimitAndTheSameShape) {
  EXPECT_EQ(worker_adam_rate(host(), 16), adam_rate(host(), 16)) << "no number of its own";
  HostProfile bound = host();
  bound.worker_adam_bandwidth = 2 * bound.adam_bandwidth;
  EXPECT_DOUBLE_EQ(worker_adam_rate(bound, 16).value(), 2 * adam_rate(host(), 16).value());
  EXPECT_EQ(adam_rate(bound, 16), adam_rate(host(), 16));
}

TEST(PassRate, GrowsByCoresUntilTheNodesLimit) {
  EXPECT_DOUBLE_EQ(pass_rate(host(), 4).value(), 40e9);
  EXPECT_DOUBLE_EQ(pass_rate(host(), 20).value(), 200e9);
  EXPECT_DOUBLE_EQ(pass_rate(host(), 32).value(), 200e9);
}

TEST(UpdateWork, CountsAdamScalingAndCasts) {
  // 28 B at 160 GB/s; scale 8, cast up 6, cast down 6 at 200 GB/s.
  const CpuWork with_cast = update_work(host(), 32, DType::kBf16, true);
  EXPECT_EQ(with_cast.bytes, 48);
  EXPECT_DOUBLE_EQ(with_cast.time.value(), 28 / 160e9 + 20 / 200e9);
  const CpuWork without = update_work(host(), 32, DType::kBf16, false);
  EXPECT_EQ(without.bytes, 42);
  EXPECT_DOUBLE_EQ(without.time.value(), 28 / 160e9 + 14 / 200e9);
}

TEST(UpdateWork, OfFp32TrainingCastsNothing) {
  for (const bool cast_gradient : {false, true}) {
    const CpuWork work = update_work(host(), 32, DType::kFp32, cast_gradient);
    EXPECT_EQ(work.bytes, 36);
    EXPECT_DOUBLE_EQ(work.time.value(), 28 / 160e9 + 8 / 200e9);
  }
}

// 25 us to begin with, then 1 ns a parameter; a call that has nothing to do is none.
TEST(CpuWork, OfACallIsItsLaunchAndItsParameters) {
  const CpuWork work{28, Seconds(1e-9), Seconds(25e-6)};
  EXPECT_DOUBLE_EQ(work.call(1e6).value(), 1025e-6);
  EXPECT_DOUBLE_EQ(work.call(1).value(), 25.001e-6);
  EXPECT_EQ(work.call(0).value(), 0);
}

TEST(UpdateWork, HasTheLaunchOfItsOneCall) {
  EXPECT_EQ(update_work(host(), 32, DType::kBf16, true).launch.value(), 0) << "not stated";
  HostProfile slow = host();
  slow.adam_launch = Seconds(40e-6);
  const CpuWork work = update_work(slow, 32, DType::kBf16, true);
  EXPECT_DOUBLE_EQ(work.launch.value(), 40e-6);
  EXPECT_EQ(work.time, update_work(host(), 32, DType::kBf16, true).time);
  EXPECT_EQ(accumulate_work(slow, 32, DType::kBf16).launch.value(), 0);
}

TEST(AccumulateWork, ReadsTheGradientAndReadsAndWritesTheSum) {
  EXPECT_EQ(accumulate_work(host(), 4, DType::kBf16).bytes, 10);
  EXPECT_DOUBLE_EQ(accumulate_work(host(), 4, DType::kBf16).time.value(), 10 / 40e9);
  EXPECT_EQ(accumulate_work(host(), 32, DType::kFp32).bytes, 12);
}

}  // namespace
}  // namespace zenflow::sim
