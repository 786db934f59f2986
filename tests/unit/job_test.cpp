// Whether a scenario and its DeepSpeed configuration say the same.
#include "sim/schedule/job.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/schedule/buffers.h"
#include "sim/schedule/deepspeed_step.h"
#include "sim/schedule/schedule.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::tiny_llama;

/// Two GPUs, micro batch 4, bf16.
Scenario scenario(const std::string& deepspeed) {
  Scenario one;
  one.model = tiny_llama();
  one.hardware = round_node(2);
  one.gpus = 2;
  one.training = {.micro_batch_size_per_gpu = 4, .sequence_length = 8};
  one.deepspeed = parse_json(deepspeed, "ds.json");
  return one;
}

std::string error_of(const std::string& deepspeed) {
  try {
    (void)make_job(scenario(deepspeed));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

TEST(Job, PartitionIsParametersByRanks) {
  EXPECT_EQ(make_job(scenario("{}")).partition(), 34976.0 / 2);
  Scenario two_nodes = scenario("{}");
  two_nodes.nodes = 2;
  EXPECT_EQ(make_job(two_nodes).partition(), 34976.0 / 4);
}

TEST(Job, HoldsTheBatchEquation) {
  EXPECT_EQ(error_of(R"({"train_batch_size": 24, "gradient_accumulation_steps": 3})"), "no error");
  EXPECT_THAT(error_of(R"({"train_batch_size": 16, "gradient_accumulation_steps": 3})"),
              HasSubstr("ds.json:1:22: deepspeed.train_batch_size: 16 is not micro batch 4 x "
                        "gradient_accumulation_steps 3 x 2 GPUs"));
  EXPECT_EQ(error_of(R"({"train_batch_size": "auto"})"), "no error");
}

// As DeepSpeed fills them in.
TEST(Job, DerivesStepsFromTheBatch) {
  const auto steps = [](const std::string& deepspeed, const std::string& target = "deepspeed") {
    Scenario one = scenario(deepspeed);
    one.target = WrittenText{target, {}};
    return make_job(one).deepspeed.gradient_accumulation_steps;
  };
  const std::string sizes = R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 4)";
  EXPECT_EQ(steps(sizes + "}"), 3);
  EXPECT_EQ(steps(sizes + R"(, "gradient_accumulation_steps": null})"), 3);
  EXPECT_EQ(steps(sizes + R"(, "gradient_accumulation_steps": "auto"})", "hf"), 3);
  EXPECT_EQ(steps(R"({"train_micro_batch_size_per_gpu": 4})"), 1);
  EXPECT_THAT(error_of(R"({"train_batch_size": 28, "train_micro_batch_size_per_gpu": 4})"),
              HasSubstr("28 is not micro batch 4 x gradient_accumulation_steps 3 x 2 GPUs"));
  EXPECT_THAT(error_of(R"({"train_batch_size": 2000000000, "train_micro_batch_size_per_gpu": 4})"),
              HasSubstr("2000000000 takes 250000000 steps of micro batch 4 x 2 GPUs, expected at "
                        "most 100000"));
  // accelerate writes 1 where the key is absent, and DeepSpeed finds that it does not hold.
  EXPECT_THROW(steps(sizes + "}", "accelerate"), Error);
}

// The scenario may say how many micro steps; the file must not contradict it.
TEST(Job, TakesStepsFromTheScenarioWhereTheFileLeavesThemOpen) {
  const auto job = [](const std::string& deepspeed) {
    Scenario one = scenario(deepspeed);
    one.gradient_accumulation_steps = 6;
    one.target = WrittenText{"hf", {}};
    return make_job(one);
  };
  EXPECT_EQ(job("{}").deepspeed.gradient_accumulation_steps, 6);
  const Job open = job(R"({"gradient_accumulation_steps": "auto"})");
  EXPECT_EQ(open.deepspeed.gradient_accumulation_steps, 6);
  EXPECT_TRUE(open.assumptions.empty());
  EXPECT_EQ(job(R"({"gradient_accumulation_steps": 6})").deepspeed.gradient_accumulation_steps, 6);
  try {
    (void)job(R"({"gradient_accumulation_steps": 4})");
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("ds.json:1:33: deepspeed.gradient_accumulation_steps: 4 "
                                        "contradicts the scenario's "
                                        "training.gradient_accumulation_steps 6"));
  }
}

