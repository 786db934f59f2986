// Which points a sweep has, and that each is what a run of its own says.
#include "sim/report/sweep.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::tiny_llama;

std::string error_of(const std::string& text) {
  try {
    (void)parse_variation(text);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

TEST(Variation, IsAList) {
  const Variation one = parse_variation("topk_ratio=0.05,0.1,0.5");
  EXPECT_EQ(one.key, "topk_ratio");
  EXPECT_EQ(one.path, "deepspeed.zero_optimization.zenflow.topk_ratio");
  EXPECT_THAT(one.values, ElementsAre("0.05", "0.1", "0.5"));
  EXPECT_THAT(parse_variation("gpus=4").values, ElementsAre("4"));
}

TEST(Variation, IsARangeWithBothEnds) {
  EXPECT_THAT(parse_variation("update_interval=1:4:1").values, ElementsAre("1", "2", "3", "4"));
  EXPECT_THAT(parse_variation("topk_ratio=0.05:0.15:0.05").values,
              ElementsAre("0.05", "0.1", "0.15"));
  EXPECT_THAT(parse_variation("a=1:10:4").values, ElementsAre("1", "5", "9"));
  EXPECT_THAT(parse_variation("a=3:1:-1").values, ElementsAre("3", "2", "1"));
  EXPECT_THAT(parse_variation("a=2:2:1").values, ElementsAre("2"));
}

TEST(Variation, RefusesWhatHasNoValues) {
  EXPECT_THAT(error_of("topk_ratio"), HasSubstr("expected KEY=A,B,C"));
  EXPECT_THAT(error_of("=1,2"), HasSubstr("expected KEY=A,B,C"));
  EXPECT_THAT(error_of("a="), HasSubstr("a value is empty"));
  EXPECT_THAT(error_of("a=1,,2"), HasSubstr("a value is empty"));
  EXPECT_THAT(error_of("a=1:2"), HasSubstr("needs a step"));
  EXPECT_THAT(error_of("a=1:2:0"), HasSubstr("does not lead"));
  EXPECT_THAT(error_of("a=2:1:1"), HasSubstr("does not lead"));
  EXPECT_THAT(error_of("a=1:nan:1"), HasSubstr("expected a number"));
  EXPECT_THAT(error_of("a=1:inf:1"), HasSubstr("expected a number"));
  EXPECT_THAT(error_of("a=1:x:1"), HasSubstr("found \"x\""));
  EXPECT_THAT(error_of("a=0:1e9:1"), HasSubstr("million"));
}

TEST(Combinations, VaryTheLastKeyFastest) {
  const std::vector<Variation> two = {parse_variation("a=1,2"), parse_variation("b=x,y,z")};
  ASSERT_EQ(combinations(two), 6U);
  std::vector<std::string> all;
  for (std::size_t i = 0; i < 6; ++i) {
    const std::vector<Override> settings = combination(two, i);
    all.push_back(settings[0].value + settings[1].value);
    EXPECT_EQ(settings[0].path, "a");
  }
  EXPECT_THAT(all, ElementsAre("1x", "1y", "1z", "2x", "2y", "2z"));
  EXPECT_EQ(combinations({}), 1U);
}

TEST(Combinations, AreLimited) {
  const Variation many = parse_variation("a=1:1000000:1");
  EXPECT_EQ(combinations({many}), 1'000'000U);
  EXPECT_THROW((void)combinations({many, many, many, many}), Error);
  EXPECT_THROW((void)combinations({many, parse_variation("b=1:11:1")}), Error);
}

TEST(Combinations, AreOfSettingsThatDoNotReplaceEachOther) {
  const Variation stage = parse_variation("deepspeed.zero_optimization.stage=2,3");
  const Variation whole = parse_variation("deepspeed.zero_optimization=a,b");
  const Variation other = parse_variation("deepspeed.zero_optimization.stages=1");
  EXPECT_EQ(combinations({stage, other}), 2U);
  EXPECT_THROW((void)combinations({stage, stage}), Error);
  EXPECT_THROW((void)combinations({stage, whole}), Error);
  EXPECT_THROW((void)combinations({whole, stage}), Error);
}

TEST(Sweeper, SimulatesEachPointAsARunOfItsOwn) {
  // The job of each point has the settings that its overrides say.
  const auto read = [](const std::vector<Override>& settings) {
    JobOptions options;
    for (const Override& one : settings) {
      if (one.path == "gpus") options.gpus = std::stoi(one.value);
      if (one.path.ends_with("topk_ratio")) options.topk_ratio = std::stod(one.value);
      if (one.path.ends_with("update_interval")) options.update_interval = one.value;
    }
    return make_small_job(round_node(4), tiny_llama(), options);
  };
  const std::vector<Variation> varied = {parse_variation("topk_ratio=0.05,0.5"),
                                         parse_variation("gpus=1,4"),
                                         parse_variation("update_interval=1,2,4")};
  Sweeper sweeper(read);
  std::vector<std::string> names;
  for (const auto& schedule : schedules()) {
    // Those that need stage 3, or one GPU, are refused here.
    const Job four = read({{"gpus", "4"}});
    const Job suited = testing::suited_to(*schedule, four);
    const bool as_it_is = suited.deepspeed.zero_stage == four.deepspeed.zero_stage &&
                          suited.scenario.gpus == four.scenario.gpus;
    if (as_it_is) names.emplace_back(schedule->name());
  }
  for (std::size_t i = 0; i < combinations(varied); ++i) {
    const std::vector<Override> settings = combination(varied, i);
    const Sweeper::Point point = sweeper.simulate(settings, names);
    ASSERT_EQ(point.results.size(), names.size());
    for (std::size_t n = 0; n < names.size(); ++n) {
      const SimulationResult alone = simulate_schedule(read(settings), find_schedule(names[n]));
      EXPECT_EQ(point.results[n].schedule, names[n]);
      EXPECT_EQ(point.results[n].step_time, alone.step_time);
      EXPECT_EQ(point.results[n].d2h_bytes, alone.d2h_bytes);
      EXPECT_EQ(point.results[n].topk_ratio, alone.topk_ratio);
      EXPECT_EQ(point.results[n].memory.gpu.total, alone.memory.gpu.total);
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
