// What is averaged, what "auto" chooses, and what is refused.
#include "sim/simulate/simulation.h"

#include <numeric>

#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::small_gpt2;
using testing::tiny_llama;

double stall(const SimulationResult& result, WaitCause cause) {
  return result.stall_by_cause[static_cast<std::size_t>(cause)];
}

TEST(Simulation, AveragesWholeWindowsAfterTheWarmUp) {
  JobOptions options;
  options.run = {.warmup_steps = 16, .steps = 67};  // 16 windows of 4 steps
  const Job job = make_small_job(round_node(), tiny_llama(), options);
  const SimulationResult zenflow = simulate_schedule(job, find_schedule("zenflow"));
  EXPECT_EQ(zenflow.measured_windows, 16);
  EXPECT_EQ(zenflow.step_times.size(), 4U);
  EXPECT_LT(zenflow.simulated_windows, 16);
  const SimulationResult offload = simulate_schedule(job, find_schedule("zero-offload"));
  EXPECT_EQ(offload.measured_windows, 67);
  EXPECT_EQ(offload.step_times.size(), 1U);
}

TEST(Simulation, AveragesAtLeastOneWindow) {
  JobOptions options;
  options.update_interval = "8";
  options.run = {.warmup_steps = 0, .steps = 1};
  const Job job = make_small_job(round_node(), tiny_llama(), options);
  EXPECT_EQ(simulate_schedule(job, find_schedule("zenflow")).measured_windows, 1);
}

TEST(Simulation, AverageOfTheStepTimesIsTheStepTime) {
  const Job job = make_small_job(round_node(), small_gpt2(), {});
  for (const auto& schedule : schedules()) {
    const SimulationResult result =
        simulate_schedule(testing::suited_to(*schedule, job), *schedule);
    const double sum = std::accumulate(result.step_times.begin(), result.step_times.end(), 0.0);
    EXPECT_NEAR(result.step_time, sum / static_cast<double>(result.step_times.size()),
                1e-9 * result.step_time)
        << schedule->name();
  }
}

void expect_memory_alone(const Job& job, const Schedule& schedule) {
  const MemoryReport whole = simulate_schedule(job, schedule).memory;
  const MemoryReport alone = simulate_memory(job, schedule);
  EXPECT_EQ(alone.gpu.total, whole.gpu.total) << schedule.name();
  EXPECT_EQ(alone.host.total, whole.host.total) << schedule.name();
  EXPECT_EQ(alone.fits, whole.fits) << schedule.name();
}

TEST(Simulation, MemoryAloneIsThatOfTheWholeResult) {
  JobOptions options;
  const Job job = make_small_job(round_node(), small_gpt2(), options);
  for (const auto& schedule : schedules()) {
    expect_memory_alone(testing::suited_to(*schedule, job), *schedule);
  }
  options.update_interval = "\"auto\"";
  expect_memory_alone(make_small_job(round_node(), small_gpt2(), options),
                      find_schedule("zenflow"));
}

TEST(Simulation, RatesFollowFromTheStepTime) {
  JobOptions options;
  options.gpus = 2;
  const Job job = make_small_job(round_node(2), tiny_llama(), options);
  const SimulationResult result = simulate_schedule(job, find_schedule("zero-offload"));
  const double seconds = result.step_time * 1e-12;
  EXPECT_NEAR(result.tokens_per_second, 2 * 128 / seconds, 1e-6);
  // 26,738,688 FLOP a step and GPU of 100 TFLOPS (gpu_cost_test.cpp).
  EXPECT_NEAR(result.mfu, 26738688 / seconds / 100e12, 1e-12);
}

TEST(Simulation, AutoTakesTheSmallestIntervalWithoutStall) {
  JobOptions options;
  options.update_interval = "\"auto\"";
  options.training = {.micro_batch_size_per_gpu = 8, .sequence_length = 512};
  options.reduce_bucket_size = 5'000'000;
  HardwareProfile hardware = round_node();
  hardware.host.adam_bandwidth = 0.03 * hardware.host.adam_bandwidth;
  const Job job = make_small_job(hardware, small_gpt2(), options);
  const Schedule& schedule = find_schedule("zenflow");
  const SimulationResult chosen = simulate_schedule(job, schedule);
  EXPECT_TRUE(chosen.update_interval_is_auto);
  ASSERT_TRUE(chosen.stall_removed);
  ASSERT_GT(*chosen.update_interval, 1);
  EXPECT_LE(stall(chosen, WaitCause::kCpuUpdate), 0.005 * chosen.step_time);
  for (std::int64_t s = 1; s < *chosen.update_interval; ++s) {
    const SimulationResult other = simulate_schedule(with_update_interval(job, s), schedule);
    EXPECT_FALSE(other.update_interval_is_auto);
    EXPECT_GT(stall(other, WaitCause::kCpuUpdate), 0.005 * other.step_time) << s;
  }
}

