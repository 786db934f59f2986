// Jobs that people ran, and whether they had room, as small scenarios.
#include <filesystem>
#include <optional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/report/fit.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

// The most common offload file: stage 3 with everything in RAM, sizes left to Trainer.
constexpr const char* kParametersInRam = R"({
  "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
  "gradient_accumulation_steps": "auto", "gradient_clipping": "auto", "bf16": {"enabled": "auto"},
  "zero_optimization": {"stage": 3,
    "offload_optimizer": {"device": "cpu", "pin_memory": true},
    "offload_param": {"device": "cpu", "pin_memory": true},
    "overlap_comm": false, "sub_group_size": 1e9, "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto", "stage3_param_persistence_threshold": "auto"}})";

Job job_of(const std::string& model, const std::string& hardware, const std::string& rest,
           const std::string& deepspeed, std::vector<Override> overrides = {}) {
  const zenflow::testing::TemporaryFolder folder;
  const fs::path root(ZENFLOW_SOURCE_DIR);
  folder.write("ds.json", deepspeed);
  const fs::path file = folder.write(
      "job.yaml", "name: job\nmodel: " + (root / "scenarios/models" / (model + ".json")).string() +
                      "\nhardware: " + hardware +
                      "\ngpus: 1\ndeepspeed: ds.json\nschedules: [zero-offload]\n" + rest);
  LoadOptions options;
  options.profile_directories = {root / "profiles"};
  options.overrides = std::move(overrides);
  return make_job(load_scenario(file, options));
}

std::string training(int tokens) {
  return "training: {micro_batch_size_per_gpu: 1, sequence_length: " + std::to_string(tokens) +
         ", dtype: bf16, activation_checkpointing: true}\n";
}

constexpr double kGib = 1024.0 * 1024 * 1024;

std::optional<double> largest(const Fit& found, std::string_view name) {
  for (const BufferUse& use : found.buffers) {
    if (use.buffer.name == name) return use.largest;
  }
  return std::nullopt;
}

// 3 billion parameters on four GPUs of 24 GiB, ZeRO-2 without offloading: it ran out of memory
// (LLaMA-Factory 6752).
TEST(WithoutOffloading, OfThreeBillionOnFourGpusOf24GiBIsAtRisk) {
  const Job job = job_of("qwen2_5_3b", "rtx3090_desktop", training(512),
                         R"({"train_micro_batch_size_per_gpu": 1,
  "gradient_accumulation_steps": 1, "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2, "reduce_bucket_size": 5e8, "overlap_comm": false}})",
                         {{"gpus", "4"},
                          {"hardware.gpu.count.value", "8"},
                          {"hardware.gpu_link",
                           "{kind: PCIe, bandwidth: {value: 8 GB/s, source: est}, "
                           "latency: {value: 20 us, source: est}}"}});
  const Fit found = fit(job, find_schedule("deepspeed-zero"));
  EXPECT_TRUE(found.memory.limit(MemoryLimit::kGpu).holds());
  EXPECT_TRUE(is_gpu_at_risk(job, found));
}

// 8 billion parameters on one GPU of 24 GiB: people train so, with a few GiB of it in use.
TEST(OffloadedParameters, OfEightBillionFitAGpuOf24GiB) {
  const Job job = job_of("llama3_8b", "rtx4090_desktop", training(1024) + "launch: {target: hf}\n",
                         kParametersInRam);
  const Fit found = fit(job, find_schedule("deepspeed-zero-offload"));
  EXPECT_TRUE(found.memory.limit(MemoryLimit::kGpu).holds());
  EXPECT_GT(found.memory.gpu.total, 3 * kGib);
  EXPECT_LT(found.memory.gpu.total, 7 * kGib);
  EXPECT_EQ(largest(found, "16-bit weights"), 2 * 8030261248.0);
  // DeepSpeed's estimator for the same case: 4 L on the GPU, 18 P x 1.5 on the host.
  ASSERT_EQ(found.estimator.size(), 2U);
  EXPECT_EQ(found.estimator[0].estimate, 4 * 128256.0 * 4096);
  EXPECT_EQ(found.estimator[1].estimate, 18 * 1.5 * 8030261248.0);
}

