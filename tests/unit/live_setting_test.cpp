// A recording's own account of how it ran, against the setting that it is to be fitted as.
#include "sim/calibrate/live_setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/recorded_run.h"
#include "tests/support/error_of.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Job job() {
  return testing::make_small_job(testing::round_node(), testing::tiny_llama(), {});
}

RecordedRun run_of(const Job& job) {
  RecordedRun run;
  static_cast<TrainingSettings&>(run) = job.scenario.training;
  run.parameters = job.scenario.model.parameters();
  return run;
}

/// "" if the recording may be fitted as `point`.
std::string refusal(const RecordedRun& run, const OffloadSetup& point) {
  Timeline timeline;
  timeline.tracks = {{"compute", TrackKind::kGpuKernels}};
  write_recorded_run(timeline, run);
  return zenflow::testing::error_of(
             [&] { check_recorded_setting("run.json", timeline, point, job()); })
      .second;
}

constexpr OffloadSetup kZenFlow{OffloadSchedule::kZenFlow, 0.1, 4, true};

TEST(RecordedSetting, IsAcceptedIfItAgrees) {
  Timeline says_nothing;
  says_nothing.tracks = {{"compute", TrackKind::kGpuKernels}};
  EXPECT_NO_THROW(check_recorded_setting("run.json", says_nothing, kZenFlow, job()));
  Timeline timeline;
  timeline.tracks = {{"compute", TrackKind::kGpuKernels}};
  write_recorded_run(timeline, run_of(job()));
  EXPECT_NO_THROW(check_recorded_setting("run.json", timeline, kZenFlow, job()));
}

// A profiler's trace has streams.
TEST(RecordedSetting, IsNotOfAnotherProgramsTrace) {
  Timeline timeline;
  timeline.tracks = {{"stream 7", TrackKind::kGpuKernels}};
  const auto refused = zenflow::testing::error_of(
      [&] { check_recorded_setting("run.json", timeline, kZenFlow, job()); });
  EXPECT_THAT(refused.second, HasSubstr("run.json: no track \"compute\""));
}

TEST(RecordedSetting, NamesEachDifference) {
  RecordedRun run = run_of(job());
  EXPECT_EQ(refusal(run, {OffloadSchedule::kZenFlow, 0.2, 8, true}),
            "run.json: topk_ratio 0.1 was recorded, the setting has 0.2; "
            "update_interval 4 was recorded, the setting has 8");
  EXPECT_EQ(refusal(run, {OffloadSchedule::kZeroOffloadDpu, 0, 1, true}),
            "run.json: schedule zenflow was recorded, the setting has zero-offload-dpu");
  run.sequence_length = 77;
  run.gradient_accumulation_steps = 3;
  run.activation_checkpointing = true;
  run.dtype = DType::kFp16;
  run.parameters = 5;
  run.full_warm_up_rounds = 9;
  EXPECT_THAT(
      refusal(run, kZenFlow),
      AllOf(HasSubstr("sequence_length 77 was recorded, the scenario has 64"),
            HasSubstr("gradient_accumulation_steps 3 was recorded, the scenario has 1"),
            HasSubstr("activation_checkpointing true was recorded"), HasSubstr("dtype fp16"),
            HasSubstr("so many parameters: 5 was recorded"), HasSubstr("full_warm_up_rounds 9")));
}

TEST(RecordedSetting, NamesWhereSumsWere) {
  OffloadSetup on_device = kZenFlow;
  on_device.accumulate_on_device = true;
  RecordedRun run = run_of(job());
  EXPECT_EQ(refusal(run, on_device),
            "run.json: accumulate_on host was recorded, the setting has device");
  run.accumulate_on_device = true;
  EXPECT_EQ(refusal(run, on_device), "");
  EXPECT_EQ(refusal(run, kZenFlow),
            "run.json: accumulate_on device was recorded, the setting has host");
}

// In another schedule than zenflow, k and S do not matter.
TEST(RecordedSetting, OfZeroOffloadHasNoK) {
  RecordedRun run = run_of(job());
  run.schedule = OffloadSchedule::kZeroOffload;
  run.topk_ratio = 0.7;
  EXPECT_EQ(refusal(run, {OffloadSchedule::kZeroOffload, 0, 1, true}), "");
}

TEST(RecordedSetting, OfATopkRatioThatChangedIsRefused) {
  RecordedRun run = run_of(job());
  run.topk_range = {0.05, 0.4};
  EXPECT_EQ(refusal(run, kZenFlow),
            "run.json: its topk ratio changed while it ran (--topk-range): record one that stays");
}

TEST(RecordedSetting, OfAnIntervalThatChangedIsRefused) {
  RecordedRun run = run_of(job());
  run.interval_is_auto = true;
  EXPECT_THAT(refusal(run, kZenFlow), HasSubstr("changed while it ran"));
}

}  // namespace
}  // namespace zenflow::sim