TEST(Simulation, AutoSaysWhenNoIntervalRemovesTheStall) {
  JobOptions options;
  options.update_interval = "\"auto\"";
  HardwareProfile hardware = round_node();
  hardware.host.adam_bandwidth = 0.001 * hardware.host.adam_bandwidth;
  Job job = make_small_job(hardware, small_gpt2(), options);
  job.scenario.max_staleness = 7;
  const SimulationResult result = simulate_schedule(job, find_schedule("zenflow"));
  EXPECT_FALSE(result.stall_removed);
  EXPECT_EQ(result.update_interval, 4);  // 2 x 4 - 1 = 7
  EXPECT_EQ(result.staleness.max, 7);
}

TEST(Simulation, AutoWithoutOverlapMayUseTheWholeStalenessLimit) {
  // Without overlap_step the oldest gradient is S - 1 steps old, so S = 8 is within 7.
  JobOptions options;
  options.update_interval = "\"auto\"";
  options.overlap_step = false;
  HardwareProfile hardware = round_node();
  hardware.host.adam_bandwidth = 0.001 * hardware.host.adam_bandwidth;
  Job job = make_small_job(hardware, small_gpt2(), options);
  job.scenario.max_staleness = 7;
  const SimulationResult result = simulate_schedule(job, find_schedule("zenflow"));
  EXPECT_EQ(result.update_interval, 8);
}

TEST(Simulation, KnobsAreOfZenFlowOnly) {
  const Job job = make_small_job(round_node(), tiny_llama(), {});
  const SimulationResult zenflow = simulate_schedule(job, find_schedule("zenflow"));
  EXPECT_EQ(zenflow.topk_ratio, 0.1);
  EXPECT_EQ(zenflow.update_interval, 4);
  const SimulationResult offload = simulate_schedule(job, find_schedule("zero-offload"));
  EXPECT_FALSE(offload.topk_ratio);
  EXPECT_FALSE(offload.update_interval);
}

TEST(Simulation, MemoryThatIsTooSmallDoesNotFit) {
  HardwareProfile hardware = round_node();
  hardware.gpu.memory = Bytes(1e9);
  const Job small_gpu = make_small_job(hardware, tiny_llama(), {});
  EXPECT_FALSE(simulate_schedule(small_gpu, find_schedule("zero-offload")).memory.fits);
  hardware = round_node();
  hardware.host.memory = Bytes(16 * 34976 - 1);
  const Job small_host = make_small_job(hardware, tiny_llama(), {});
  EXPECT_FALSE(simulate_schedule(small_host, find_schedule("zero-offload")).memory.fits);
  EXPECT_TRUE(simulate_schedule(small_host, find_schedule("gpu-only")).memory.fits);
}

TEST(Simulation, RefusesAScheduleWithoutItsBlock) {
  JobOptions options;
  options.with_zenflow = false;
  const Job job = make_small_job(round_node(), tiny_llama(), options);
  EXPECT_THROW((void)simulate_schedule(job, find_schedule("zenflow")), Error);
  EXPECT_THROW((void)simulate_fully(job, find_schedule("zenflow")), Error);
}

TEST(Simulation, DelayedUpdateHidesTheCpuBehindTheNextStep) {
  const Job job = make_small_job(round_node(), small_gpt2(), {});
  const SimulationResult waits = simulate_schedule(job, find_schedule("zero-offload"));
  const SimulationResult delayed = simulate_schedule(job, find_schedule("zero-offload-dpu"));
  EXPECT_LT(delayed.step_time, waits.step_time);
  EXPECT_EQ(delayed.staleness.min, 1);
  EXPECT_EQ(delayed.d2h_bytes, waits.d2h_bytes);
}

}  // namespace
}  // namespace zenflow::sim
