// Micro steps by hand, from DeepSpeed's conditions. script/interop holds them against DeepSpeed.
#include "sim/schedule/micro_steps.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::JobOptions;
using testing::make_small_job;
using testing::round_node;
using testing::tiny_llama;

Job job(const char* interval, const char* select, std::int64_t warm_up, bool overlap) {
  JobOptions options;
  options.update_interval = interval;
  options.select_interval = select;
  options.warm_up = warm_up;
  options.overlap_step = overlap;
  return make_small_job(round_node(), tiny_llama(), options);
}

std::vector<MicroStep> steps_of(const Job& job, std::int64_t count = 16) {
  return micro_steps(job, find_schedule("deepspeed-zenflow"), count);
}

/// "3:0<-" a boundary at step 3 that reads buffer 0 and sends no weights; "9:-<9": one buffer,
/// weights of its own update.
std::vector<std::string> boundaries(const std::vector<MicroStep>& steps) {
  std::vector<std::string> list;
  for (const MicroStep& step : steps) {
    if (!step.boundary) continue;
    list.push_back(std::to_string(step.step) + (step.full_update ? "!" : ":") +
                   (step.buffer ? std::to_string(*step.buffer) : "-") + "<" +
                   (step.weights_of ? std::to_string(*step.weights_of) : "-"));
  }
  return list;
}

std::vector<std::int64_t> selections(const std::vector<MicroStep>& steps) {
  std::vector<std::int64_t> list;
  for (const MicroStep& step : steps) {
    if (step.selects) list.push_back(step.step);
  }
  return list;
}

TEST(MicroSteps, WithoutWarmUpWeightsAreTwoUpdatesOld) {
  const auto steps = steps_of(job("4", "8", 0, true));
  EXPECT_THAT(boundaries(steps), ElementsAre("3:0<-", "7:1<-", "11:0<3", "15:1<7"));
  EXPECT_THAT(selections(steps), ElementsAre(0, 8));
}

TEST(MicroSteps, WithWarmUpWeightsAreOneUpdateOld) {
  const auto steps = steps_of(job("4", "8", 4, true));
  EXPECT_THAT(boundaries(steps),
              ElementsAre("0!0<0", "1!1<1", "2!0<2", "3!1<3", "7:1<-", "11:0<7", "15:1<11"));
  EXPECT_THAT(selections(steps), ElementsAre(4, 8));
}

// Before 0.19.3 the weights go up as fp32, without a cast on the host.
TEST(MicroSteps, AreTheSameWithTheOldWorker) {
  for (const char* release : {"0.17.5", "0.18.2", "0.19.2"}) {
    Job one = job("4", "8", 0, true);
    one.version = parse_version(release);
    EXPECT_THAT(boundaries(steps_of(one)), ElementsAre("3:0<-", "7:1<-", "11:0<3", "15:1<7"))
        << release;
    one.deepspeed.zenflow->full_warm_up_rounds = 4;
    EXPECT_THAT(boundaries(steps_of(one)),
                ElementsAre("0!0<0", "1!1<1", "2!0<2", "3!1<3", "7:1<-", "11:0<7", "15:1<11"))
        << release;
  }
}

// HF Trainer sets the boundaries; the buffer still follows update_interval, also when that is
// another number: then two updates in a row read the same one.
TEST(MicroSteps, OfOtherLaunchersFollowTheirAccumulation) {
  Job one = job("4", "8", 0, true);
  one.target = LaunchTarget::kHf;
  one.deepspeed.gradient_accumulation_steps = 4;
  EXPECT_THAT(boundaries(steps_of(one)), ElementsAre("3:0<-", "7:1<-", "11:0<3", "15:1<7"));
  one.deepspeed.gradient_accumulation_steps = 2;
  EXPECT_THAT(boundaries(steps_of(one, 8)), ElementsAre("1:0<-", "3:0<-", "5:1<1", "7:1<3"));
}

// Selection every 10 cuts windows short: the updates of steps 9 and 11 read the same buffer.
TEST(MicroSteps, SelectionThatIsNoMultipleReusesABuffer) {
  EXPECT_THAT(boundaries(steps_of(job("4", "10", 0, true))),
              ElementsAre("3:0<-", "7:1<-", "9:0<3", "11:0<7", "15:1<9"));
}

TEST(MicroSteps, BlockingUpdatesSendTheirOwnWeights) {
  EXPECT_THAT(boundaries(steps_of(job("4", "8", 1, false))),
              ElementsAre("0!-<0", "4:-<4", "7:-<7", "8:-<8", "12:-<12", "15:-<15"));
}

TEST(MicroSteps, AreAsManyAsAskedFor) {
  for (const std::int64_t count : {1, 3, 4, 5}) {
    const auto steps = steps_of(job("4", "8", 0, true), count);
    ASSERT_EQ(steps.size(), static_cast<std::size_t>(count));
    EXPECT_EQ(steps.back().step, count - 1);
  }
}

TEST(MicroSteps, OtherSchedulesHaveNoBuffers) {
  for (const auto& schedule : schedules()) {
    const Job one = testing::suited_to(*schedule, job("4", "8", 0, true));
    const auto steps = micro_steps(one, *schedule, 8);
    ASSERT_EQ(steps.size(), 8U) << schedule->name();
    for (const MicroStep& step : steps) {
      EXPECT_TRUE(step.boundary || !step.weights_of) << schedule->name();
      EXPECT_EQ(step.buffer.has_value(), step.boundary && schedule->name() == "deepspeed-zenflow");
    }
  }
}

TEST(MicroSteps, RefuseAJobThatTheScheduleCannotRun) {
  JobOptions options;
  options.with_zenflow = false;
  const Job none = make_small_job(round_node(), tiny_llama(), options);
  EXPECT_THROW((void)micro_steps(none, find_schedule("deepspeed-zenflow"), 4), Error);
}

/// Copies down in the first 12 steps.
std::int64_t copies_down(const Job& one) {
  const Schedule& schedule = find_schedule("deepspeed-zenflow");
  const Program program = schedule.build(one, schedule.windows(one, 12));
  return std::count_if(program.labels.begin(), program.labels.end(),
                       [](const TaskLabel& label) { return label.operation == Operation::kD2H; });
}

// Every selection but that of the very first step copies the 16-bit weights over the fp32 master,
// also the first one after warm-up. Besides, each of four steps copies its running sum and the
// fourth its fp32 gradients; a warm-up step copies only these.
TEST(MicroSteps, SelectionOverwritesTheMasterExceptAtTheStart) {
  EXPECT_EQ(copies_down(job("4", "0", 0, true)), 15);
  EXPECT_EQ(copies_down(job("4", "8", 0, true)), 15 + 1);
  EXPECT_EQ(copies_down(job("4", "0", 4, true)), 4 + 10 + 1);
  EXPECT_EQ(copies_down(job("4", "8", 4, true)), 4 + 10 + 2);
}

}  // namespace
}  // namespace zenflow::sim
