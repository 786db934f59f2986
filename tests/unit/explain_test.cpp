// That explanations add up and name the resource that bounds a step.
#include "sim/report/explain.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::contended_node;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::small_gpt2;

Job job(HardwareProfile hardware, std::int64_t gpus = 1) {
  JobOptions options;
  options.gpus = gpus;
  options.reduce_bucket_size = 5'000'000;
  options.run = {.warmup_steps = 16, .steps = 16};
  return make_small_job(std::move(hardware), small_gpt2(), options);
}

TEST(Explain, PathAddsUpToTheStepForEverySchedule) {
  for (const std::int64_t gpus : {1, 4}) {
    const Job one = job(contended_node(gpus), gpus);
    for (const auto& schedule : schedules()) {
      const Explanation explanation = explain(testing::suited_to(*schedule, one), *schedule);
      double sum = 0;
      for (const PathShare& part : explanation.path) sum += part.time;
      EXPECT_NEAR(sum, explanation.result.step_time, 1e-9 * explanation.result.step_time)
          << schedule->name() << " on " << gpus;
      EXPECT_TRUE(
          std::is_sorted(explanation.path.begin(), explanation.path.end(),
                         [](const PathShare& a, const PathShare& b) { return a.time > b.time; }));
      EXPECT_TRUE(std::is_sorted(
          explanation.what_if.begin(), explanation.what_if.end(),
          [](const WhatIf& a, const WhatIf& b) { return a.step_time < b.step_time; }));
      EXPECT_FALSE(explanation.bound.empty());
    }
  }
}

// DeepSpeed's optimizer process slows the threads that feed the GPU, which waits for them.
TEST(Explain, CountsNoMoreForTheGpuThanItComputes) {
  JobOptions options;
  options.reserved = 0;
  const Job one = make_small_job(round_node(), small_gpt2(), options);
  const Explanation explanation = explain(one, find_schedule("deepspeed-zenflow"));
  double computes = 0;
  for (const PathShare& part : explanation.path) {
    if (part.what == "forward" || part.what == "backward" || part.what == "gpu_update") {
      computes += part.time;
    }
  }
  EXPECT_GT(computes, 0);
  EXPECT_LE(computes, explanation.result.compute * (1 + 1e-9));
}

// torchrun starts one thread for each of two ranks, on 32 cores.
TEST(Explain, SaysWhatMoreOptimizerThreadsWouldBring) {
  Job one = job(round_node(2), 2);
  one.deepspeed.zenflow.reset();
  const Schedule& schedule = find_schedule("deepspeed-zero-offload");
  EXPECT_THAT(explain(one, schedule).bound, ::testing::Not(HasSubstr("OMP_NUM_THREADS")));
  one.target = LaunchTarget::kHf;
  EXPECT_THAT(
      explain(one, schedule).bound,
      HasSubstr("one optimizer thread (torchrun's default of one, taken for target hf): set "
                "OMP_NUM_THREADS=16 (step "));
}

TEST(Explain, AsksOnlyForResourcesThatTheMachineHas) {
  const auto resources = [](const Explanation& explanation) {
    std::vector<Resource> all;
    for (const WhatIf& one : explanation.what_if) all.push_back(one.resource);
    std::sort(all.begin(), all.end());
    return all;
  };
  using enum Resource;
  const Schedule& schedule = find_schedule("zero-offload");
  EXPECT_EQ(resources(explain(job(round_node()), schedule)),
            (std::vector<Resource>{kGpu, kHostLink, kCpuOptimizer, kDram}));
  EXPECT_EQ(resources(explain(job(contended_node(2), 2), schedule)),
            (std::vector<Resource>{kGpu, kHostLink, kCpuOptimizer, kDram, kGpuLink, kNvme}));
}

TEST(Explain, FindsTheCpuThatBoundsZeroOffload) {
  HardwareProfile hardware = round_node();
  hardware.host.adam_bandwidth = 0.05 * hardware.host.adam_bandwidth;
  const Explanation explanation = explain(job(hardware), find_schedule("zero-offload"));
  EXPECT_EQ(explanation.what_if.front().resource, Resource::kCpuOptimizer);
  EXPECT_EQ(explanation.path.front().what, "cpu_update");
  EXPECT_THAT(explanation.bound, HasSubstr("CPU optimizer"));
  EXPECT_THAT(explanation.bound, HasSubstr("schedule zenflow"));
}

