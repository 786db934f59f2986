// Limits, the estimator's differences, the course over a window and the changes that are proposed.
#include "sim/report/fit.h"

#include <cmath>
#include <limits>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/deepspeed/estimator.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::JobOptions;

Job overlapped_job() {
  JobOptions options;
  options.gpus = 2;
  return testing::make_small_job(testing::contended_node(2), testing::small_gpt2(), options);
}

Job nvme_job() {
  JobOptions options;
  options.gpus = 2;
  options.stage = 3;
  options.optimizer_device = "nvme";
  options.with_zenflow = false;
  return testing::make_small_job(testing::contended_node(2), testing::small_gpt2(), options);
}

struct Bound {
  MemoryLimit limit;
  const char* schedule;
  Job job;
  std::function<void(HardwareProfile&, double)> set;
};

std::vector<Bound> bounds() {
  return {
      {MemoryLimit::kGpu, "deepspeed-zenflow", overlapped_job(),
       [](HardwareProfile& node, double bytes) { node.gpu.memory = Bytes(bytes); }},
      {MemoryLimit::kHost, "deepspeed-zenflow", overlapped_job(),
       [](HardwareProfile& node, double bytes) { node.host.memory = Bytes(bytes); }},
      {MemoryLimit::kShared, "deepspeed-zenflow", overlapped_job(),
       [](HardwareProfile& node, double bytes) { node.host.shared_memory = Bytes(bytes); }},
      {MemoryLimit::kLocked, "deepspeed-zenflow", overlapped_job(),
       [](HardwareProfile& node, double bytes) { node.host.locked_memory_limit = Bytes(bytes); }},
      {MemoryLimit::kNvme, "deepspeed-zero-infinity", nvme_job(),
       [](HardwareProfile& node, double bytes) { node.nvme->capacity = Bytes(bytes); }}};
}

TEST(Limits, HoldAtTheNeedAndFailJustBelow) {
  for (const Bound& bound : bounds()) {
    SCOPED_TRACE(to_string(bound.limit));
    const Schedule& schedule = find_schedule(bound.schedule);
    const MemoryReport free = simulate_schedule(bound.job, schedule).memory;
    ASSERT_TRUE(free.fits);
    const double need = free.limit(bound.limit).need;
    ASSERT_GT(need, 0);
    Job tight = bound.job;
    bound.set(tight.scenario.hardware, need);
    EXPECT_TRUE(simulate_schedule(tight, schedule).memory.fits);
    bound.set(tight.scenario.hardware, need - 1);
    const MemoryReport full = simulate_schedule(tight, schedule).memory;
    EXPECT_FALSE(full.fits);
    for (int i = 0; i < kMemoryLimits; ++i) {
      const auto limit = static_cast<MemoryLimit>(i);
      EXPECT_EQ(full.limit(limit).holds(), limit != bound.limit) << to_string(limit);
    }
  }
}

TEST(Limits, OfTheGpuAreAtRiskWithoutRoomForTheAllocator) {
  Job job = overlapped_job();
  const Schedule& schedule = find_schedule("deepspeed-zenflow");
  const double need = simulate_schedule(job, schedule).memory.gpu.total;
  const double context = job.scenario.hardware.gpu.context_memory.value();
  const auto at = [&](double memory) {
    job.scenario.hardware.gpu.memory = Bytes(memory);
    return is_gpu_at_risk(job, fit(job, schedule));
  };
  EXPECT_FALSE(at(need - 1));  // it does not fit
  EXPECT_TRUE(at(need));
  EXPECT_TRUE(at(context + 1.25 * (need - context) - 1));
  EXPECT_FALSE(at(context + 1.25 * (need - context)));
}

// Every rank reads all weights, 2 bytes each, and is a process of 4 GiB.
TEST(Limits, OfRamHoldWhileWeightsAreLoaded) {
  Job job = testing::make_small_job(testing::round_node(8), testing::tiny_llama(),
                                    {.gpus = 8, .with_zenflow = false});
  const Schedule& schedule = find_schedule("deepspeed-zero-offload");
  const double loading = 8 * (2.0 * 34976 + 4 * 0x1p30);
  const auto risk_at = [&](double memory) {
    job.scenario.hardware.host.memory = Bytes(memory);
    const Fit found = fit(job, schedule);
    EXPECT_EQ(loading_peak(job, found), loading);
    return is_loading_at_risk(job, found);
  };
  const double run = fit(job, schedule).memory.limit(MemoryLimit::kHost).need;
  EXPECT_FALSE(risk_at(run - 1));  // it does not fit anyway
  EXPECT_EQ(risk_at(run), loading > run);
  EXPECT_FALSE(risk_at(2 * std::max(run, loading)));
  job.deepspeed.zero_stage = 3;
  EXPECT_FALSE(loading_peak(job, fit(job, schedule)));
}

