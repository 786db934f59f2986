// What a DeepSpeed configuration means, and what is wrong with it.
#include "sim/deepspeed/ds_config.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/deepspeed/overrides.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

DeepSpeedConfig read(const std::string& json) {
  return read_deepspeed_config(parse_json(json, "ds.json"));
}
DeepSpeedConfig read_zero(const std::string& zero) {
  return read(R"({"zero_optimization": {)" + zero + "}}");
}
DeepSpeedConfig read_zenflow(const std::string& zenflow) {
  return read_zero(R"("zenflow": {)" + zenflow + "}");
}

template <class Body>
std::string error_of(Body body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}
std::string zenflow_error(const std::string& zenflow) {
  return error_of([&] { (void)read_zenflow(zenflow); });
}

TEST(DeepSpeedConfig, HasDeepSpeedsDefaults) {
  const DeepSpeedConfig config = read("{}");
  EXPECT_FALSE(config.train_batch_size);
  EXPECT_FALSE(config.train_micro_batch_size_per_gpu);
  EXPECT_EQ(config.gradient_accumulation_steps, 1);
  EXPECT_EQ(config.zero_stage, 0);
  EXPECT_EQ(config.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(config.sub_group_size, 1'000'000'000);
  EXPECT_FALSE(config.bf16);
  EXPECT_FALSE(config.fp16);
  EXPECT_EQ(config.offload_optimizer, OffloadDevice::kNone);
  EXPECT_EQ(config.offload_param, OffloadDevice::kNone);
  EXPECT_FALSE(config.zenflow);
  EXPECT_THAT(config.warnings, IsEmpty());
}

TEST(DeepSpeedConfig, TakesSubGroupsOfAnySize) {
  EXPECT_EQ(read_zero(R"("sub_group_size": 0)").sub_group_size, 0);
  EXPECT_EQ(read_zero(R"("sub_group_size": 1e14)").sub_group_size, 100'000'000'000'000);
}

TEST(DeepSpeedConfig, ReadsWhatTheOptimizerKeeps) {
  EXPECT_FALSE(read(R"({"bf16": {"enabled": true}})").optimizer.narrow_master);
  const DeepSpeedConfig narrow = read(R"({"bf16": {"enabled": true,
      "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})");
  EXPECT_TRUE(narrow.optimizer.narrow_master);
  EXPECT_TRUE(narrow.optimizer.narrow_states);
  EXPECT_TRUE(read(R"({"fp16": {"enabled": true, "fp16_master_weights_and_grads": true}})")
                  .optimizer.narrow_master);
  const DeepSpeedConfig sgd =
      read(R"({"optimizer": {"type": "SGD", "params": {"momentum": 0.9}}})");
  EXPECT_EQ(sgd.optimizer.kind, Optimizer::kSgd);
  EXPECT_TRUE(sgd.optimizer.has_momentum);
  EXPECT_EQ(read(R"({"optimizer": {"type": "Muon"}})").optimizer.kind, Optimizer::kMuon);
}

TEST(DeepSpeedConfig, SumsInFp32OnlyIfTheModelIsNot) {
  const std::string types = R"("data_types": {"grad_accum_dtype": "fp32"}})";
  EXPECT_TRUE(read(R"({"bf16": {"enabled": true}, )" + types).fp32_gradient_sums);
  EXPECT_FALSE(read("{" + types).fp32_gradient_sums);
  EXPECT_FALSE(read(R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": null}})")
                   .fp32_gradient_sums);
}

TEST(DeepSpeedConfig, NamesKeysThatAreNotModelled) {
  EXPECT_THAT(read(R"({"wall_clock_breakdown": true,
                       "zero_optimization": {"stage": 2, "round_robin_gradients": true}})")
                  .not_modelled,
              ElementsAre("wall_clock_breakdown", "zero_optimization.round_robin_gradients"));
}

TEST(DeepSpeedConfig, ReadsWhatIsSet) {
  const DeepSpeedConfig config = read(R"({
    "train_batch_size": 64, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2,
    "bf16": {"enabled": true},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": 5e8, "sub_group_size": 1e9,
      "offload_optimizer": {"device": "nvme", "pin_memory": false, "nvme_path": "/x"},
      "offload_param": {"device": "cpu"}}})");
  EXPECT_EQ(config.train_batch_size, 64);
  EXPECT_EQ(config.train_micro_batch_size_per_gpu, 4);
  EXPECT_EQ(config.gradient_accumulation_steps, 2);
  EXPECT_TRUE(config.bf16);
  EXPECT_EQ(config.zero_stage, 3);
  EXPECT_EQ(config.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(config.offload_optimizer, OffloadDevice::kNvme);
  EXPECT_EQ(config.offload_param, OffloadDevice::kCpu);
  EXPECT_FALSE(config.pin_memory);
}

