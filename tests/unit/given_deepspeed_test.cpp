// What training files of other programs give to DeepSpeed.
#include "sim/job_files/given_deepspeed.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using zenflow::testing::error_of;
using zenflow::testing::TemporaryFolder;

class GivenDeepSpeedTest : public ::testing::Test {
 protected:
  GivenDeepSpeed read(const std::string& text) {
    const Node root = parse_yaml_with_aliases(text, "train.yaml");
    return given_deepspeed(root, recognise_training_file(root).value(), folder_ / "train.yaml");
  }
  static std::vector<std::string> arguments(const GivenDeepSpeed& given) {
    std::vector<std::string> list;
    for (const StatedArgument& one : given.arguments) {
      list.push_back(one.name + " " + one.value.scalar + " " + one.value.at.text());
    }
    return list;
  }

  TemporaryFolder folder_;
};

TEST_F(GivenDeepSpeedTest, IsAFileBesideTheTrainingFile) {
  folder_.write("ds.json", R"({"zero_optimization": {"stage": 3}})");
  const GivenDeepSpeed given = read(
      "model_name_or_path: m\nstage: sft\ndeepspeed: examples/ds.json\n"
      "per_device_train_batch_size: 2\nlearning_rate: 1.0e-4\nbf16: true\n");
  EXPECT_EQ(given.program, TrainingProgram::kLlamaFactory);
  EXPECT_EQ(given.file, folder_ / "ds.json");
  EXPECT_EQ(find_path(given.document.value().root, "zero_optimization.stage")->scalar, "3");
  EXPECT_EQ(given.target, LaunchTarget::kHf);
  EXPECT_FALSE(given.processes);
  EXPECT_THAT(arguments(given),
              ElementsAre("per_device_train_batch_size 2 train.yaml:4:30",
                          "learning_rate 1.0e-4 train.yaml:5:16", "bf16 true train.yaml:6:7"));
}

TEST_F(GivenDeepSpeedTest, MayStandInTheTrainingFile) {
  const GivenDeepSpeed map = read("output_dir: o\ndeepspeed: {zero_optimization: {stage: 2}}\n");
  EXPECT_FALSE(map.file);
  EXPECT_EQ(find_path(map.document.value().root, "zero_optimization.stage")->at.text(),
            "train.yaml:2:40");
  const GivenDeepSpeed text =
      read("output_dir: o\ndeepspeed: '{\"zero_optimization\": {\"stage\": 2}}'\n");
  EXPECT_EQ(find_path(text.document.value().root, "zero_optimization.stage")->scalar, "2");
}

TEST_F(GivenDeepSpeedTest, MayComeWithTheProgram) {
  const GivenDeepSpeed swift = read(
      "model: m\ntuner_type: lora\ndeepspeed: zero2_offload\n"
      "ENV: {NPROC_PER_NODE: 4, NNODES: 2}\n");
  EXPECT_EQ(swift.program, TrainingProgram::kSwift);
  EXPECT_EQ(swift.built_in, "zero2_offload of ms-swift 4.6");
  EXPECT_EQ(find_path(swift.document.value().root, "zero_optimization.stage")->scalar, "2");
  EXPECT_EQ(swift.processes, 8);
  EXPECT_EQ(swift.machines, 2);
  const GivenDeepSpeed trl = read("output_dir: o\naccelerate_config: zero3\nnum_processes: 2\n");
  EXPECT_EQ(trl.built_in, "zero3.yaml of TRL 1.16");
  EXPECT_EQ(find_path(trl.document.value().root, "zero_optimization.stage")->scalar, "3");
  EXPECT_EQ(trl.target, LaunchTarget::kHf);
  EXPECT_EQ(trl.processes, 2);
}

TEST_F(GivenDeepSpeedTest, IsNothingWithoutItsKey) {
  for (const char* text :
       {"model_name_or_path: m\nstage: sft\n", "model_name_or_path: m\nstage: sft\ndeepspeed: null",
        "output_dir: o\naccelerate_config: multi_gpu\n", "distributed_type: MULTI_GPU\n"}) {
    EXPECT_FALSE(read(text).document) << text;
  }
}

// axolotl's own word for it, and what Trainer tries or works out itself.
TEST_F(GivenDeepSpeedTest, TakesArgumentsThatHoldAsTheyAreWritten) {
  EXPECT_THAT(arguments(read("base_model: m\nmicro_batch_size: 3\nbf16: auto\n")),
              ElementsAre("per_device_train_batch_size 3 train.yaml:2:19"));
  EXPECT_THAT(arguments(read("output_dir: o\nauto_find_batch_size: true\n"
                             "per_device_train_batch_size: 3\nbf16: false\nbf16_full_eval: true\n"
                             "fp16: false\n")),
              ElementsAre("fp16 false train.yaml:6:7"));
}

TEST_F(GivenDeepSpeedTest, NamesTheFileThatIsMissing) {
  const std::string missing =
      error_of([this] { (void)read("output_dir: o\ndeepspeed: gone.json\n"); }).second;
  EXPECT_THAT(missing, AllOf(HasSubstr("train.yaml:2:12: deepspeed: "),
                             HasSubstr("no such file \"gone.json\"")));
  const std::string accelerate =
      error_of([this] {
        (void)read("deepspeed_config: {deepspeed_config_file: gone.json}\n");
      }).second;
  EXPECT_THAT(accelerate, HasSubstr("deepspeed_config_file: no such file \"gone.json\""));
}

TEST(RecognisedFile, IsDeepSpeedsByItsBlocks) {
  const auto program = [](const char* text) {
    return recognise_training_file(parse_yaml(text, "a.yaml"));
  };
  EXPECT_EQ(program("{max_steps: 3, optimizer: {type: AdamW}}"), TrainingProgram::kDeepSpeed);
  EXPECT_EQ(program("{max_steps: 3, scheduler: {type: WarmupLR}}"), TrainingProgram::kDeepSpeed);
  EXPECT_EQ(program("{base_model: m, optimizer: adamw_torch}"), TrainingProgram::kAxolotl);
  EXPECT_EQ(program("{gradient_clipping: 1.0}"), std::nullopt);
}

}  // namespace
}  // namespace zenflow::sim