TEST(Limits, OfLockedMemoryMayBeUnstatedOrUnlimited) {
  Job job = overlapped_job();
  const Schedule& schedule = find_schedule("deepspeed-zenflow");
  const LimitCheck unstated = simulate_schedule(job, schedule).memory.limit(MemoryLimit::kLocked);
  EXPECT_GT(unstated.need, 0);
  EXPECT_FALSE(unstated.capacity);
  EXPECT_TRUE(unstated.holds());
  job.scenario.hardware.host.locked_memory_limit = Bytes(std::numeric_limits<double>::infinity());
  const LimitCheck unlimited = simulate_schedule(job, schedule).memory.limit(MemoryLimit::kLocked);
  EXPECT_TRUE(unlimited.capacity);
  EXPECT_TRUE(unlimited.holds());
}

// /dev/shm is RAM: it counts in both.
TEST(Limits, CountSharedMemoryAsRam) {
  const Job job = overlapped_job();
  const Fit found = fit(job, find_schedule("deepspeed-zenflow"));
  double shared = 0;
  double host = 0;
  for (const BufferUse& use : found.buffers) {
    if (use.buffer.home == MemoryHome::kShared) shared += use.at_peak;
    if (place_of(use.buffer.home) == MemoryPlace::kHost) host += use.at_peak;
  }
  EXPECT_EQ(found.memory.limit(MemoryLimit::kShared).need, shared);
  EXPECT_NEAR(found.memory.limit(MemoryLimit::kHost).need, host, 1);
  EXPECT_GT(shared, 0);
}

TEST(Estimator, DiffersByTheTermsThatAreListed) {
  for (const auto& schedule : schedules()) {
    SCOPED_TRACE(schedule->name());
    const Fit found = fit(testing::suited_to(*schedule, overlapped_job()), *schedule);
    ASSERT_EQ(found.estimator.size(), 2U);
    for (const EstimatorComparison& one : found.estimator) {
      double sum = one.estimate;
      for (const auto& term : one.terms) sum += term.bytes;
      EXPECT_NEAR(sum, one.ours, 1);
    }
    EXPECT_EQ(found.estimator[0].ours, found.memory.gpu.total);
    EXPECT_EQ(found.estimator[1].ours, found.memory.limit(MemoryLimit::kHost).need);
  }
}

TEST(Estimator, IsDeepSpeedsOwnToTheByte) {
  const Job job = overlapped_job();
  const Fit found = fit(job, find_schedule("deepspeed-zenflow"));
  const auto parameters = static_cast<double>(job.scenario.model.parameters());
  EXPECT_EQ(found.estimator[0].estimate, 2 * parameters);         // 2 P
  EXPECT_EQ(found.estimator[1].estimate, 16 * parameters * 1.5);  // P max(4 x 2, 16) 1.5
}

// overlap_step: what the estimator leaves out of host memory, 1.5 P x 16 aside: snapshot 4 P,
// second gradients 4 P, second moments 8 P, upload 2 P, running sum 2 P, and PyTorch's own.
TEST(Estimator, LeavesOutTheSecondSets) {
  const Job job = overlapped_job();
  const Fit found = fit(job, find_schedule("deepspeed-zenflow"));
  const auto parameters = static_cast<double>(job.scenario.model.parameters());
  double asked_for = 0;
  for (const auto& term : found.estimator[1].terms) {
    if (term.what.starts_with("left out")) asked_for += term.bytes;
  }
  EXPECT_NEAR(asked_for - found.memory.host_framework, 20 * parameters, 1);
}

TEST(OverTime, CoversTheWindowPartByPart) {
  const Fit found = fit(overlapped_job(), find_schedule("deepspeed-zenflow"));
  ASSERT_EQ(found.over_time.size(), 3U * 4U);
  double highest = 0;
  for (std::size_t i = 0; i < found.over_time.size(); ++i) {
    const PartMemory& part = found.over_time[i];
    EXPECT_EQ(part.step, static_cast<std::int32_t>(i / 3));
    EXPECT_EQ(part.part, static_cast<StepPart>(i % 3));
    EXPECT_GT(part.duration.count, 0);
    EXPECT_LE(part.gpu, found.memory.gpu.total * (1 + 1e-12));
    EXPECT_LE(part.host, found.memory.host.total * (1 + 1e-12));
    highest = std::max(highest, part.gpu);
  }
  // A regular window reaches the peak: its boundary has all temporaries.
  EXPECT_NEAR(highest, found.memory.gpu.total, 1);
  EXPECT_EQ(highest, std::max(found.over_time[10].gpu, found.over_time[11].gpu));
}

