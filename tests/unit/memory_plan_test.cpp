/// The plan of a run's memory against what the engine allocates.
#include "runtime/train/memory_plan.h"

#include <cmath>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/device/host_device.h"
#include "runtime/model/host_operations.h"
#include "runtime/model/network.h"
#include "runtime/offload/engine.h"
#include "runtime/train/host_model.h"
#include "runtime/train/make_model.h"
#include "sim/memory/trainer_activations.h"
#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::HasSubstr;
using zenflow::testing::error_of;

TransformerConfig config_of(const std::string& name) {
  return load_transformer_config(
      std::string(ZENFLOW_SOURCE_DIR "/tests/data/model/") + name + ".json",
      Task::language_modelling());
}

/// The plan's bytes for the host device, without the model's: no device counts those there.
std::uint64_t of_the_engine(std::vector<PlannedMemory> parts) {
  std::erase_if(parts, is_of_the_model);
  return total(parts);
}

std::vector<std::vector<float>> zeros(const ParameterTable& table) {
  std::vector<std::vector<float>> weights;
  for (const Parameter& p : table.parameters) {
    weights.emplace_back(static_cast<std::size_t>(p.elements()));
  }
  return weights;
}

struct DroppedState final : OffloadEngine::StateSink {
  std::size_t bytes = 0;
  void begin(const std::string&, std::size_t) override {}
  void append(std::span<const std::byte> piece) override { bytes += piece.size(); }
  void end() override {}
};

/// Sums here and there: of windows, of single steps, beside a warm-up in which there are none; none
/// where a step is all of a window and nothing overlaps it, unless S may become more.
std::vector<TrainOptions> runs_with_sums() {
  struct Windows {
    std::int64_t interval;
    bool overlap;
    std::int64_t warm_up = 0;
    bool adaptive = false;
  };
  std::vector<TrainOptions> runs;
  for (const Windows& windows : {Windows{3, false}, Windows{3, true, 2}, Windows{1, true},
                                 Windows{1, false}, Windows{1, false, 0, true}}) {
    for (const bool on_device : {false, true}) {
      TrainOptions o;
      o.offload.schedule = OffloadSchedule::kZenFlow;
      o.training = {
          .micro_batch_size_per_gpu = 2, .sequence_length = 6, .dtype = sim::DType::kBf16};
      o.offload.topk_ratio = 0.2;
      o.offload.update_interval = windows.interval;
      o.offload.overlap_step = windows.overlap;
      o.offload.full_warm_up_rounds = windows.warm_up;
      o.offload.interval_is_auto = windows.adaptive;
      o.offload.accumulate_on_device = on_device;
      o.offload = settings_for(o.offload.schedule, o.offload);
      runs.push_back(o);
      runs.push_back(o);  // with columns of all matrices that compete
      runs.back().offload.topk_is_global = true;
    }
  }
  return runs;
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
      o.offload.schedule = schedule;
      o.training = {.micro_batch_size_per_gpu = 2,
                    .sequence_length = 6,
                    .dtype = variant % 2 == 0 ? sim::DType::kFp32 : sim::DType::kBf16};
      o.offload.topk_ratio = variant < 3 ? 0.1 : 0.3;
      if (variant % 2 == 1) o.offload.topk_range = {0.05, 0.6};
      o.offload.update_interval = variant + 1;
      o.offload.overlap_step = variant != 2;
      o.offload.accumulate_on_device = variant == 3;
      o.offload.whole_step_gradients = variant != 4;
      o.offload.topk_is_global = variant == 2 || variant == 4;
      o.offload.full_warm_up_rounds = variant == 5 ? 2 : 0;
      o.offload.gradient_accumulation_steps = variant < 2 ? 1 : variant;
      o.offload = settings_for(schedule, o.offload);
      runs.push_back(o);
    }
  }
  for (const TrainOptions& o : runs_with_sums()) runs.push_back(o);
  for (const TrainOptions& o : runs) {
    SCOPED_TRACE(::testing::Message()
                 << "schedule " << static_cast<int>(o.offload.schedule) << " S "
                 << o.offload.update_interval << " k " << o.offload.topk_ratio << " sums on device "
                 << o.offload.accumulate_on_device << " global " << o.offload.topk_is_global);
    const MemoryPlan plan = plan_memory(config, o);
    Recorder recorder(false);
    SelfCommunicator self;
    HostDevice device({}, recorder);
    const ElementType type = element_type(o.training.dtype);
    HostModel model(HostTransformer(config, {2, 6, type}));
    OffloadEngine engine(model, type, o.offload, device, self, recorder);
    engine.load_weights(zeros(model.parameters()));
    DroppedState dropped;
    engine.save(dropped);  // a checkpoint takes no memory beyond the plan
    EXPECT_GT(dropped.bytes, 0U);
    // Every tensor begins at a multiple of 256 bytes, in weights, second weights and gradients.
    std::uint64_t padding = 0;
    for (const Parameter& p : model.parameters().parameters) {
      const auto bytes = static_cast<std::uint64_t>(p.elements()) * bytes_per_element(type);
      padding += 3 * ((256 - bytes % 256) % 256);
    }
    const std::uint64_t device_held = device.memory_use(MemoryKind::kDevice).peak;
    EXPECT_GE(device_held, of_the_engine(plan.device));
    EXPECT_LE(device_held, of_the_engine(plan.device) + padding);
    double pinned = 0;
    for (const PlannedMemory& part : plan.host) {
      if (part.what == "columns of a matrix that change place, fp32") continue;  // pageable
      if (part.what.find("batches") != std::string::npos) {                      // the trainer's
        EXPECT_EQ(
            part.bytes,
            2 * 2 * 4 * 2 * 6 * static_cast<std::uint64_t>(o.offload.gradient_accumulation_steps));
      } else if (part.what.find("all columns") == std::string::npos) {
        pinned += static_cast<double>(part.bytes);
      } else {
        EXPECT_EQ(part.bytes, 12U * static_cast<std::uint64_t>(config.model.parameters()));
      }
    }
    EXPECT_EQ(pinned, static_cast<double>(device.memory_use(MemoryKind::kPinnedHost).peak));
  }
}
INSTANTIATE_TEST_SUITE_P(Configurations, MemoryPlanOf,
                         ::testing::Values("gpt2", "llama", "llama_tied", "qwen2", "gemma3", "phi3",
                                           "olmo3", "opt"),
                         [](const auto& which) { return std::string(which.param); });

