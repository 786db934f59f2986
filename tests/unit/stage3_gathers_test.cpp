// Which layers ZeRO stage 3 gathers and keeps, on models small enough to count, and in which order
// its collectives are issued.
#include "sim/schedule/stage3_gathers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/model/adapters.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using testing::JobOptions;

// tiny_llama: embedding 8,192; two blocks of 9,280, of which two norms of 32; head 32 + 8,192.
Job job_of(bool checkpoints, std::int64_t gpus = 2) {
  JobOptions options;
  options.gpus = gpus;
  options.stage = 3;
  options.with_zenflow = false;
  options.reduce_bucket_size = 9000;
  options.training.activation_checkpointing = checkpoints;
  Job job = testing::make_small_job(testing::round_node(gpus), testing::tiny_llama(), options);
  job.deepspeed.persistence_threshold = 100;
  return job;
}

std::vector<bool> kept(const Job& job) {
  std::vector<bool> layers;
  for (const LayerGather& layer : stage3_gathers(job).layers) layers.push_back(layer.kept);
  return layers;
}

TEST(Stage3Gathers, LeaveSmallTensorsWhole) {
  const Stage3Gathers gathers = stage3_gathers(job_of(false));
  ASSERT_EQ(gathers.layers.size(), 4U);
  EXPECT_EQ(gathers.layers[0].parameters, 8192);
  EXPECT_EQ(gathers.layers[1].parameters, 9280 - 64);
  EXPECT_EQ(gathers.layers[1].tensors, 7);
  EXPECT_EQ(gathers.layers[3].parameters, 8192);
  EXPECT_EQ(gathers.persistent, 5 * 32);
}

// Below the first trained layer there is no backward, so nothing is gathered for one.
TEST(Stage3Gathers, GatherFrozenLayersBelowTheFirstTrainedOnce) {
  Job job = job_of(false);
  job.deepspeed.max_reuse_distance = 0;
  ModelSpec& model = job.scenario.model;
  freeze(model, [](std::string_view name) {
    return name.starts_with("model.embed") || name.starts_with("model.layers");
  });
  drop_what_is_not_trained(model);
  EXPECT_EQ(stage3_gathers(job).in_a_step(), 8192 + 2 * 9216 + 2 * 8192);
}

// Between a block's forward and its backward lie the layers above it, forward and backward: above
// the last block the head, 2 x 8,224; above the first also the last block, 2 x 9,280 or, run
// forward again from its checkpoint, 3 x 9,280.
TEST(Stage3Gathers, KeepLayersThatAreUsedAgainWithinTheReuseDistance) {
  Job job = job_of(false);
  EXPECT_THAT(kept(job), ::testing::Each(true));
  job.deepspeed.max_reuse_distance = 2 * 8224 + 1;
  EXPECT_THAT(kept(job), ::testing::ElementsAre(false, false, true, true));
  job.deepspeed.max_reuse_distance = 2 * 8224 + 2 * 9280 + 1;
  EXPECT_THAT(kept(job), ::testing::ElementsAre(false, true, true, true));
  Job checkpointed = job_of(true);
  checkpointed.deepspeed.max_reuse_distance = job.deepspeed.max_reuse_distance;
  EXPECT_THAT(kept(checkpointed), ::testing::ElementsAre(false, false, true, true));
  job.deepspeed.max_reuse_distance = 0;
  EXPECT_THAT(kept(job), ::testing::Each(false));
  EXPECT_EQ(stage3_gathers(job).in_a_step(), 2 * (8192 + 2 * 9216 + 8192));
}

std::vector<bool> prefetches(const Job& job) {
  std::vector<bool> found;
  for (const LayerGather& layer : stage3_gathers(job).layers) found.push_back(layer.prefetches);
  return found;
}

TEST(Stage3Gathers, PrefetchWhereTheLimitsLeaveRoom) {
  Job job = job_of(false);
  EXPECT_THAT(prefetches(job), ::testing::Each(true));
  job.deepspeed.overlap_comm = false;
  EXPECT_THAT(prefetches(job), ::testing::Each(true));
  // The embedding and the head have 8192 elements each, a block's largest matrix fewer.
  job.deepspeed.max_live_parameters = 8192;
  EXPECT_THAT(prefetches(job), ::testing::ElementsAre(false, true, true, false));
  job = job_of(false);
  job.deepspeed.prefetch_bucket_size = 0;
  EXPECT_THAT(prefetches(job), ::testing::Each(false));
}

/// Operations of the collective lane in issue order, with their layers or buckets.
std::vector<std::string> collectives(const Job& job, const char* schedule) {
  const WindowShape shape{.first_step = 0, .steps = 1};
  const Program program = find_schedule(schedule).build(job, std::span(&shape, 1));
  std::vector<std::string> names;
  for (const TaskLabel& label : program.labels) {
    if (label.operation == Operation::kAllGather) names.push_back(fmt::format("g{}", label.index));
    if (label.operation == Operation::kReduceScatter) {
      names.push_back(fmt::format("r{}", label.index));
    }
  }
  return names;
}

// Buckets of 9,000: the head's matrix; then, each with what fits, the blocks' and the embedding.
// Backward's fetch of the layer below is issued before the reduction of what a layer produced.
TEST(Stage3Order, FetchesTheNextLayerBeforeItReduces) {
  Job job = job_of(false);
  job.deepspeed.max_reuse_distance = 0;
  for (const char* schedule :
       {"gpu-only", "zero-infinity", "deepspeed-zero-offload", "deepspeed-twin-flow"}) {
    const std::vector<std::string> names = collectives(job, schedule);
    ASSERT_GT(names.size(), 8U) << schedule;
    EXPECT_THAT(std::vector<std::string>(names.begin(), names.begin() + 8),
                ::testing::ElementsAre("g0", "g1", "g2", "g3", "g3", "g2", "r0", "g1"))
        << schedule;
    EXPECT_EQ(names.back().front(), 'r') << schedule;
  }
}

}  // namespace
}  // namespace zenflow::sim
