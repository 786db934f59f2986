// Several ranks of the live schedules against the runtime's partition, and against formulas.
#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/offload/layout.h"
#include "sim/cost/transfer_cost.h"
#include "sim/schedule/live_layout.h"
#include "sim/simulate/simulation.h"
#include "tests/support/error_of.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using zenflow::testing::error_of;

constexpr double kPicosecondsPerSecond = 1e12;
constexpr const char* kSchedules[] = {"live-gpu-only", "live-zero-offload", "live-zero-offload-dpu",
                                      "live-zenflow"};

HardwareProfile host_device(std::int64_t cores) {
  HardwareProfile node = testing::round_node(1);
  node.gpu.host_cores = 1;
  node.host.cores = cores;
  node.gpu_link = GpuLinkProfile{"shared memory", 2.0_GBps, 8.0_us};
  return node;
}

Job job_of(std::int64_t ranks, const JobOptions& base = {}) {
  JobOptions options = base;
  options.gpus = ranks;
  options.training.dtype = DType::kFp32;
  return make_small_job(host_device(2 * ranks), testing::tiny_llama(), options);
}

SimulationResult simulated(const Job& job, const char* schedule) {
  return simulate_schedule(job, find_schedule(schedule));
}

TEST(LiveRanks, OwnWhatTheRuntimesOwn) {
  const ModelSpec model = testing::tiny_llama();
  const runtime::ParameterTable table = runtime::parameter_table(model, {});
  for (const int ranks : {1, 2, 3, 4, 7, 40}) {
    std::set<int> owning;
    for (int rank = 0; rank < ranks; ++rank) {
      const runtime::Layout layout = runtime::make_layout(table, 0.1, false, rank, ranks);
      const std::vector<LiveLayer> layers = live_layers(model, 0.1, {rank, ranks});
      ASSERT_EQ(layers.size(), layout.groups.size());
      for (std::size_t g = 0; g < layers.size(); ++g) {
        ASSERT_EQ(layers[g].tensors.size(), layout.groups[g].slices) << rank << " of " << ranks;
        for (std::size_t i = 0; i < layers[g].tensors.size(); ++i) {
          const runtime::Slice& slice = layout.slices[layout.groups[g].first_slice + i];
          EXPECT_EQ(layers[g].tensors[i].elements(), static_cast<std::int64_t>(slice.elements()));
          EXPECT_EQ(layers[g].tensors[i].selected, static_cast<std::int64_t>(slice.selected));
        }
      }
      if (layout.elements > 0) owning.insert(rank);
    }
    const std::vector<int> found = owning_ranks(model, ranks);
    EXPECT_EQ(std::set<int>(found.begin(), found.end()), owning);
  }
}

TEST(LiveRanks, MoveTogetherWhatOneMoves) {
  for (const char* schedule : kSchedules) {
    const SimulationResult one = simulated(job_of(1), schedule);
    for (const std::int64_t ranks : {2, 3, 8}) {
      const SimulationResult several = simulated(job_of(ranks), schedule);
      const auto count = static_cast<double>(ranks);
      EXPECT_NEAR(several.d2h_bytes * count, one.d2h_bytes, 1e-6 * one.d2h_bytes) << schedule;
      EXPECT_NEAR(several.h2d_bytes * count, one.h2d_bytes, 1e-6 * one.h2d_bytes) << schedule;
    }
  }
}

TEST(LiveRanks, SendEachOtherEveryGradientAndWeight) {
  constexpr double kParameters = 34'976;
  constexpr double kTensors = 21;
  for (const char* schedule : kSchedules) {
    for (const double ranks : {2.0, 3.0, 8.0}) {
      for (const std::int64_t micro_batches : {1, 3}) {
        for (const std::int64_t stage : {1, 2}) {
          JobOptions options;
          options.accumulation = micro_batches;
          Job job = job_of(static_cast<std::int64_t>(ranks), options);
          job.scenario.offload.zero_stage = stage;
          const RankBytes bytes = simulated(job, schedule).between_ranks;
          const auto times = static_cast<double>(stage == 2 ? micro_batches : 1);
          EXPECT_NEAR(bytes.gradients, times * (ranks - 1) * 4 * kParameters, 1e-3) << schedule;
          EXPECT_NEAR(bytes.weights, (ranks - 1) * 4 * kParameters, 1e-3) << schedule;
          EXPECT_NEAR(bytes.control, ranks * (ranks - 1) * 8 * (kTensors + 1), 1e-3) << schedule;
        }
      }
    }
  }
}

/// Bytes that rank 0 holds at most of gradients as backward makes them.
double most_gradients(const Job& job, const char* schedule) {
  const FullRun run = simulate_fully(job, find_schedule(schedule));
  const std::vector<double> largest = largest_sizes(run.program, run.execution);
  const auto found = std::find_if(run.program.buffers.begin(), run.program.buffers.end(),
                                  [](const MemoryBuffer& one) { return one.name == "gradients"; });
  return largest.at(static_cast<std::size_t>(found - run.program.buffers.begin()));
}