TEST(MemoryPlan, HasTheActivationsThatFitHas) {
  const TransformerConfig config = config_of("llama");
  for (const bool checkpoints : {false, true}) {
    for (const bool on_gpu : {false, true}) {
      TrainOptions o;
      const sim::TrainingSettings training{.micro_batch_size_per_gpu = 3,
                                           .sequence_length = 5,
                                           .dtype = sim::DType::kFp32,
                                           .activation_checkpointing = checkpoints};
      o.training = training;
      if (on_gpu) o.cuda.emplace();
      const sim::TrainerActivations expected =
          on_gpu ? sim::trainer_activations(config.model, training)
                 : sim::host_trainer_activations(config.model, training, false);
      const MemoryPlan plan = plan_memory(config, o);
      const auto planned = [&](const char* what) {
        for (const PlannedMemory& part : plan.device) {
          if (part.what == what) return static_cast<double>(part.bytes);
        }
        return 0.0;
      };
      EXPECT_EQ(planned("activations kept"), expected.kept.value());
      EXPECT_EQ(planned("model workspace"), expected.work.value());
    }
  }
}

TEST(MemoryPlan, HasOneMatrixOfColumnsThatChangePlace) {
  const TransformerConfig config = config_of("llama");
  const auto planned = [&](std::int64_t select_interval, std::optional<TopkRange> range) {
    TrainOptions o;
    o.offload.schedule = OffloadSchedule::kZenFlow;
    o.offload.topk_ratio = 0.25;
    o.offload.select_interval = select_interval;
    o.offload.topk_range = range;
    o.offload = settings_for(o.offload.schedule, o.offload);
    for (const PlannedMemory& part : plan_memory(config, o).host) {
      if (part.what == "columns of a matrix that change place, fp32") return part.bytes;
    }
    return std::uint64_t{0};
  };
  // The head and the embedding are the largest: [vocab, hidden]. 12 bytes of state leave and 12
  // come, whose gradients are 4.
  const auto rows = static_cast<std::uint64_t>(config.model.vocab);
  const auto columns = static_cast<std::uint64_t>(config.model.hidden);
  ASSERT_EQ(columns % 4, 0U);
  EXPECT_EQ(planned(0, {}), 0U);
  EXPECT_EQ(planned(4, {}), 28 * rows * columns / 4);
  EXPECT_EQ(planned(0, TopkRange{0.25, 0.5}), 28 * rows * columns / 2);
  EXPECT_EQ(planned(4, TopkRange{0.25, 0.9}), 28 * rows * columns * 3 / 4)
      << "no more than are deferred at the other end";
}