TEST(Job, SaysWhereAutoStepsAreTakenAsOne) {
  const auto job = [](const std::string& rest) {
    Scenario one = scenario(R"({"gradient_accumulation_steps": "auto")" + rest + "}");
    one.target = WrittenText{"hf", {}};
    return make_job(one);
  };
  EXPECT_EQ(job("").deepspeed.gradient_accumulation_steps, 1);
  ASSERT_EQ(job("").assumptions.size(), 1U);
  EXPECT_THAT(job("").assumptions[0], HasSubstr("taken as 1"));
  // 24 = micro batch 4 x 3 x 2 GPUs, the micro batch being the scenario's.
  const Job derived = job(R"(, "train_batch_size": 24, "train_micro_batch_size_per_gpu": "auto")");
  EXPECT_EQ(derived.deepspeed.gradient_accumulation_steps, 3);
  EXPECT_TRUE(derived.assumptions.empty());
}

// Two ranks: half of every parameter. 0 is one for each of 1 + 2 x 9 + 2 tensors.
TEST(SubGroups, TakeWholeParametersUntilTheyHaveTheSize) {
  const auto sizes = [](const std::string& size) {
    return sub_group_elements(make_job(
        scenario(R"({"zero_optimization": {"stage": 3, "sub_group_size": )" + size + "}}")));
  };
  EXPECT_EQ(sizes("0").size(), 21U);
  EXPECT_EQ(sizes("0").front(), 256.0 * 32 / 2);
  EXPECT_EQ(sizes("1e14"), std::vector<double>{34976.0 / 2});
  const std::vector<double> some = sizes("4096");
  EXPECT_EQ(some.front(), 256.0 * 32 / 2) << "the embedding has just that size";
  double total = 0;
  for (const double one : some) total += one;
  EXPECT_EQ(total, 34976.0 / 2);
  for (std::size_t i = 0; i + 1 < some.size(); ++i) EXPECT_GE(some[i], 4096);
}

// round_node has 32 cores.
TEST(RankThreads, AreTheLaunchersDefaultUnlessSaid) {
  const auto threads = [](const char* target, std::int64_t gpus, std::optional<std::int64_t> said,
                          bool bind = false) {
    Scenario one = scenario("{}");
    one.gpus = gpus;
    one.target = WrittenText{target, {}};
    one.omp_num_threads = said;
    one.bind_cores_to_rank = bind;
    return rank_threads(make_job(one));
  };
  ASSERT_EQ(round_node(2).host.cores, 32);
  EXPECT_EQ(threads("deepspeed", 2, {}).of_rank, 32) << "every rank on every core";
  EXPECT_EQ(threads("deepspeed", 2, {}).cores, 32);
  EXPECT_EQ(threads("deepspeed", 2, {}, true).of_rank, 16);
  EXPECT_EQ(threads("hf", 2, {}).of_rank, 1);
  EXPECT_EQ(threads("accelerate", 2, {}).cores, 2);
  EXPECT_EQ(threads("hf", 1, {}).of_rank, 32) << "torchrun leaves a single process alone";
  EXPECT_EQ(threads("hf", 2, 4).of_rank, 4);
  EXPECT_EQ(threads("hf", 2, 4).cores, 8);
  EXPECT_EQ(threads("hf", 2, 64).cores, 32);
}

TEST(RankThreads, AreAdvisedWhereCoresAreIdle) {
  Scenario one = scenario("{}");
  EXPECT_FALSE(advised_threads(make_job(one)));
  one.target = WrittenText{"hf", {}};
  EXPECT_EQ(advised_threads(make_job(one)), 16);
  one.omp_num_threads = 16;
  EXPECT_FALSE(advised_threads(make_job(one)));
}

// Adam's rate on c cores is as c / (c + 8): of 32 cores 0.8, of two 0.2.
TEST(RankThreads, DecideHowLongTheUpdateTakes) {
  Scenario one = scenario("{}");
  const auto update = [&one] {
    return deepspeed_cpu(make_job(one), 32, 32, OptimizerPlace::kTraining).update;
  };
  const Seconds all = update();
  one.omp_num_threads = 1;
  EXPECT_NEAR(update() / all, 4, 1e-9);
}

