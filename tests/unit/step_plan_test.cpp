// A step's layers and gradient buckets by hand.
#include "sim/schedule/step_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/schedule/deepspeed_step.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {

void PrintTo(const GradientBucket& bucket, std::ostream* out) {
  *out << bucket.elements << " elements, " << bucket.matrix_elements << " in matrices, layers "
       << bucket.first_layer << (bucket.begins_layer ? "" : " (midst)") << ".."
       << bucket.ready_layer;
}
bool operator==(const GradientBucket& a, const GradientBucket& b) {
  return a.elements == b.elements && a.matrix_elements == b.matrix_elements &&
         a.first_layer == b.first_layer && a.begins_layer == b.begins_layer &&
         a.ready_layer == b.ready_layer;
}

namespace {

using ::testing::ElementsAre;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::tiny_llama;

GradientBucket bucket(double elements, double in_matrices, std::int32_t first_layer,
                      bool begins_layer, std::int32_t ready_layer) {
  return {.elements = elements,
          .matrix_elements = in_matrices,
          .first_layer = first_layer,
          .begins_layer = begins_layer,
          .ready_layer = ready_layer};
}

StepPlan plan(std::int64_t bucket_size, bool checkpointing = false) {
  JobOptions options;
  options.reduce_bucket_size = bucket_size;
  options.training.activation_checkpointing = checkpointing;
  return plan_step(make_small_job(round_node(), tiny_llama(), options));
}

TEST(StepPlan, HasEmbeddingBlocksAndHead) {
  const StepPlan one = plan(500'000'000);
  ASSERT_EQ(one.layers.size(), 4U);
  EXPECT_EQ(one.layers[0].parameters, 8192);
  EXPECT_EQ(one.layers[1].parameters, 9280);  // 3,072 attention, 6,144 MLP, 64 norms
  EXPECT_EQ(one.layers[2].parameters, 9280);
  EXPECT_EQ(one.layers[3].parameters, 8224);
}

TEST(StepPlan, AddsTheCopyIntoBucketsToTheBackwardPass) {
  const StepPlan one = plan(500'000'000);
  EXPECT_EQ(one.layers[0].forward.count, 5'032'768);
  // 10.065536 us and a pass of 8,192 x 2 B x 4 at 800 GB/s with its kernel: 5.08192 us.
  EXPECT_EQ(one.layers[0].backward.count, 15'147'456);
}

/// On a GPU so fast that only the host's time is left.
StepPlan host_bound_plan(JobOptions options) {
  HardwareProfile node = round_node();
  node.gpu.multiprocessors = 100;
  node.gpu.kernel_launch = Seconds(1e-9);
  return plan_step(make_small_job(node, tiny_llama(), options));
}

TEST(StepPlan, WaitsForAnEagerFrameworkToEnqueue) {
  JobOptions options{.stage = 0};
  // A block: 26 kernels of chains, 7 products and attention, each 1.5 x 13.7 us; backward 1.5 times
  // the chains and twice the products.
  const StepPlan eager = host_bound_plan(options);
  EXPECT_EQ(eager.layers[1].forward.count, 34 * 21'000'000);
  EXPECT_EQ(eager.layers[1].backward.count, std::int64_t{39 + 14 + 1} * 21'000'000);
  // Fused, a block has fewer kernels than half of that, and a compiled graph enqueues them.
  options.training.fused_framework = true;
  EXPECT_LT(host_bound_plan(options).layers[1].forward.count, 15 * 21'000'000);
}

TEST(StepPlan, WaitsForDeepSpeedsHooks) {
  const StepPlan none = host_bound_plan({.stage = 0});
  const StepPlan two = host_bound_plan({.stage = 2});
  const StepPlan three = host_bound_plan({.stage = 3});
  // Nine gradients of a block at 1.5 x 0.09 ms; in stage 3 nine modules at 1.5 x 0.18 ms forward
  // and 1.5 x 0.14 ms backward.
  EXPECT_EQ(two.layers[1].forward.count, none.layers[1].forward.count);
  EXPECT_EQ(two.layers[1].backward.count - none.layers[1].backward.count,
            std::int64_t{9} * 85'000'000);
  EXPECT_EQ(three.layers[1].forward.count - two.layers[1].forward.count,
            std::int64_t{9} * 580'000'000);
  EXPECT_EQ(three.layers[1].backward.count - two.layers[1].backward.count,
            std::int64_t{9} * 420'000'000);
  // Recomputation enqueues forward's kernels again, and fetches its modules again.
  JobOptions again{.stage = 3};
  again.training.activation_checkpointing = true;
  EXPECT_EQ(host_bound_plan(again).layers[1].backward.count,
            three.layers[1].backward.count + three.layers[1].forward.count);
}

TEST(StepPlan, CountsTheFrameworksTimeOfAStepByTensors) {
  HardwareProfile node = round_node(2);
  const auto time_of = [&](JobOptions options) {
    options.gpus = 2;
    return framework_step_time(make_small_job(node, tiny_llama(), options)).value();
  };
  EXPECT_EQ(time_of({.stage = 2}), 0);
  node.gpu.multiprocessors = 100;
  // 1 + 2 x 9 + 2 tensors, of which a rank owns half; stage 3: a part of each.
  EXPECT_NEAR(time_of({.stage = 2}), 21 / 2.0 * 0.08e-3, 1e-12);
  EXPECT_NEAR(time_of({.stage = 0}), 21 * 0.235e-3, 1e-12);
  EXPECT_NEAR(time_of({.stage = 3}), 21 * 0.1e-3, 1e-12);
}

TEST(StepPlan, CountsWhatTheHostDoesForGradientsThatGoDown) {
  HardwareProfile node = round_node(1);
  const auto time_of = [&](int stage, StepPlace which, std::int64_t micro_steps = 4,
                           bool zenflow = false) {
    const Job job = make_small_job(
        node, tiny_llama(), {.stage = stage, .accumulation = micro_steps, .with_zenflow = zenflow});
    return gradient_host_time(job, which, zenflow, 21).value();
  };
  EXPECT_EQ(time_of(2, {true, true}), 0);
  node.gpu.multiprocessors = 100;
  constexpr double kDown = 0.16e-3;
  constexpr double kSum = kDown * 8 / 26;
  EXPECT_NEAR(time_of(2, {.first = true, .boundary = true}, 1), kDown, 1e-12);
  EXPECT_NEAR(time_of(2, {.first = true, .boundary = false}), kSum, 1e-12);
  EXPECT_NEAR(time_of(2, {.first = false, .boundary = false}), kSum, 1e-12);
  EXPECT_NEAR(time_of(2, {.first = false, .boundary = true}), kDown + kSum, 1e-12);
  EXPECT_NEAR(time_of(2, {.first = false, .boundary = false}, 1, true), kSum + 0.16e-3, 1e-12);
  EXPECT_NEAR(time_of(3, {.first = true, .boundary = false}), kSum, 1e-12);
  EXPECT_NEAR(time_of(3, {.first = false, .boundary = true}), kDown, 1e-12);
}

TEST(StepPlan, RecomputesCheckpointedBlocksInTheBackwardPass) {
  const StepPlan kept = plan(500'000'000);
  const StepPlan again = plan(500'000'000, true);
  EXPECT_EQ(again.layers[1].backward.count,
            kept.layers[1].backward.count + kept.layers[1].forward.count);
  EXPECT_EQ(again.layers[3].backward, kept.layers[3].backward);
  EXPECT_EQ(again.layers[1].activation_bytes, 128 * 32 * 2);
  EXPECT_EQ(again.layers[1].transient_bytes, 157696);
  EXPECT_EQ(kept.layers[1].activation_bytes, 157696);
  EXPECT_EQ(kept.layers[1].transient_bytes, 0);
}

TEST(StepPlan, KeepsLogitsInTheHead) {
  const StepPlan one = plan(500'000'000);
  // And its norm's fp32 input and two outputs of 32.
  EXPECT_EQ(one.layers[3].logit_bytes, 128 * (256 * 4 + 256));
  EXPECT_EQ(one.layers[3].transient_bytes, 128 * 256 * 8);
  EXPECT_EQ(one.layers[0].logit_bytes, 0);
}

TEST(StepPlan, PutsEverythingThatFitsIntoOneBucket) {
  // 34,976 parameters; norms: 32 in the head, 64 in each block.
  EXPECT_THAT(plan(34976).buckets, ElementsAre(bucket(34976, 34816, 3, true, 0)));
  EXPECT_EQ(plan(34975).buckets.size(), 2U);
}

TEST(StepPlan, FillsBucketsFromTheLastParameterBackwards) {
  // Sizes from the last: lm_head 8192, norm 32 | down 2048, up 2048, gate 2048, norm 32, o 1024,
  // v 512, k 512 | q 1024, norm 32, then of block 0 down, up, gate, norm, o, v 512 | k 512,
  // q 1024, norm 32 | embedding 8192.
  EXPECT_THAT(plan(9000).buckets,
              ElementsAre(bucket(8224, 8192, 3, true, 3), bucket(8224, 8192, 2, true, 2),
                          bucket(8768, 8704, 2, false, 1), bucket(1568, 1536, 1, false, 1),
                          bucket(8192, 8192, 0, true, 0)));
}

TEST(StepPlan, GivesALargerTensorABucketOfItsOwn) {
  const StepPlan one = plan(1);
  // Every tensor alone: embedding, 9 in each block, 2 in the head.
  EXPECT_EQ(one.buckets.size(), 21U);
  EXPECT_EQ(one.buckets.front(), bucket(8192, 8192, 3, true, 3));
  EXPECT_EQ(one.buckets[1], bucket(32, 0, 3, false, 3));
  double total = 0;
  for (const GradientBucket& bucket : one.buckets) total += bucket.elements;
  EXPECT_EQ(total, 34976);
}

TEST(StepPlan, CountsTheColumnsThatSelectionRanks) {
  // Embedding and head 32 each; in each block six matrices of 32 and down's 64.
  EXPECT_EQ(plan(9000).matrix_columns, 2 * (6 * 32 + 64) + 64);
}

}  // namespace
}  // namespace zenflow::sim
