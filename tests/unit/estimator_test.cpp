#include "sim/deepspeed/estimator.h"

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

/// One matrix of `parameters`, nothing else.
ModelSpec model_of(std::int64_t parameters) {
  ModelSpec model;
  model.embedding.tensors = {{"embed.weight", {1, parameters}}};
  return model;
}

DeepSpeedConfig config_of(int stage, OffloadDevice optimizer, OffloadDevice param) {
  DeepSpeedConfig config;
  config.zero_stage = stage;
  config.offload_optimizer = optimizer;
  config.offload_param = param;
  return config;
}

// DeepSpeed's documentation (memory.rst): 2851 M parameters on 8 GPUs of one node print
// "127.48GB | 5.31GB | offload_optimizer=cpu" and "127.48GB | 15.93GB | offload_optimizer=none";
// T5-3B has 2,851,598,336 parameters.
TEST(Estimator, ReproducesTheTableOfDeepSpeedsDocumentation) {
  constexpr double kGib = 1073741824.0;
  const ModelSpec t5 = model_of(2'851'598'336);
  const auto offload =
      deepspeed_estimate(t5, config_of(2, OffloadDevice::kCpu, OffloadDevice::kNone), 8, 1);
  ASSERT_TRUE(offload);
  EXPECT_NEAR(offload->cpu_bytes / kGib, 127.48, 0.005);
  EXPECT_NEAR(offload->gpu_bytes / kGib, 5.31, 0.005);
}

// P = 1000, 3 GPUs: 18 P / T = 6000, 2 P = 2000; odd values show the rounding down.
TEST(Estimator, CountsBytesAsDeepSpeedDoes) {
  const ModelSpec model = model_of(1001);
  const auto none =
      deepspeed_estimate(model, config_of(2, OffloadDevice::kNone, OffloadDevice::kNone), 4, 1);
  EXPECT_EQ(none->gpu_bytes, 2 * 1001 + 4504);  // 18 * 1001 / 4 = 4504.5
  EXPECT_EQ(none->cpu_bytes, 4.0 * 1001 * 4 * 1.5);
  const auto stage3 =
      deepspeed_estimate(model, config_of(3, OffloadDevice::kCpu, OffloadDevice::kNone), 4, 2);
  EXPECT_EQ(stage3->gpu_bytes, 4 * 1001 + 250);  // 2 * 1001 / 8 = 250.25
  EXPECT_EQ(stage3->cpu_bytes, 16.0 * 1001 / 2 * 1.5);
  const auto both =
      deepspeed_estimate(model, config_of(3, OffloadDevice::kCpu, OffloadDevice::kCpu), 4, 1);
  EXPECT_EQ(both->gpu_bytes, 4 * 1001);
  EXPECT_EQ(both->cpu_bytes, 18.0 * 1001 * 1.5);
}

TEST(Estimator, HasNothingForStagesWithoutOne) {
  const auto stage1 = deepspeed_estimate(
      model_of(1), config_of(1, OffloadDevice::kCpu, OffloadDevice::kNone), 1, 1);
  EXPECT_FALSE(stage1);
}

TEST(Estimator, TakesTheLargestModulesOwnParameters) {
  ModelSpec model;
  model.embedding.tensors = {{"embed_tokens.weight", {100, 8}}};
  Layer block;
  block.tensors = {{"layers.{}.q_proj.weight", {30, 30}}, {"layers.{}.q_proj.bias", {30}}};
  model.kinds = {block};
  model.order = {0, 0};
  EXPECT_EQ(largest_layer_parameters(model), 930);
}

}  // namespace
}  // namespace zenflow::sim