TEST(Changes, AreNoneIfTheJobFits) {
  const Fit found = fit(overlapped_job(), find_schedule("deepspeed-zenflow"));
  EXPECT_TRUE(found.memory.fits);
  EXPECT_TRUE(found.changes.empty());
  EXPECT_FALSE(found.together);
}

TEST(Changes, NameOverlapStepForSharedMemory) {
  Job job = overlapped_job();
  job.scenario.hardware.host.shared_memory = Bytes(64 << 20);
  const Fit found = fit(job, find_schedule("deepspeed-zenflow"));
  ASSERT_FALSE(found.memory.fits);
  ASSERT_FALSE(found.changes.empty());
  const FitChange& first = found.changes.front();
  EXPECT_EQ(first.set, "overlap_step=false");
  EXPECT_EQ(first.limit, MemoryLimit::kShared);
  EXPECT_TRUE(first.limit_holds);
  EXPECT_TRUE(first.fits);
  EXPECT_NEAR(first.saves, 16.0 * static_cast<double>(job.scenario.model.parameters()), 1);
  EXPECT_FALSE(found.together);  // one is enough
}

// Two limits that no single setting meets.
TEST(Changes, NameSumsOnTheHostForTheGpuOfZenFlowTrain) {
  JobOptions options;
  options.accumulate_on_device = true;
  Job job = testing::make_small_job(testing::round_node(), testing::small_gpt2(), options);
  const Schedule& schedule = find_schedule("live-zenflow");
  const double need = simulate_schedule(job, schedule).memory.limit(MemoryLimit::kGpu).need;
  job.scenario.hardware.gpu.memory = Bytes(need - 1);
  const Fit found = fit(job, schedule);
  ASSERT_FALSE(found.memory.fits);
  const auto change = std::find_if(found.changes.begin(), found.changes.end(),
                                   [](const auto& one) { return one.set == "accumulate_on=host"; });
  ASSERT_NE(change, found.changes.end());
  EXPECT_TRUE(change->fits);
  job.scenario.offload.accumulate_on_device = false;
  EXPECT_EQ(change->saves,
            need - simulate_schedule(job, schedule).memory.limit(MemoryLimit::kGpu).need);
}

TEST(Changes, AreCombinedIfOneIsNotEnough) {
  Job job = overlapped_job();
  const Schedule& schedule = find_schedule("deepspeed-zenflow");
  job.scenario.hardware.host.shared_memory = Bytes(1);
  job.scenario.hardware.host.locked_memory_limit = Bytes(1);
  const Fit found = fit(job, schedule);
  for (const FitChange& one : found.changes) EXPECT_FALSE(one.fits) << one.set;
  ASSERT_TRUE(found.together);
  EXPECT_TRUE(found.together->fits);
  EXPECT_THAT(
      found.together->set,
      ::testing::UnorderedElementsAre(
          "overlap_step=false", "deepspeed.zero_optimization.offload_optimizer.pin_memory=false"));
}

// 0.17.5 and 0.18.0 have no ZenFlow in stage 3, which is otherwise tried.
TEST(Changes, LeaveOutWhatTheReleaseCannotRun) {
  for (const char* release : {"0.17.5", "0.18.0"}) {
    Job job = overlapped_job();
    job.version = parse_version(release);
    job.scenario.hardware.host.shared_memory = Bytes(1);
    job.scenario.hardware.gpu.memory = Bytes(1);
    const Fit found = fit(job, find_schedule("deepspeed-zenflow"));
    EXPECT_FALSE(found.changes.empty()) << release;
    for (const FitChange& one : found.changes) {
      EXPECT_THAT(one.set, ::testing::Not(::testing::HasSubstr("stage=3"))) << release;
    }
    ASSERT_TRUE(found.together) << release;
  }
}

TEST(Changes, SayIfNothingHelpsEnough) {
  Job job = overlapped_job();
  job.scenario.hardware.gpu.memory = Bytes(1);  // less than the CUDA context
  const Fit found = fit(job, find_schedule("deepspeed-zenflow"));
  EXPECT_FALSE(found.changes.empty());
  ASSERT_TRUE(found.together);
  EXPECT_FALSE(found.together->fits);
}

TEST(Fit, SaysWhenThePeakIsReached) {
  const Fit found = fit(overlapped_job(), find_schedule("zero-offload"));
  EXPECT_EQ(found.gpu_peak_at, "backward head of step 0");
  EXPECT_EQ(found.host_peak_at, "throughout");
}

}  // namespace
}  // namespace zenflow::sim
