#include "sim/accuracy/comparison.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/accuracy/document.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/calibrate/live_point.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ComparedSetting compared(double measured, double predicted, double stall, double predicted_stall) {
  ComparedSetting setting;
  setting.name = "a";
  setting.schedule = "live-zenflow";
  setting.measured[Metric::kStep] = measured;
  setting.measured[Metric::kStall] = stall;
  setting.predicted[Metric::kStep] = predicted;
  setting.predicted[Metric::kStall] = predicted_stall;
  return setting;
}

const MetricError* find(const ValidationSummary& summary, Metric metric) {
  for (const MetricError& one : summary.metrics) {
    if (one.metric == metric) return &one;
  }
  return nullptr;
}

TEST(Comparison, CountsOnlyWhatWasPredicted) {
  std::vector<ComparedSetting> settings = {compared(100, 104, 10, 9), compared(200, 180, 10, 18)};
  settings.push_back(compared(100, 300, 0, 90));
  settings.back().calibrated = true;
  const ValidationSummary all = summarize(settings, {});
  EXPECT_EQ(all.predicted, 2);
  EXPECT_NEAR(all.mean_step_error, 0.07, 1e-12);
  EXPECT_NEAR(all.worst_step_error, 0.10, 1e-12);
  EXPECT_NEAR(*all.worst_stall_error, 0.04, 1e-12);
  EXPECT_TRUE(all.within);
}

TEST(Comparison, EveryLimitCounts) {
  EXPECT_FALSE(summarize({compared(100, 109, 0, 0)}, {}).within);  // mean
  EXPECT_TRUE(summarize({compared(100, 107, 0, 0)}, {}).within);
  EXPECT_FALSE(summarize({compared(100, 84, 0, 0), compared(100, 100, 0, 0)}, {}).within);  // worst
  EXPECT_FALSE(summarize({compared(100, 100, 0, 6)}, {}).within);                           // stall
  ComparedSetting bytes = compared(100, 100, 0, 0);
  bytes.measured[Metric::kD2HBytes] = 1000;
  bytes.predicted[Metric::kD2HBytes] = 1001;
  EXPECT_FALSE(summarize({bytes}, {}).within);
  EXPECT_TRUE(summarize({bytes}, {.bytes = 0.001}).within);
  // Nothing predicted, or no step time to judge by, is no success.
  EXPECT_FALSE(summarize({}, {}).within);
  EXPECT_FALSE(summarize({ComparedSetting{}}, {}).within);
}

TEST(Comparison, BytesWhereNoneShouldBeAreInfinitelyWrong) {
  ComparedSetting one = compared(100, 100, 0, 0);
  one.measured[Metric::kH2DBytes] = 0;
  one.predicted[Metric::kH2DBytes] = 0;
  EXPECT_EQ(one.bytes_error(), 0.0);
  one.predicted[Metric::kH2DBytes] = 1;
  EXPECT_TRUE(std::isinf(*one.bytes_error()));
  EXPECT_FALSE(summarize({one}, {.bytes = 0.5}).bytes_equal);
}

TEST(Comparison, PhasesAreHeldAgainstTheStepAndUnknownsAreListed) {
  ComparedSetting one = compared(200, 210, 20, 20);
  one.measured[Metric::kForward] = 10;
  one.predicted[Metric::kForward] = 16;
  one.predicted[Metric::kHostMemory] = 5;
  const ValidationSummary all = summarize({one}, {});
  ASSERT_NE(find(all, Metric::kForward), nullptr);
  EXPECT_NEAR(find(all, Metric::kForward)->worst, 0.03, 1e-12);  // 6 of 200
  EXPECT_EQ(find(all, Metric::kHostMemory), nullptr);
  EXPECT_THAT(all.not_told, ::testing::Contains(Metric::kHostMemory));
  EXPECT_THAT(all.not_told, ::testing::Not(::testing::Contains(Metric::kForward)));
  const std::string table = validation_table({one}, all, {}, false);
  EXPECT_THAT(table, HasSubstr("phase: forward"));
  EXPECT_THAT(table, HasSubstr("not told by what was measured: GPU compute"));
}

TEST(Comparison, StepsOfAWindowAreComparedOneByOne) {
  ComparedSetting one = compared(100, 100, 0, 0);
  one.measured.step_times = {90, 110};
  one.predicted.step_times = {100, 100};
  const ValidationSummary all = summarize({one}, {});
  EXPECT_EQ(all.worst_step_error, 0);
  ASSERT_TRUE(all.window_steps);
  EXPECT_NEAR(all.window_steps->mean, 0.1, 1e-12);
  one.predicted.step_times = {100};  // of another window
  EXPECT_FALSE(summarize({one}, {}).window_steps);
}