// Two ranks on 32 cores, bound to 16 each: the thread that copies writes p 16-bit weights into
// fresh pages, 16 threads p fp32 ones, at 2 us a page of 4 KiB; 2 + 4 bytes are moved by the cast
// and 8 by the copy over the master, at 100 GB/s for each rank.
TEST(ZenFlowSelection, OverwritesTheMasterByWayOfFreshMemory) {
  Scenario one = scenario("{}");
  one.bind_cores_to_rank = true;
  const Job job = make_job(one);
  ASSERT_EQ(job.scenario.gpus, 2);
  const double p = job.partition();
  EXPECT_NEAR(deepspeed_cpu(job, 32, 32, OptimizerPlace::kTraining).overwrite.value(),
              p / 4096 * 2e-6 * (2 + 4.0 / 16) + 14 * p / 100e9, 1e-12);
}

// Reads and writes of p, g, m, v: 7 of 4 bytes, of 2 with 16-bit masters and states.
TEST(OptimizerBytes, DecideHowLongTheUpdateTakes) {
  const auto update = [](const std::string& deepspeed) {
    return deepspeed_cpu(make_job(scenario(deepspeed)), 32, 32, OptimizerPlace::kTraining).update;
  };
  const Seconds adam = update("{}");
  EXPECT_NEAR(update(R"({"optimizer": {"type": "Lion"}})") / adam, 20.0 / 28, 1e-9);
  EXPECT_NEAR(update(R"({"zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
      "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}})") /
                  adam,
              0.5, 1e-9);
}

TEST(Job, DerivesStepsOfAWhatIf) {
  Scenario one = scenario(R"({"train_batch_size": 24, "train_micro_batch_size_per_gpu": 4})");
  one.gpus = 1;
  one.overridden = {"gpus"};
  EXPECT_EQ(make_job(one).deepspeed.gradient_accumulation_steps, 6);
  one.gpus = 4;
  EXPECT_THROW((void)make_job(one), Error);
}

TEST(Job, KnowsWhatLaunchersFillIn) {
  Scenario one =
      scenario(R"({"zero_optimization": {"stage": "auto", "reduce_bucket_size": "auto"}})");
  EXPECT_EQ(make_job(one).deepspeed.zero_stage, 0);
  EXPECT_EQ(make_job(one).deepspeed.reduce_bucket_size, 500'000'000);
  for (const char* target : {"hf", "accelerate"}) {
    one.target = WrittenText{target, {}};
    EXPECT_EQ(make_job(one).deepspeed.zero_stage, 2);
    EXPECT_EQ(make_job(one).deepspeed.reduce_bucket_size, one.model.hidden * one.model.hidden);
  }
}

TEST(Job, HoldsTheMicroBatch) {
  EXPECT_EQ(error_of(R"({"train_micro_batch_size_per_gpu": 4})"), "no error");
  EXPECT_THAT(error_of(R"({"train_micro_batch_size_per_gpu": 8})"),
              HasSubstr("deepspeed.train_micro_batch_size_per_gpu: 8 contradicts"));
}

TEST(Job, HoldsThePrecision) {
  EXPECT_EQ(error_of(R"({"bf16": {"enabled": true}})"), "no error");
  EXPECT_THAT(error_of(R"({"fp16": {"enabled": true}})"),
              HasSubstr("enabled, but training.dtype is bf16"));
}

TEST(FindSchedule, KnowsAllByName) {
  for (const auto& schedule : schedules()) {
    EXPECT_EQ(&find_schedule(schedule->name()), schedule.get());
    EXPECT_FALSE(schedule->summary().empty());
    EXPECT_FALSE(schedule->source().empty());
  }
  try {
    (void)find_schedule("zenflw");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("did you mean \"zenflow\"?"));
    EXPECT_THAT(error.what(), HasSubstr("known: gpu-only, zero-offload"));
  }
}

TEST(Check, ZenFlowNeedsItsBlockAndNvmeItsDrives) {
  JobOptions options;
  options.with_zenflow = false;
  const Job without = make_small_job(round_node(), tiny_llama(), options);
  EXPECT_THROW(find_schedule("zenflow").check(without), Error);
  EXPECT_NO_THROW(find_schedule("zero-offload").check(without));
  options.optimizer_device = "nvme";
  const Job nvme = make_small_job(round_node(), tiny_llama(), options);
  EXPECT_THROW(find_schedule("zero-infinity").check(nvme), Error);
  EXPECT_NO_THROW(find_schedule("zero-infinity")
                      .check(make_small_job(testing::contended_node(1), tiny_llama(), options)));
}

}  // namespace
}  // namespace zenflow::sim
