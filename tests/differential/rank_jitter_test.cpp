// Waiting for the slowest rank against its formula: ranks.jitter times the mean of the largest of N
// times the root of the sum of the passes' squares.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/live_work.h"
#include "sim/schedule/step_plan.h"
#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::suited_to;

constexpr double kJitter = 0.05;
constexpr auto kCollective = static_cast<std::size_t>(WaitCause::kCollective);

/// Passes that take milliseconds, so that nothing is lost to rounding.
Job job_of(JobOptions options) {
  options.gpus = std::max<std::int64_t>(options.gpus, 4);
  options.training = {.micro_batch_size_per_gpu = 8, .sequence_length = 256};
  return make_small_job(round_node(options.gpus), testing::small_gpt2(), options);
}

SimulationResult simulated(Job job, std::string_view schedule, double jitter) {
  job.scenario.rank_jitter = jitter;
  return simulate_schedule(job, find_schedule(schedule));
}

/// By how much the slowest of all ranks is late after a step's forwards and backwards.
double late_after_a_step(const Job& job, double jitter = kJitter) {
  double squares = 0;
  for (const PlannedLayer& layer : plan_step(job).layers) {
    for (const Picoseconds pass : {layer.forward, layer.backward}) {
      squares += static_cast<double>(pass.count) * static_cast<double>(pass.count);
    }
  }
  return jitter * expected_largest(job.scenario.ranks()) * std::sqrt(squares);
}

TEST(RankJitter, OfOneBucketAddsItsFormulaToEveryStep) {
  for (const char* schedule : {"gpu-only", "zero-offload", "zenflow", "deepspeed-zero",
                               "deepspeed-zero-offload", "deepspeed-zenflow"}) {
    const Job job = job_of({});
    const SimulationResult steady = simulated(job, schedule, 0);
    const SimulationResult jittery = simulated(job, schedule, kJitter);
    const double late = late_after_a_step(job);
    EXPECT_NEAR(jittery.step_time - steady.step_time, late, 1e-3 * late) << schedule;
    EXPECT_NEAR(jittery.stall_by_cause[kCollective] - steady.stall_by_cause[kCollective], late,
                1e-3 * late)
        << schedule;
    EXPECT_EQ(jittery.compute, steady.compute) << schedule;
    EXPECT_EQ(jittery.d2h_bytes, steady.d2h_bytes) << schedule;
    EXPECT_EQ(jittery.between_ranks.gradients, steady.between_ranks.gradients) << schedule;
  }
}

/// Collectives that backward goes on beside do not each make it wait: the slowest rank is as late
/// after the last bucket as it is with one.
TEST(RankJitter, DoesNotAddUpOverBucketsThatOverlapBackward) {
  const Job job = job_of({.reduce_bucket_size = 3'000'000});
  ASSERT_GT(plan_step(job).buckets.size(), 5U);
  const double waits =
      simulated(job, "gpu-only", kJitter).step_time - simulated(job, "gpu-only", 0).step_time;
  const double late = late_after_a_step(job);
  EXPECT_LE(waits, late * (1 + 1e-9));
  EXPECT_GE(waits, 0.9 * late);
}

/// Where backward waits for every bucket, ranks meet there: their deviations add up, not their
/// squares.
TEST(RankJitter, AddsUpWhereBackwardWaitsForEachBucket) {
  Job job = job_of({.stage = 2, .reduce_bucket_size = 3'000'000});
  job.deepspeed.overlap_comm = false;
  const double waits = simulated(job, "deepspeed-zero", kJitter).step_time -
                       simulated(job, "deepspeed-zero", 0).step_time;
  const StepPlan plan = plan_step(job);
  double expected = 0;
  double squares = 0;
  const auto add = [&squares](Picoseconds pass) {
    squares += static_cast<double>(pass.count) * static_cast<double>(pass.count);
  };
  for (const PlannedLayer& layer : plan.layers) add(layer.forward);
  for (std::size_t l = plan.layers.size(); l-- > 0;) {
    add(plan.layers[l].backward);
    if (std::none_of(plan.buckets.begin(), plan.buckets.end(), [l](const GradientBucket& one) {
          return one.ready_layer == static_cast<std::int32_t>(l);
        })) {
      continue;
    }
    expected += kJitter * expected_largest(4) * std::sqrt(squares);
    squares = 0;
  }
  EXPECT_NEAR(waits, expected, 1e-3 * expected);
}

/// Stage 3 gathers each layer: ranks meet a layer or two after they parted, and wait more in all.
TEST(RankJitter, OfPartitionedLayersIsWaitedForInEachGather) {
  for (const char* schedule : {"gpu-only", "deepspeed-zero", "zero-infinity"}) {
    const Job job = job_of({.stage = 3});
    const SimulationResult steady = simulated(job, schedule, 0);
    const SimulationResult jittery = simulated(job, schedule, kJitter);
    const double waits = jittery.step_time - steady.step_time;
    EXPECT_GT(waits, 0) << schedule;
    EXPECT_LE(waits, 2 * kJitter * expected_largest(4) * steady.compute) << schedule;
    EXPECT_EQ(jittery.compute, steady.compute) << schedule;
  }
}

TEST(RankJitter, GrowsWithJitterAndRanksInEverySchedule) {
  for (const auto& schedule : schedules()) {
    if (live_kind(schedule->name())) continue;  // live_ranks_test.cpp
    double before = 0;
    for (const auto& [ranks, jitter] :
         {std::pair{4, 0.0}, std::pair{4, 0.02}, std::pair{4, 0.1}, std::pair{8, 0.1}}) {
      JobOptions options;
      options.gpus = ranks;
      options.reduce_bucket_size = 3'000'000;
      const Job job = suited_to(*schedule, job_of(options));
      const SimulationResult result = simulated(job, schedule->name(), jitter);
      const SimulationResult steady = simulated(job, schedule->name(), 0);
      EXPECT_GE(result.step_time - steady.step_time, before) << schedule->name() << " " << ranks;
      if (jitter > 0) {
        EXPECT_GT(result.step_time - steady.step_time, before) << schedule->name() << " " << ranks;
      }
      before = result.step_time - steady.step_time;
    }
  }
}

TEST(RankJitter, OfOneRankChangesNothingAndSaysSo) {
  JobOptions options;
  Job job = make_small_job(round_node(), testing::small_gpt2(), options);
  for (const auto& schedule : schedules()) {
    const Job suited = suited_to(*schedule, job);
    const SimulationResult result = simulated(suited, schedule->name(), 0.5);
    EXPECT_EQ(result.step_time, simulated(suited, schedule->name(), 0).step_time);
    Job jittery = suited;
    jittery.scenario.rank_jitter = 0.5;
    EXPECT_THAT(ignored_settings(*schedule, jittery),
                Contains(HasSubstr("ranks.jitter has no effect on one rank")));
  }
}

}  // namespace
}  // namespace zenflow::sim