TEST(DeepSpeedConfig, TakesValuesOfOtherTypesAsPydantic) {
  const DeepSpeedConfig config = read(R"({"bf16": {"enabled": "yes"},
    "zero_optimization": {"stage": "2", "overlap_comm": 1, "reduce_bucket_size": "500_000_000",
      "offload_optimizer": {"device": "cpu", "pin_memory": "false", "ratio": "1.0"},
      "zenflow": {"topk_ratio": "0.1", "update_interval": true, "overlap_step": 1}}})");
  EXPECT_TRUE(config.bf16);
  EXPECT_EQ(config.zero_stage, 2);
  EXPECT_EQ(config.overlap_comm, true);
  EXPECT_EQ(config.reduce_bucket_size, 500'000'000);
  EXPECT_FALSE(config.pin_memory);
  EXPECT_EQ(config.zenflow->topk_ratio, 0.1);
  EXPECT_EQ(config.zenflow->update_interval, 1);
  EXPECT_TRUE(config.zenflow->overlap_step);
  EXPECT_THAT(zenflow_error(R"("update_interval": "4")"), HasSubstr("update_interval: expected"));
  EXPECT_THAT(error_of([] { (void)read(R"({"zero_optimization": {"stage": "4"}})"); }),
              HasSubstr("zero_optimization.stage: expected"));
}

TEST(DeepSpeedConfig, AutoMeansTheDefault) {
  const DeepSpeedConfig config = read(R"({
    "train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto", "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2, "reduce_bucket_size": "auto",
      "zenflow": {"topk_ratio": "auto", "update_interval": "auto", "select_interval": "auto",
                  "select_strategy": "auto", "overlap_step": "auto",
                  "full_warm_up_rounds": "auto"}}})");
  EXPECT_FALSE(config.train_batch_size);
  EXPECT_FALSE(config.train_micro_batch_size_per_gpu);
  EXPECT_EQ(config.gradient_accumulation_steps, 1);
  EXPECT_FALSE(config.bf16);
  EXPECT_EQ(config.reduce_bucket_size, 500'000'000);
  ASSERT_TRUE(config.zenflow);
  EXPECT_EQ(config.zenflow->topk_ratio, 0.1);
  EXPECT_FALSE(config.zenflow->update_interval);
  EXPECT_FALSE(config.zenflow->select_interval);
  EXPECT_EQ(config.zenflow->select_strategy, "auto");
  EXPECT_FALSE(config.zenflow->overlap_step);
}

TEST(DeepSpeedConfig, ReadsZenFlow) {
  const ZenFlowSettings settings =
      *read_zenflow(
           R"("topk_ratio": 0.05, "select_strategy": "epoch", "select_interval": 0,
         "update_interval": 4, "full_warm_up_rounds": 7, "overlap_step": true, "offload": true,
         "auto_ratio": 0.9, "steps_per_epoch": 10, "pt_reserved_cores_perc": 0.25)")
           .zenflow;
  EXPECT_EQ(settings.topk_ratio, 0.05);
  EXPECT_EQ(settings.select_strategy, "epoch");
  EXPECT_EQ(settings.select_interval, 0);
  EXPECT_EQ(settings.update_interval, 4);
  EXPECT_EQ(settings.full_warm_up_rounds, 7);
  EXPECT_TRUE(settings.overlap_step);
  EXPECT_TRUE(settings.offload);
  EXPECT_EQ(settings.auto_ratio, 0.9);
  EXPECT_EQ(settings.pt_reserved_cores_perc, 0.25);
}