TEST_P(MemoryPlanOf, HasTheHostModelsActivations) {
  const TransformerConfig config = config_of(GetParam());
  for (const bool checkpoints : {false, true}) {
    const sim::TrainingSettings training{.micro_batch_size_per_gpu = 16,
                                         .sequence_length = 4,
                                         .dtype = sim::DType::kFp32,
                                         .activation_checkpointing = checkpoints};
    const sim::TrainerActivations planned = host_trainer_activations(config.model, training, false);
    const NetworkMemory taken = network_memory<float>(
        config, {16, 4, ElementType::kFloat32, checkpoints}, host_operation_memory());
    // Up to 255 bytes before each array: 12 of a block and its input, 13 of the rest.
    const auto layers = static_cast<double>(config.model.layers());
    const double kept = static_cast<double>(taken.kept) - planned.kept.value();
    EXPECT_GE(kept, 0.0);
    EXPECT_LE(kept, 255.0 * (13 * layers + 1));
    const double work = static_cast<double>(taken.work) - planned.work.value();
    EXPECT_GE(work, 0.0);
    EXPECT_LE(work, 255.0 * 13);
  }
}

TEST(HostMemory, IsWhatTheControlGroupLeaves) {
  zenflow::testing::TemporaryFolder root;
  const HostMemory machine = host_memory(root.path());
  EXPECT_FALSE(machine.is_of_control_group);
  EXPECT_GT(machine.bytes, 0U);
  root.write("proc/self/cgroup", "0::/job\n");
  root.write("sys/fs/cgroup/job/memory.max", "max\n");
  EXPECT_EQ(host_memory(root.path()).bytes, machine.bytes);
  root.write("sys/fs/cgroup/memory.max", "1048576\n");  // of a group above
  EXPECT_EQ(host_memory(root.path()).bytes, 1048576U);
  EXPECT_TRUE(host_memory(root.path()).is_of_control_group);
  // Version 1 names a number beyond any machine where there is no limit.
  root.write("proc/self/cgroup", "4:memory:/a\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(host_memory(root.path()).bytes, machine.bytes);
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2097152\n");
  EXPECT_EQ(host_memory(root.path()).bytes, 2097152U);
}

TEST(HostMemory, IsFreeWhereOthersDoNotHoldIt) {
  zenflow::testing::TemporaryFolder root;
  EXPECT_EQ(host_memory(root.path()).free, host_memory(root.path()).bytes);  // nothing is known
  root.write("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable:  3072 kB\n");
  EXPECT_EQ(host_memory(root.path()).free, 3U << 20);
  root.write("proc/self/cgroup", "0::/job/mine\n");
  root.write("sys/fs/cgroup/job/memory.max", "2097152\n");
  EXPECT_EQ(host_memory(root.path()).free, 2U << 20);
  // 1 MiB is held, of which 256 KiB are files that can go; a sibling's share is in it.
  root.write("sys/fs/cgroup/job/memory.current", "1048576\n");
  root.write("sys/fs/cgroup/job/memory.stat", "anon 786432\nfile 262144\ninactive_file 262144\n");
  const HostMemory shared = host_memory(root.path());
  EXPECT_EQ(shared.free, 2097152U - 786432U);
  EXPECT_EQ(shared.bytes, 2097152U);
  // A larger group of its own, nearly used up; one that holds more than it may has nothing left.
  root.write("sys/fs/cgroup/job/mine/memory.max", "4194304\n");
  root.write("sys/fs/cgroup/job/mine/memory.current", "4194000\n");
  EXPECT_EQ(host_memory(root.path()).free, 304U);
  root.write("sys/fs/cgroup/job/mine/memory.current", "4194305\n");
  EXPECT_EQ(host_memory(root.path()).free, 0U);
  EXPECT_EQ(host_memory(root.path()).bytes, 2097152U);
  // The machine has less than the group would allow.
  root.write("sys/fs/cgroup/job/mine/memory.current", "0\n");
  root.write("proc/meminfo", "MemAvailable: 1 kB\n");
  EXPECT_EQ(host_memory(root.path()).free, 1024U);
  // Version 1.
  root.write("proc/meminfo", "MemAvailable: 9999999 kB\n");
  root.write("proc/self/cgroup", "4:memory:/a\n");
  root.write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2097152\n");
  root.write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1048576\n");
  root.write("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 5\ntotal_inactive_file 1000\n");
  EXPECT_EQ(host_memory(root.path()).free, 1048576U + 1000U);
}

TEST(MemoryPlan, WhatDoesNotFitIsRefusedWithNumbers) {
  const std::vector<PlannedMemory> parts = {{"weights", 60}, {"second weights", 50}};
  EXPECT_EQ(error_of([&] { require_memory("GPU", parts, 110, 200); }).second, "");
  const auto [kind, message] = error_of([&] { require_memory("GPU", parts, 109, 200); });
  EXPECT_EQ(kind, ErrorKind::kInfeasible);
  EXPECT_EQ(
      message,
      "GPU: the run needs 110 B, 109 B of 200 B are free; weights: 60 B, second weights: 50 B");
}

}  // namespace
}  // namespace zenflow::runtime
