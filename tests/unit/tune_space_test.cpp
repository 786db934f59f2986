// Knobs, their values, and spaces.
#include <algorithm>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/tune/space.h"
#include "tests/support/error_of.h"
#include "tests/support/small_jobs.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using zenflow::testing::error_of;
using zenflow::testing::TemporaryFolder;

Space small_space() {
  return default_space(
      testing::make_small_job(testing::round_node(2), testing::tiny_llama(), {.gpus = 2}),
      Family::kDeepSpeed, 4);
}

TEST(Knobs, AreInTheOrderOfTheirEnumeration) {
  for (std::size_t i = 0; i < kKnobs; ++i) {
    EXPECT_EQ(static_cast<std::size_t>(knobs()[i].knob), i);
  }
}

// Points that differ in them alone are enumerated together.
TEST(Knobs, OfZenFlowComeLast) {
  const auto of_zenflow = [](const KnobInfo& one) { return one.of_zenflow; };
  EXPECT_TRUE(std::is_partitioned(knobs().begin(), knobs().end(), std::not_fn(of_zenflow)));
}

TEST(Knobs, AreFoundByNameAndPath) {
  EXPECT_EQ(find_knob("topk_ratio"), Knob::kTopkRatio);
  EXPECT_EQ(find_knob("deepspeed.zero_optimization.stage"), Knob::kStage);
  const auto [kind, what] = error_of([] { return find_knob("updat_interval"); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("did you mean \"update_interval\"?"));
}

TEST(Knobs, RefuseValuesOfAnotherKindOrOutOfRange) {
  EXPECT_EQ(parse_value(Knob::kPlacement, "zenflow"), 2);
  EXPECT_EQ(parse_value(Knob::kOverlapStep, "true"), 1);
  EXPECT_EQ(parse_value(Knob::kTopkRatio, "0.1"), 0.1);
  const auto refused = [](Knob knob, const char* text) {
    return error_of([&] { return parse_value(knob, text); }).second;
  };
  EXPECT_THAT(refused(Knob::kPlacement, "zenflwo"), HasSubstr("did you mean \"zenflow\"?"));
  EXPECT_THAT(refused(Knob::kStage, "4"), HasSubstr("a whole number from 0 to 3"));
  EXPECT_THAT(refused(Knob::kUpdateInterval, "1.5"), HasSubstr("a whole number"));
  EXPECT_THAT(refused(Knob::kTopkRatio, "1"), HasSubstr("both excluded"));
  EXPECT_THAT(refused(Knob::kOverlapStep, "yes"), HasSubstr("true or false"));
  EXPECT_THAT(refused(Knob::kTopkRatio, "nan"), HasSubstr("a number from 0 to 1"));
  EXPECT_EQ(parse_value(Knob::kAccumulateOn, "host"), 0);
  EXPECT_EQ(parse_value(Knob::kAccumulateOn, "device"), 1);
  EXPECT_EQ(value_text(Knob::kAccumulateOn, 1), "device");
  EXPECT_EQ(refused(Knob::kAccumulateOn, "devic"),
            "accumulate_on: expected one of host, device (did you mean \"device\"?), found "
            "\"devic\"");
}

TEST(Spaces, NumberTheirPoints) {
  const Space space = small_space();
  EXPECT_GT(space.size(), 1000U);
  for (std::uint64_t i = 0; i < space.size(); i += space.size() / 37) {
    EXPECT_EQ(space.index_of(space.at(i)), i);
    EXPECT_TRUE(space.contains(space.at(i)));
  }
  EXPECT_EQ(space.at(0).get(Knob::kReservedCores), space.values(Knob::kReservedCores)[0]);
  EXPECT_EQ(space.at(1).get(Knob::kReservedCores), space.values(Knob::kReservedCores)[1]);
}

TEST(Spaces, HaveTheUsersOwnValues) {
  const Job job = testing::make_small_job(testing::round_node(), testing::tiny_llama(),
                                          {.topk_ratio = 0.07, .update_interval = "5"});
  EXPECT_TRUE(default_space(job, Family::kDeepSpeed, 2).contains(setting_of(job)));
}

TEST(Spaces, OfferMicroBatchesThatDivideTheGlobalBatch) {
  EXPECT_THAT(small_space().values(Knob::kMicroBatch), ElementsAre(1, 2));
}

// On fewer GPUs one has more of the global batch.
TEST(Spaces, OfferMicroBatchesThatDivideItOnEachNumberOfGpus) {
  Job job = testing::make_small_job(testing::round_node(8), testing::tiny_llama(), {.gpus = 8});
  job.scenario.training.micro_batch_size_per_gpu = 1;
  constexpr std::int64_t kBatch = 24;
  const auto narrowed = [&](Family family, const std::vector<const char*>& to) {
    Space space = default_space(job, family, kBatch);
    for (const char* one : to) narrow(space, one);
    follow_gpus(space, job, family, kBatch);
    return space;
  };
  const auto batches = [&](const std::vector<const char*>& to) {
    return narrowed(Family::kPublished, to).values(Knob::kMicroBatch);
  };
  EXPECT_THAT(batches({}), ElementsAre(1, 3));
  EXPECT_THAT(batches({"gpus=4,8"}), ElementsAre(1, 2, 3, 6));
  EXPECT_THAT(batches({"gpus=4,3"}), ElementsAre(1, 2, 3, 4, 6, 8));
  EXPECT_THAT(batches({"gpus=5,8"}), ElementsAre(1, 3)) << "5 do not divide it";
  EXPECT_THAT(batches({"micro_batch_size_per_gpu=1,3", "gpus=4,8"}), ElementsAre(1, 3));
  EXPECT_THAT(narrowed(Family::kLive, {"gpus=1"}).values(Knob::kMicroBatch), ElementsAre(1));
  job.target = LaunchTarget::kHf;
  const Space intervals = narrowed(Family::kDeepSpeed, {"gpus=4,8"});
  EXPECT_THAT(intervals.values(Knob::kUpdateInterval),
              ElementsAre(1, 2, 3, setting_of(job).get(Knob::kUpdateInterval), 6));
}

TEST(Spaces, AreNarrowedByLists) {
  Space space = small_space();
  narrow(space, "update_interval=8,2");
  EXPECT_THAT(space.values(Knob::kUpdateInterval), ElementsAre(2, 8));
  narrow(space, "topk_ratio=0.1:0.3:0.1");
  EXPECT_THAT(space.values(Knob::kTopkRatio), ElementsAre(0.1, 0.2, 0.3));
  const auto [kind, what] = error_of([&] { narrow(space, "overlap_stp=true"); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("did you mean \"overlap_step\"?"));
}

TEST(Spaces, AreNarrowedByFiles) {
  const TemporaryFolder folder;
  Space space = small_space();
  narrow_by_file(space, folder.write("space.yaml", "stage: [2, 3]\noverlap_step: true\n"));
  EXPECT_THAT(space.values(Knob::kStage), ElementsAre(2, 3));
  EXPECT_THAT(space.values(Knob::kOverlapStep), ElementsAre(1));
  const auto refused = [&](const char* text) {
    return error_of([&] { narrow_by_file(space, folder.write("bad.yaml", text)); }).second;
  };
  EXPECT_THAT(refused("stage: [2, 3]\noverlap_stp: true\n"),
              AllOf(HasSubstr("bad.yaml:2:1"), HasSubstr("did you mean \"overlap_step\"?")));
  EXPECT_THAT(refused("stage: [2, 7]\n"), HasSubstr("bad.yaml:1:12"));
  EXPECT_THAT(refused("stage: []\n"), HasSubstr("expected at least one value"));
  EXPECT_THAT(refused("stage: {a: 1}\n"), HasSubstr("expected a value or a list"));
}

TEST(GlobalBatch, LeavesOutAccumulationThatZenFlowDrops) {
  Job job = testing::make_small_job(testing::round_node(2), testing::tiny_llama(),
                                    {.gpus = 2, .accumulation = 4});
  EXPECT_EQ(global_batch_of(job, Family::kDeepSpeed), 4);
  job.target = LaunchTarget::kHf;
  EXPECT_EQ(global_batch_of(job, Family::kDeepSpeed), 16);
  job.deepspeed.zenflow.reset();
  EXPECT_EQ(global_batch_of(job, Family::kPublished), 16);
}

TEST(GlobalBatch, HasTheMicroBatchesOfZenFlowTrainsSteps) {
  const Job job =
      testing::make_small_job(testing::round_node(), testing::tiny_llama(), {.accumulation = 4});
  EXPECT_EQ(global_batch_of(job, Family::kLive), 4 * global_batch_of(job, Family::kDeepSpeed));
}

}  // namespace
}  // namespace zenflow::sim