TEST(Comparison, SaysWhenTheMachineIsTooNoisy) {
  std::vector<ComparedSetting> settings = {compared(100, 100, 0, 0)};
  settings[0].spread = 0.026;
  EXPECT_FALSE(summarize(settings, {}).too_noisy);
  settings[0].spread = 0.027;
  EXPECT_TRUE(summarize(settings, {}).too_noisy);
}

TEST(Comparison, TheSpreadIsThatOfTheMiddleHalf) {
  EXPECT_EQ(middle_spread({5}), 0);
  // Sorted 8, 9, 10, 11, 50: the middle three, 9 to 11, around 10.
  EXPECT_NEAR(middle_spread({50, 9, 10, 8, 11}), 0.1, 1e-12);
}

TEST(Comparison, MediansAreOfEachFigureOnItsOwn) {
  StepFigures first;
  first[Metric::kStep] = 1;
  first[Metric::kForward] = 30;
  first[Metric::kBackward] = 7;
  first.step_times = {1, 9};
  StepFigures second = first;
  second[Metric::kStep] = 3;
  second[Metric::kForward] = 10;
  second[Metric::kBackward].reset();
  second.step_times = {3, 3};
  const StepFigures median = median_of({first, second});
  EXPECT_EQ(median[Metric::kStep], 2);
  EXPECT_EQ(median[Metric::kForward], 20);
  EXPECT_EQ(median[Metric::kBackward], std::nullopt);
  EXPECT_THAT(median.step_times, ElementsAre(2, 6));
}

TEST(Document, IsReadAsItWasWritten) {
  ValidationDocument document;
  document.version = "1.2.3";
  document.scenario = "small";
  document.origin = {"cpu", "2026-11-20", "a machine", "zenflow-validate small.yaml", {"Quiet."}};
  ComparedSetting setting = compared(100, 110, 10, 12);
  setting.measured[Metric::kStallD2H] = 4;
  setting.measured[Metric::kHostMemory] = 1000;
  setting.measured[Metric::kForward] = 40;
  setting.predicted[Metric::kForward] = 41;
  setting.measured[Metric::kD2HBytes] = 0;
  setting.predicted[Metric::kD2HBytes] = 64;  // infinitely wrong
  setting.measured.step_times = {80, 120};
  setting.predicted.step_times = {100, 120};
  setting.runs = 3;
  setting.spread = 0.01;
  document.settings = {setting};
  document.summary = summarize(document.settings, document.tolerance);

  const testing::TemporaryFolder folder;
  const auto file = folder.write("result.json", document_json(document));
  const ValidationDocument read = read_document(file);
  EXPECT_EQ(read.origin.remarks, document.origin.remarks);
  EXPECT_EQ(read.origin.command, document.origin.command);
  ASSERT_EQ(read.settings.size(), 1U);
  EXPECT_EQ(read.settings[0].measured.values, setting.measured.values);
  EXPECT_EQ(read.settings[0].predicted.values, setting.predicted.values);
  EXPECT_EQ(read.settings[0].measured.step_times, setting.measured.step_times);
  EXPECT_NEAR(*read.settings[0].step_error(), 0.1, 1e-9);
  EXPECT_EQ(read.settings[0].runs, 3);
  EXPECT_FALSE(read.summary.bytes_equal);
  ASSERT_NE(find(read.summary, Metric::kD2HBytes), nullptr);
  EXPECT_TRUE(std::isinf(find(read.summary, Metric::kD2HBytes)->worst));
  EXPECT_EQ(read.summary.not_told, document.summary.not_told);
  ASSERT_TRUE(read.summary.window_steps);
  EXPECT_NEAR(read.summary.window_steps->worst, 0.2, 1e-9);

  folder.write("wrong.json", R"({"tool": "zenflow-sim"})");
  try {
    (void)read_document(folder / "wrong.json");
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("wrong.json:1:10: tool: expected what zenflow-validate"));
  }
}

TEST(LivePoints, AreReadAsTheyAreShown) {
  EXPECT_EQ(parse_live_point("zero-offload").kind, LiveKind::kZeroOffload);
  const LivePoint point = parse_live_point("zenflow:0.05:8");
  EXPECT_EQ(point.topk_ratio, 0.05);
  EXPECT_EQ(point.update_interval, 8);
  EXPECT_EQ(to_string(point), "zenflow k=0.05 S=8");
  for (const char* wrong : {"", "zenflow", "zenflow:0.1", "zenflow:0.1:0", "zenflow:1:4",
                            "zenflow:0:4", "zenflow:0.1:4:2", "zenflow:0.1:x", "deepspeed"}) {
    try {
      (void)parse_live_point(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("zenflow:K:S")) << wrong;
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
