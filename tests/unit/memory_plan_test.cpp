/// The plan of a run's memory against what the engine allocates.
#include "runtime/train/memory_plan.h"

#include <cmath>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/host_device.h"
#include "runtime/offload/engine.h"
#include "runtime/train/host_model.h"
#include "tests/support/error_of.h"

namespace zenflow::runtime {
namespace {

using ::testing::HasSubstr;
using zenflow::testing::error_of;

TransformerConfig config_of(const std::string& name) {
  return load_transformer_config(
      std::string(ZENFLOW_SOURCE_DIR "/tests/data/model/") + name + ".json",
      Task::language_modelling());
}

/// Bytes at the peak of what the plan speaks of; the rest is small, and named here.
std::uint64_t held(const MemoryUse& use) {
  const std::set<std::string> small = {"bias corrections", "column exchange", "column indices",
                                       "column norms", "gradient norms"};
  std::uint64_t bytes = 0;
  for (const auto& [purpose, held] : use.by_purpose) bytes += small.count(purpose) == 0 ? held : 0;
  return bytes;
}

class MemoryPlanOf : public ::testing::TestWithParam<const char*> {};

TEST_P(MemoryPlanOf, IsWhatTheEngineAllocates) {
  const TransformerConfig config = config_of(GetParam());
  std::vector<TrainOptions> runs;
  for (const OffloadSchedule schedule :
       {OffloadSchedule::kGpuOnly, OffloadSchedule::kZeroOffload, OffloadSchedule::kZeroOffloadDpu,
        OffloadSchedule::kZenFlow}) {
    for (int variant = 0; variant < 6; ++variant) {
      TrainOptions o;
      o.schedule = schedule;
      o.dtype = variant % 2 == 0 ? ElementType::kFloat32 : ElementType::kBfloat16;
      o.feed.sequences = 2;
      o.feed.length = 6;
      o.offload.topk_ratio = variant < 3 ? 0.1 : 0.3;
      if (variant % 2 == 1) o.offload.topk_range = {0.05, 0.6};
      o.offload.update_interval = variant + 1;
      o.offload.overlap_step = variant != 2;
      o.offload.accumulate_on_device = variant == 3;
      o.offload.whole_step_gradients = variant != 4;
      o.offload.full_warm_up_rounds = variant == 5 ? 2 : 0;
      o.offload = settings_for(schedule, o.offload);
      runs.push_back(o);
    }
  }
  for (const TrainOptions& o : runs) {
    SCOPED_TRACE(::testing::Message()
                 << "schedule " << static_cast<int>(o.schedule) << " S "
                 << o.offload.update_interval << " k " << o.offload.topk_ratio);
    const MemoryPlan plan = plan_memory(config.model, o);
    Recorder recorder(false);
    SelfCommunicator self;
    HostDevice device({}, recorder);
    HostModel model(HostTransformer(config, 2, 6, o.dtype));
    const OffloadEngine engine(model, o.dtype, o.offload, device, self, recorder);
    // Every tensor begins at a multiple of 256 bytes, in weights, second weights and gradients.
    std::uint64_t padding = 0;
    for (const Parameter& p : model.parameters().parameters) {
      const auto bytes = static_cast<std::uint64_t>(p.elements()) * bytes_per_element(o.dtype);
      padding += 3 * ((256 - bytes % 256) % 256);
    }
    const std::uint64_t device_held = held(device.memory_use(MemoryKind::kDevice));
    EXPECT_GE(device_held, total(plan.device));
    EXPECT_LE(device_held, total(plan.device) + padding);
    double pinned = 0;
    for (const PlannedMemory& part : plan.host) {
      if (part.what.find("all columns") == std::string::npos) {
        pinned += static_cast<double>(part.bytes);
      } else {
        EXPECT_EQ(part.bytes, 12U * static_cast<std::uint64_t>(config.model.parameters()));
      }
    }
    EXPECT_EQ(pinned, static_cast<double>(held(device.memory_use(MemoryKind::kPinnedHost))));
  }
}
INSTANTIATE_TEST_SUITE_P(Configurations, MemoryPlanOf,
                         ::testing::Values("gpt2", "llama", "llama_tied", "qwen2"),
                         [](const auto& which) { return std::string(which.param); });

TEST(MemoryPlan, WhatDoesNotFitIsRefusedWithNumbers) {
  const std::vector<PlannedMemory> parts = {{"weights", 60}, {"second weights", 50}};
  EXPECT_EQ(error_of([&] { require_memory("GPU", parts, 110, 200); }).second, "");
  const auto [kind, message] = error_of([&] { require_memory("GPU", parts, 109, 200); });
  EXPECT_EQ(kind, ErrorKind::kInfeasible);
  EXPECT_EQ(message,
            "GPU: the run needs 110 bytes, 109 of 200 are free; weights: 60, second weights: 50");
}

}  // namespace
}  // namespace zenflow::runtime