TEST(DeepSpeedConfig, RefusesATopKRatioThatSelectsNothingOrEverything) {
  for (const char* ratio : {"0", "0.0", "1", "1.0", "-0.1", "1.5", "\"some\"", "true"}) {
    const std::string error = zenflow_error(std::string(R"("topk_ratio": )") + ratio);
    EXPECT_THAT(error, StartsWith("ds.json:1:")) << ratio;
    EXPECT_THAT(error, HasSubstr("zero_optimization.zenflow.topk_ratio: expected")) << ratio;
  }
}

TEST(DeepSpeedConfig, RefusesAnUpdateIntervalBelowOneStep) {
  for (const char* interval : {"0", "-1", "1.5", "\"4\""}) {
    EXPECT_THAT(zenflow_error(std::string(R"("update_interval": )") + interval),
                HasSubstr("zenflow.update_interval: expected"))
        << interval;
  }
  EXPECT_EQ(read_zenflow(R"("update_interval": 1)").zenflow->update_interval, 1);
}

TEST(DeepSpeedConfig, RefusesOtherZenFlowValuesOutOfRange) {
  EXPECT_THAT(zenflow_error(R"("select_interval": -1)"), HasSubstr("select_interval: expected"));
  EXPECT_THAT(zenflow_error(R"("pt_reserved_cores_perc": 1.1)"),
              HasSubstr("pt_reserved_cores_perc: expected"));
  EXPECT_THAT(zenflow_error(R"("full_warm_up_rounds": -1)"), HasSubstr("full_warm_up_rounds"));
  EXPECT_THAT(zenflow_error(R"("select_strategy": "stepp")"), HasSubstr("did you mean \"step\"?"));
  EXPECT_THAT(zenflow_error(R"("overlap_step": 2)"), HasSubstr("overlap_step: expected"));
}

TEST(DeepSpeedConfig, NamesTheKeyThatAMisspeltOneIsNearTo) {
  EXPECT_EQ(zenflow_error(R"("topk_ration": 0.1)"),
            "ds.json:1:36: deepspeed.zero_optimization.zenflow.topk_ration: unknown key (did you "
            "mean \"topk_ratio\"?)");
  EXPECT_THAT(error_of([] { (void)read_zero(R"("stge": 2)"); }),
              HasSubstr("did you mean \"stage\"?"));
  EXPECT_THAT(error_of([] { (void)read(R"({"bf16": {"enable": true}})"); }),
              HasSubstr("did you mean \"enabled\"?"));
  EXPECT_THAT(error_of([] { (void)read(R"({"zero_optimisation": {}})"); }),
              HasSubstr("did you mean \"zero_optimization\"?"));
  EXPECT_THAT(error_of([] { (void)read_zero(R"("offload_optimizer": {"devices": "cpu"})"); }),
              HasSubstr("did you mean \"device\"?"));
}

TEST(DeepSpeedConfig, WarnsOfATopLevelBlockThatDeepSpeedIgnores) {
  const DeepSpeedConfig config = read("{\"zero_optimization\": {},\n  \"my_notes\": {\"a\": 1}}");
  EXPECT_THAT(config.warnings, ElementsAre("ds.json:2:3: my_notes: unknown to DeepSpeed, which "
                                           "ignores it"));
}

TEST(DeepSpeedConfig, KnowsWhatDeepSpeedKnows) {
  EXPECT_THAT(read(R"({"optimizer": {"type": "AdamW"}, "scheduler": {}, "aio": {},
                       "flops_profiler": {}, "wall_clock_breakdown": false})")
                  .warnings,
              IsEmpty());
}

TEST(DeepSpeedConfig, RefusesBothPrecisions) {
  EXPECT_THAT(
      error_of([] { (void)read(R"({"bf16": {"enabled": true}, "fp16": {"enabled": true}})"); }),
      HasSubstr("bf16 and fp16 cannot both be enabled"));
}

TEST(DeepSpeedConfig, RefusesTypesAndKeysThatDeepSpeedRefuses) {
  EXPECT_THAT(error_of([] {
                (void)read(R"({"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype":
                               "fp64"}})");
              }),
              HasSubstr("data_types.grad_accum_dtype"));
  EXPECT_THAT(
      error_of([] { (void)read(R"({"fp16": {"enabled": true, "bf16_optimizer_states": true}})"); }),
      HasSubstr("fp16.bf16_optimizer_states"));
}