TEST(LiveRanks, KeepTheGradientsThatTheirZeroStageAddsUp) {
  constexpr std::int64_t kRanks = 3;
  const ModelSpec model = testing::tiny_llama();
  double all = 0;
  double owned = 0;
  double most_sent = 0;  // of a layer
  const std::vector<LiveLayer> whole = live_layers(model, 0);
  const std::vector<LiveLayer> own = live_layers(model, 0, {0, kRanks});
  for (std::size_t layer = 0; layer < whole.size(); ++layer) {
    all += whole[layer].elements();
    owned += own[layer].elements();
    most_sent = std::max(most_sent, whole[layer].elements() - own[layer].elements());
  }
  for (const char* schedule : kSchedules) {
    for (const std::int64_t micro_batches : {1, 3}) {
      JobOptions options;
      options.accumulation = micro_batches;
      Job job = job_of(kRanks, options);
      job.scenario.offload.zero_stage = 1;
      const double in_stage_1 = most_gradients(job, schedule);
      job.scenario.offload.zero_stage = 2;
      const double in_stage_2 = most_gradients(job, schedule);
      if (micro_batches == 1) {
        EXPECT_EQ(in_stage_1, in_stage_2) << schedule;
        EXPECT_LT(in_stage_2, 4 * all) << schedule;
      } else {
        EXPECT_EQ(in_stage_1, 4 * all) << schedule;
        EXPECT_EQ(in_stage_2, 4 * (owned + most_sent)) << schedule;
      }
    }
  }
}

TEST(LiveRanks, SendEachOtherNormsWhereColumnsOfAllMatricesCompete) {
  constexpr double kColumns = 576;
  JobOptions options;
  options.select_interval = "8";
  for (const double ranks : {1.0, 2.0, 8.0}) {
    Job job = job_of(static_cast<std::int64_t>(ranks), options);
    EXPECT_EQ(simulated(job, "live-zenflow").between_ranks.selection, 0);
    job.scenario.offload.topk_is_global = true;
    const SimulationResult result = simulated(job, "live-zenflow");
    EXPECT_NEAR(result.between_ranks.selection, (ranks - 1) * 4 * kColumns / 8, 1e-6);
    EXPECT_EQ(simulated(job, "live-zero-offload").between_ranks.selection, 0);
  }
}

/// Ranks without columns to defer: two passes, the exchange of gradients and of weights, and what
/// each updates itself.
TEST(LiveRanks, WaitInEachCollectiveForItsTime) {
  const Job one = job_of(1);
  const Job two = job_of(2);
  const Communicator group = communicator(two.scenario.hardware, 2, 1);
  const HostProfile& host = two.scenario.hardware.host;
  double exchange = group.latency.value();  // of norms
  for (const LiveLayer& layer : live_layers(two.scenario.model, 0)) {
    const Bytes bytes(4 * layer.elements());
    const std::int64_t tensors = std::ssize(layer.tensors);
    exchange += reduce_to_owner_time(group, host, bytes, tensors).value();
    exchange += broadcast_time(group, bytes, tensors).value();
  }
  exchange *= kPicosecondsPerSecond;
  const SimulationResult result = simulated(two, "live-gpu-only");
  const auto collective = static_cast<std::size_t>(WaitCause::kCollective);
  // Each waits a little longer for the one that owns more.
  EXPECT_GE(result.stall_by_cause[collective], exchange * (1 - 1e-9));
  const double longer = simulated(one, "live-gpu-only").compute;
  EXPECT_LE(result.stall_by_cause[collective], exchange + 0.1 * longer);
  EXPECT_LE(result.step_time, longer + exchange);
}

TEST(LiveRanks, WaitForTheSlowestByTheirJitter) {
  Job job = job_of(4);
  const SimulationResult steady = simulated(job, "live-gpu-only");
  job.scenario.rank_jitter = 0.1;
  const SimulationResult jittery = simulated(job, "live-gpu-only");
  // All passes but the last forward, which the head's backward follows.
  const double passes = steady.compute;
  const double waits = jittery.step_time - steady.step_time;
  EXPECT_LT(waits, 0.1 * expected_largest(4) * passes);
  EXPECT_GT(waits, 0.08 * expected_largest(4) * passes);
  EXPECT_EQ(jittery.compute, steady.compute);
}

TEST(LiveRanks, ThatOwnNothingAreSimulatedAsOne) {
  const SimulationResult some = simulated(job_of(40), "live-zenflow");
  const SimulationResult many = simulated(job_of(1000), "live-zenflow");
  EXPECT_LE(many.tasks, some.tasks * 2);
}

TEST(LiveRanks, AreOfOneHostsCores) {
  JobOptions options;
  options.gpus = 2;
  const Job gpus = make_small_job(testing::round_node(2), testing::tiny_llama(), options);
  EXPECT_THAT(error_of([&] { static_cast<void>(simulated(gpus, "live-zenflow")); }).second,
              HasSubstr("several ranks on one host's cores alone"));
}

TEST(LiveRanks, ExchangeGradientsOfMicroBatchesOnceAStepInZeroStage1) {
  JobOptions options;
  options.accumulation = 3;
  const auto waits = [](const Job& job) {
    const SimulationResult result = simulated(job, "live-zero-offload");
    return result.stall_by_cause[static_cast<std::size_t>(WaitCause::kCollective)];
  };
  Job job = job_of(2, options);
  const double of_one = waits(job_of(2));
  EXPECT_GT(waits(job), 1.5 * of_one);
  job.scenario.offload.zero_stage = 1;
  EXPECT_NEAR(waits(job), of_one, 0.1 * of_one);
}

}  // namespace
}  // namespace zenflow::sim