TEST(Explain, FindsTheLinkThatBoundsAStep) {
  HardwareProfile hardware = round_node();
  hardware.host_link.pinned = {BytesPerSecond(2e9), BytesPerSecond(1e8), BytesPerSecond(2.1e9)};
  const Explanation explanation = explain(job(hardware), find_schedule("zero-offload"));
  EXPECT_EQ(explanation.what_if.front().resource, Resource::kHostLink);
  EXPECT_EQ(explanation.path.front().what, "d2h");
  EXPECT_THAT(explanation.bound, HasSubstr("device-to-host copies"));
}

TEST(Explain, FindsTheGpu) {
  const Explanation explanation = explain(job(round_node()), find_schedule("gpu-only"));
  EXPECT_EQ(explanation.what_if.front().resource, Resource::kGpu);
  EXPECT_THAT(explanation.bound, HasSubstr("the GPU computes 100.0 % of the time"));
}

TEST(Explain, RecommendsAnIntervalThatDoesRemoveTheStall) {
  JobOptions options;
  options.update_interval = "1";
  options.training = {.micro_batch_size_per_gpu = 8, .sequence_length = 512};
  options.reduce_bucket_size = 5'000'000;
  HardwareProfile hardware = round_node();
  hardware.host.adam_bandwidth = 0.03 * hardware.host.adam_bandwidth;
  const Job one = make_small_job(hardware, small_gpt2(), options);
  const Explanation explanation = explain(one, find_schedule("zenflow"));
  const std::size_t at = explanation.bound.find("raise update_interval to ");
  ASSERT_NE(at, std::string::npos) << explanation.bound;
  const std::int64_t advised = std::stoi(explanation.bound.substr(at + 25));
  const SimulationResult better =
      simulate_schedule(with_update_interval(one, advised), find_schedule("zenflow"));
  EXPECT_LE(better.stall_by_cause[static_cast<std::size_t>(WaitCause::kCpuUpdate)],
            0.005 * better.step_time);
}

// The update ends in a tenth of its window; the GPU waits for sums in every micro step.
TEST(Explain, TellsSumsInHostMemoryFromTheOptimizer) {
  JobOptions options;
  options.reduce_bucket_size = 5'000'000;
  options.overlap_step = true;
  options.update_interval = "16";
  options.run = {.warmup_steps = 16, .steps = 16};
  HardwareProfile hardware = round_node(1);
  hardware.host.elementwise_bandwidth = 0.05 * hardware.host.elementwise_bandwidth;
  HostLinkProfile& link = hardware.host_link;
  link.pinned.d2h = 20 * link.pinned.d2h;
  link.pageable_h2d = 20 * link.pageable_h2d;
  const Schedule& schedule = find_schedule("deepspeed-zenflow");
  const Job one = make_small_job(std::move(hardware), small_gpt2(), options);
  EXPECT_THAT(explain(one, schedule).bound, HasSubstr("and not for the optimizer, whose "));
}

TEST(Scaled, ScalesOneResourceOnly) {
  const HardwareProfile before = contended_node(2);
  const HardwareProfile gpu = scaled(before, Resource::kGpu, 2);
  EXPECT_EQ(gpu.gpu.peak.at(DType::kBf16).value(), 200e12);
  EXPECT_EQ(gpu.gpu.memory_bandwidth.value(), 2000e9);
  EXPECT_EQ(gpu.host_link.pinned.d2h, before.host_link.pinned.d2h);
  const HardwareProfile link = scaled(before, Resource::kHostLink, 2);
  EXPECT_EQ(link.host_link.pinned.bidirectional.value(), 46e9);
  EXPECT_EQ(link.host_link.switches[0].path.h2d.value(), 62e9);
  EXPECT_EQ(link.host_link.pageable_d2h.value(), 8e9);
  EXPECT_EQ(scaled(before, Resource::kDram, 2).host.dram_bandwidth.value(), 420e9);
  EXPECT_EQ(scaled(before, Resource::kCpuOptimizer, 2).host.adam_bandwidth.value(), 320e9);
  EXPECT_EQ(scaled(before, Resource::kGpuLink, 2).gpu_link->bandwidth.value(), 200e9);
  EXPECT_EQ(scaled(before, Resource::kNvme, 2).nvme->write.value(), 6e9);
}

}  // namespace
}  // namespace zenflow::sim