// 32 billion on one GPU with 744 GB of RAM: the run was killed (LLaMA-Factory 6755). By hand, GB:
// master 131, moments 262, gradients 131 and sums 66 and weights 66, with rounding 656 to 730, and
// 118 of freed partitions.
TEST(OffloadedParameters, OfThirtyTwoBillionAreTooManyFor744GB) {
  const Job job =
      job_of("qwen2_5_32b", "dgx_h100", training(2048) + "launch: {target: hf}\n", kParametersInRam,
             {{"hardware.host.memory.value", "744 GB"}, {"hardware.gpu.memory.value", "94 GiB"}});
  const Fit found = fit(job, find_schedule("deepspeed-zero-offload"));
  EXPECT_TRUE(found.memory.limit(MemoryLimit::kGpu).holds());
  EXPECT_FALSE(found.memory.limit(MemoryLimit::kHost).holds());
  EXPECT_GT(largest(found, "freed pinned partitions, kept").value_or(0), 100 * kGib);
  std::vector<std::string> cures;
  for (const FitChange& one : found.changes) {
    if (one.fits)
      cures.push_back(environment_of(one.set).empty() ? one.set : environment_of(one.set));
  }
  EXPECT_THAT(cures, ::testing::Contains("PYTORCH_ALLOC_CONF=pinned_max_round_threshold_mb:64"));
  EXPECT_THAT(cures, ::testing::Contains("DS_PIN_MEMORY_BACKEND=native"));
  EXPECT_THAT(cures,
              ::testing::Contains("deepspeed.zero_optimization.offload_param.pin_memory=false"));
}

// The same with the environment's variables as keys of the scenario.
TEST(OffloadedParameters, OfThirtyTwoBillionFitPinnedAtTheirSize) {
  for (const char* key : {"ds_pin_memory_backend: native", "pinned_max_round_threshold_mb: 64"}) {
    const Job job =
        job_of("qwen2_5_32b", "dgx_h100", training(2048) + "launch: {target: hf, " + key + "}\n",
               kParametersInRam, {{"hardware.host.memory.value", "744 GB"}});
    EXPECT_TRUE(fit(job, find_schedule("deepspeed-zero-offload")).memory.fits) << key;
  }
}

// With the optimizer on NVMe ratio keeps nothing on the GPU: 6.7 billion on 24 GiB.
TEST(OptimizerOnNvme, StaysThereWhateverRatioSays) {
  constexpr const char* kDeepSpeed = R"({"train_micro_batch_size_per_gpu": 1,
    "bf16": {"enabled": true}, "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 3, "sub_group_size": 1e9, "offload_optimizer":
      {"device": "nvme", "nvme_path": "/nvme", "pin_memory": true, "ratio": 0.3,
       "buffer_count": 4}}})";
  const Job job = job_of("opt_6_7b", "rtx3090_desktop", training(1024), kDeepSpeed);
  const Fit found = fit(job, find_schedule("deepspeed-zero-infinity"));
  constexpr const char* kOnTheGpu = "fp32 master, gradients, m, v";
  EXPECT_FALSE(largest(found, kOnTheGpu));
  // In RAM the same ratio keeps its share on the GPU, under that name.
  const Job in_ram = job_of("opt_6_7b", "rtx3090_desktop", training(1024), kDeepSpeed,
                            {{"deepspeed.zero_optimization.offload_optimizer.device", "cpu"}});
  EXPECT_GT(largest(fit(in_ram, find_schedule("deepspeed-twin-flow")), kOnTheGpu), 0);
  EXPECT_EQ(largest(found, "fp32 master weights, m, v"), 12 * 6658473984.0);
  EXPECT_TRUE(found.memory.limit(MemoryLimit::kGpu).holds());
  // RAM: four swap buffers and one of gradients of the largest sub-group, 4 bytes an element, and
  // the running sum in a block of 16 GiB.
  EXPECT_GT(found.memory.limit(MemoryLimit::kHost).need, (16 + 5 * 4) * kGib);
}

}  // namespace
}  // namespace zenflow::sim
