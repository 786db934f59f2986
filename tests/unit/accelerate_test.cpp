// What accelerate makes of its own configuration.
#include "sim/deepspeed/accelerate.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/deepspeed/lint.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kText = R"(compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 8
  offload_optimizer_device: cpu
  offload_param_device: none
  zero3_init_flag: false
  zero_stage: 2
mixed_precision: bf16
num_machines: 2
num_processes: 8
)";

TEST(Accelerate, IsRecognisedByItsBlock) {
  EXPECT_TRUE(is_accelerate_config(parse_yaml(kText, "a.yaml")));
  EXPECT_FALSE(is_accelerate_config(parse_yaml("zero_optimization: {stage: 2}", "a.yaml")));
}

TEST(Accelerate, MakesADeepSpeedConfigurationOfTheBlock) {
  const AccelerateConfig config = read_accelerate_config(parse_yaml(kText, "a.yaml"));
  EXPECT_EQ(config.processes, 8);
  EXPECT_EQ(config.machines, 2);
  EXPECT_FALSE(config.file);
  EXPECT_EQ(render_json(config.document.root), R"({
  "train_micro_batch_size_per_gpu": "auto",
  "zero_optimization": {
    "stage": 2,
    "offload_optimizer": {
      "device": "cpu"
    }
  },
  "gradient_accumulation_steps": 8,
  "bf16": {
    "enabled": true
  }
}
)");
}

TEST(Accelerate, TakesAutoWithAndWithoutQuotes) {
  const auto codes = [](std::string_view word) {
    const AccelerateConfig config = read_accelerate_config(parse_yaml(
        fmt::format("deepspeed_config: {{gradient_accumulation_steps: {0}, zero_stage: {0}}}",
                    word),
        "a.yaml"));
    EXPECT_THAT(render_json(config.document.root), HasSubstr(R"("stage": "auto")"));
    std::vector<std::string> found;
    for (const Finding& one : lint(config.document, {.target = LaunchTarget::kAccelerate})) {
      found.emplace_back(one.code);
    }
    return found;
  };
  EXPECT_EQ(codes("auto"), codes("\"auto\""));
}

TEST(Accelerate, IsJudgedWhereItsKeysStand) {
  const AccelerateConfig config = read_accelerate_config(parse_yaml(kText, "a.yaml"));
  const LintOptions options{.target = LaunchTarget::kAccelerate,
                            .world_size = 8,
                            .cores_per_node = 32,
                            .gpus_per_node = 4};
  std::vector<std::string> found;
  for (const Finding& one : lint(config.document, options)) {
    found.push_back(std::string(one.code) + " " + one.at.text() + " " + one.instead);
  }
  EXPECT_THAT(found,
              ElementsAre("ZF069 a.yaml:4:3 true", "ZF084 a.yaml:5:29 set OMP_NUM_THREADS=8"));
}

TEST(Accelerate, NamesTheFileThatItReads) {
  const AccelerateConfig config = read_accelerate_config(
      parse_yaml("deepspeed_config: {deepspeed_config_file: ds.json}", "a.yaml"));
  EXPECT_EQ(config.file, "ds.json");
}

// What accelerate 1.15 does for each of these in a file of `accelerate launch`.
TEST(Accelerate, NamesWhatIsRefusedBesideAFile) {
  const auto refused = [](const std::string& block, const std::string& rest) {
    std::string all;
    const std::string text =
        fmt::format("deepspeed_config: {{deepspeed_config_file: ds.json{}}}\n{}", block, rest);
    for (const LocatedKey& key : read_accelerate_config(parse_yaml(text, "a.yaml")).refused) {
      all += key.path + " ";
    }
    return all;
  };
  for (const char* key :
       {"zero_stage", "gradient_accumulation_steps", "gradient_clipping",
        "offload_optimizer_device", "offload_param_device", "offload_optimizer_nvme_path",
        "offload_param_nvme_path", "zero3_save_16bit_model"}) {
    for (const char* value : {"1", "auto", "none", "null"}) {
      EXPECT_EQ(refused(fmt::format(", {}: {}", key, value), ""),
                fmt::format("deepspeed_config.{} ", key))
          << value;
    }
  }
  for (const char* key : {"zero3_init_flag", "deepspeed_multinode_launcher", "deepspeed_hostfile",
                          "deepspeed_moe_layer_cls_names"}) {
    EXPECT_EQ(refused(fmt::format(", {}: true", key), ""), "") << key;
  }
  EXPECT_EQ(refused("", "mixed_precision: 'no'"), "mixed_precision ");
  EXPECT_EQ(refused("", "mixed_precision: null"), "");
  EXPECT_EQ(refused("", "fp16: true"), "fp16 ");
  EXPECT_EQ(refused(", zero_stage: 2", "distributed_type: MULTI_GPU"), "") << "not read at all";
  EXPECT_TRUE(read_accelerate_config(parse_yaml(kText, "a.yaml")).refused.empty());
}

TEST(Accelerate, RefusesKeysThatItDoesNotHave) {
  try {
    (void)read_accelerate_config(parse_yaml("deepspeed_config: {zero_stag: 2}", "a.yaml"));
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("a.yaml:1:20: deepspeed_config.zero_stag: unknown key"));
  }
}

}  // namespace
}  // namespace zenflow::sim