TEST(DeepSpeedConfig, RefusesExpertParallelism) {
  EXPECT_THAT(error_of([] { (void)read(R"({"expert_parallel": {"enabled": true}})"); }),
              HasSubstr("expert_parallel.enabled: expert parallelism is not described"));
  (void)read(R"({"expert_parallel": {"enabled": false}})");
}

TEST(DeepSpeedConfig, RefusesWhatIsNoMap) {
  EXPECT_THAT(error_of([] { (void)read("[]"); }), StartsWith("ds.json:1:1"));
  EXPECT_THAT(error_of([] { (void)read(R"({"zero_optimization": 2})"); }),
              HasSubstr("zero_optimization"));
  EXPECT_THAT(error_of([] { (void)read(R"({"zero_optimization": {"stage": 4}})"); }),
              HasSubstr("zero_optimization.stage"));
}

TEST(ShortNames, AreZenFlowsKeys) {
  EXPECT_EQ(expand_short_name("topk_ratio"), "deepspeed.zero_optimization.zenflow.topk_ratio");
  EXPECT_EQ(expand_short_name("update_interval"),
            "deepspeed.zero_optimization.zenflow.update_interval");
  EXPECT_EQ(expand_short_name("training.sequence_length"), "training.sequence_length");
  EXPECT_EQ(expand_short_name("gpus"), "gpus");
}

// What people write without looking it up.
TEST(ShortNames, AreKeysThatHaveOnePlace) {
  const std::pair<const char*, const char*> expected[] = {
      {"stage", "deepspeed.zero_optimization.stage"},
      {"zero_stage", "deepspeed.zero_optimization.stage"},
      {"overlap_comm", "deepspeed.zero_optimization.overlap_comm"},
      {"reduce_bucket_size", "deepspeed.zero_optimization.reduce_bucket_size"},
      {"pin_memory", "deepspeed.zero_optimization.offload_optimizer.pin_memory"},
      {"gradient_clipping", "deepspeed.gradient_clipping"},
      {"gradient_accumulation_steps", "deepspeed.gradient_accumulation_steps"},
      {"zero_optimization.stage", "deepspeed.zero_optimization.stage"},
      {"bf16.enabled", "deepspeed.bf16.enabled"},
      {"sequence_length", "training.sequence_length"},
      {"micro_batch_size", "training.micro_batch_size_per_gpu"},
      {"micro_batch_size_per_gpu", "training.micro_batch_size_per_gpu"},
      {"dtype", "training.dtype"},
      {"activation_checkpointing", "training.activation_checkpointing"},
      {"gradient_checkpointing", "training.activation_checkpointing"},
      {"bind_cores_to_rank", "launch.bind_cores_to_rank"},
      {"hardware.host.cores", "hardware.host.cores"},
      {"nodes", "nodes"},
      {"no_such_key", "no_such_key"}};
  for (const auto& [name, path] : expected) EXPECT_EQ(expand_usual_name(name), path);
  EXPECT_EQ(expand_short_name("offload_param"), "offload_param");  // a knob of the tuner
}

TEST(ShortNames, AreSuggestedWhereOneIsMisspelt) {
  const auto said = [](const std::string& set) {
    return error_of([&] { (void)parse_overrides({set}); });
  };
  EXPECT_THAT(said("overlap_com=true"),
              HasSubstr("--set overlap_com=true: overlap_com: unknown key (did you mean "
                        "\"overlap_comm\"?)"));
  EXPECT_THAT(said("topk_ration=0.1"), HasSubstr("did you mean \"topk_ratio\""));
  EXPECT_THAT(said("quite_another_word=1"), HasSubstr("unknown key"));
  EXPECT_EQ(said("gpus=2"), "no error");
  EXPECT_EQ(said("hardware.host.cores=2"), "no error");
}

TEST(ShortNames, HaveTheKnobThatOnlyZenFlowTrainHas) {
  EXPECT_EQ(expand_short_name("accumulate_on"), "zenflow_train.accumulate_on");
}

}  // namespace
}  // namespace zenflow::sim
