#include "sim/accuracy/comparison.h"

#include <cmath>
#include <tuple>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/accuracy/document.h"
#include "sim/accuracy/page.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/base/table.h"
#include "sim/offload/training_setup.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ComparedSetting compared(double measured, double predicted, double stall, double predicted_stall) {
  ComparedSetting setting;
  setting.name = "a";
  setting.schedule = "live-zenflow";
  setting.measured[Metric::kStep] = measured;
  setting.measured[Metric::kStall] = stall;
  setting.predicted[Metric::kStep] = predicted;
  setting.predicted[Metric::kStall] = predicted_stall;
  for (StepFigures* side : {&setting.measured, &setting.predicted}) {
    (*side)[Metric::kD2HBytes] = (*side)[Metric::kH2DBytes] = 1000;
  }
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
  EXPECT_EQ(summarize({one}, {.bytes = 0.5}).bytes_equal, false);
}

TEST(Comparison, UnknownBytesAreNotEqual) {
  const auto judged = [](const ComparedSetting& one, const Tolerance& tolerance) {
    const ValidationSummary all = summarize({one}, tolerance);
    return std::pair(all, validation_table({one}, all, tolerance, false));
  };
  ComparedSetting one = compared(100, 100, 0, 0);
  EXPECT_THAT(judged(one, {}).second, HasSubstr("; bytes equal\n"));
  for (StepFigures* side : {&one.measured, &one.predicted}) {
    ComparedSetting half = one;
    (side == &one.measured ? half.measured : half.predicted)[Metric::kH2DBytes].reset();
    const auto [all, table] = judged(half, {});
    EXPECT_EQ(all.bytes_equal, std::nullopt);
    EXPECT_FALSE(all.within);
    EXPECT_THAT(table, HasSubstr("bytes of some settings unknown"));
    EXPECT_THAT(table, Not(HasSubstr("equal")));
    // Known of one setting, unknown of another.
    EXPECT_EQ(summarize({one, half}, {}).bytes_equal, std::nullopt);
    // What is wrong is wrong, whatever the other direction is.
    half.predicted[Metric::kD2HBytes] = 999;
    EXPECT_EQ(summarize({half}, {}).bytes_equal, false);
    // Somebody who has no bytes to judge by says so.
    const auto [free, text] = judged(half, {.bytes = std::nullopt});
    EXPECT_TRUE(free.within);
    EXPECT_THAT(text, HasSubstr("(not judged)"));
  }
}

TEST(Comparison, AnUnknownStallIsNotWithinItsLimit) {
  ComparedSetting one = compared(100, 100, 0, 0);
  one.measured[Metric::kStall].reset();
  EXPECT_FALSE(summarize({one}, {}).within);
  EXPECT_FALSE(summarize({one, compared(100, 100, 0, 0)}, {}).within);
  EXPECT_TRUE(summarize({one}, {.worst_stall = std::nullopt}).within);
}

TEST(Comparison, WhatRoundsToNothingHasNoSign) {
  EXPECT_EQ(signed_percent(-0.0002), "0.0 %");
  EXPECT_EQ(signed_percent(0.0005), "+0.1 %");
  EXPECT_EQ(signed_percent(-0.0012, " pt"), "-0.1 pt");
  EXPECT_EQ(signed_percent(-0.0002, " %", 2), "-0.02 %");
  EXPECT_EQ(signed_percent(std::nullopt), "n/a");
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
  EXPECT_THAT(all.not_told, Not(::testing::Contains(Metric::kForward)));
  const std::string table = validation_table({one}, all, {}, false);
  EXPECT_THAT(table, HasSubstr("phase: forward"));
  EXPECT_THAT(table, HasSubstr("not told by what was measured: GPU compute"));
}

TEST(Comparison, NamesWhatToLookAtFirst) {
  ComparedSetting one = compared(200, 150, 20, 20);
  EXPECT_FALSE(one.first_to_look_at());  // no part is known on both sides
  const auto both = [&one](Metric metric, double measured, double predicted) {
    one.measured[metric] = measured;
    one.predicted[metric] = predicted;
  };
  both(Metric::kCompute, 100, 90);
  both(stall_by(WaitCause::kCpuUpdate), 60, 25);
  both(stall_by(WaitCause::kD2H), 10, 70);  // predicted too long, where the step is too short
  EXPECT_EQ(one.first_to_look_at(), stall_by(WaitCause::kCpuUpdate));
  both(Metric::kTimerForward, 60, 50);
  both(Metric::kTimerBackward, 80, 40);
  both(Metric::kTimerStep, 60, 60);
  EXPECT_EQ(one.first_to_look_at(), Metric::kTimerBackward);
  const ValidationSummary all = summarize({one}, {});
  EXPECT_THAT(
      validation_table({one}, all, {}, false),
      HasSubstr("a: first to look at: timer: backward, 80.00 ms measured, 40.00 predicted"));
  one.predicted[Metric::kStep] = 195;
  EXPECT_FALSE(one.first_to_look_at());  // nothing is missed
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

TEST(Comparison, TheSpreadOfRunsIsTheirRangeRelativeToTheMedian) {
  EXPECT_EQ(run_spread({5}), 0);
  EXPECT_NEAR(run_spread({12, 9, 10}), 0.3, 1e-12);
  EXPECT_NEAR(run_spread({9, 11}), 0.2, 1e-12);  // the median of two is their mean
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
  setting.measured[stall_by(WaitCause::kD2H)] = 4;
  setting.measured[Metric::kHostMemory] = 1000;
  setting.measured[Metric::kForward] = 40;
  setting.predicted[Metric::kForward] = 41;
  setting.measured[Metric::kD2HBytes] = 0;
  setting.predicted[Metric::kD2HBytes] = 64;  // infinitely wrong
  setting.measured.step_times = {80, 120};
  setting.predicted.step_times = {100, 120};
  setting.runs = 4;
  setting.run_times = {99, 100, 101};
  setting.earlier_run_times = {149};
  document.settings = {setting};
  judge(document);
  EXPECT_NEAR(*document.settings[0].spread, 0.02, 1e-12);

  const testing::TemporaryFolder folder;
  const auto file = folder.write("result.json", document_json(document));
  const ValidationDocument read = read_document(file);
  EXPECT_EQ(read.origin.remarks, document.origin.remarks);
  EXPECT_EQ(read.origin.command, document.origin.command);
  ASSERT_EQ(read.settings.size(), 1U);
  EXPECT_EQ(read.settings[0].measured.values, setting.measured.values);
  EXPECT_EQ(read.settings[0].predicted.values, setting.predicted.values);
  EXPECT_EQ(read.settings[0].measured.step_times, setting.measured.step_times);
  EXPECT_NEAR(*read.settings[0].error(Metric::kStep), 0.1, 1e-9);
  EXPECT_EQ(read.settings[0].runs, 4);
  EXPECT_EQ(read.settings[0].run_times, setting.run_times);
  EXPECT_EQ(read.settings[0].earlier_run_times, setting.earlier_run_times);
  EXPECT_NEAR(read.summary.worst_spread, 0.02, 1e-12);
  EXPECT_EQ(read.summary.bytes_equal, false);
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

/// Each statement of a document follows from its figures, or is refused where it stands.
TEST(Document, MayNotContradictItsFigures) {
  ValidationDocument document;
  document.origin = {"cpu", "2026-11-20", "a machine", "zenflow-validate small.yaml"};
  document.version = document.scenario = "x";
  document.settings = {compared(100, 110, 10, 12), compared(100, 95, 10, 10)};
  document.settings[0].runs = 4;
  document.settings[0].run_times = {99, 100, 101};
  document.settings[0].earlier_run_times = {95};
  document.settings[0].predicted.step_times = {100, 120};
  document.settings[1].name = "b";
  document.settings[1].runs = 3;
  judge(document);
  const std::string text = document_json(document);
  const testing::TemporaryFolder folder;
  const auto message_of = [&](const std::string& from, const std::string& to) -> std::string {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    if (at == changed.npos) return "not there";
    changed.replace(at, from.size(), to);
    const auto file = folder.write("d.json", changed);
    try {
      (void)read_document(file);
      return "";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
  };
  EXPECT_EQ(message_of("\"x\"", "\"y\""), "");
  EXPECT_EQ(message_of("\"step_error\": 0.1,", "\"step_error\": 0.100001,"), "");  // rounding
  EXPECT_EQ(message_of("\"step_time_ms\": 100.0", "\"step_time_ms\": 100.000001"), "");
  for (const auto& [from, to, what] :
       {std::tuple("\"step_error\": 0.1,", "\"step_error\": 0.01,", "results[0].step_error: "),
        std::tuple("\"stall_error\": 0.02", "\"stall_error\": null", "results[0].stall_error: "),
        std::tuple("\"bytes_equal\": true", "\"bytes_equal\": false", "results[0].bytes_equal: "),
        std::tuple("\"spread\": 0.02", "\"spread\": 0.01", "results[0].spread: "),
        std::tuple("\"spread_of_all_runs\": 0.060302", "\"spread_of_all_runs\": 0.02",
                   "results[0].spread_of_all_runs: "),
        std::tuple(
            "\"step_time_ms\": 100.0", "\"step_time_ms\": 100.00001",
            "results[0].measured.step_time_ms: the median of run_step_times_ms makes it 100, "),
        std::tuple("\"step_time_ms\": 110.0", "\"step_time_ms\": 100.0",
                   "results[0].predicted.step_time_ms: the mean of step_times_ms makes it 110, "),
        std::tuple("\"runs\": 4", "\"runs\": 3", "results[0].runs: expected 4, of which"),
        std::tuple("\"runs\": 4", "\"runs\": 5", "results[0].runs: expected 4, of which"),
        std::tuple("\"runs\": 3", "\"runs\": 0", "results[1].runs: "),
        std::tuple(
            "\"mean_step_error\": 0.075", "\"mean_step_error\": 0.07",
            "summary.mean_step_error: the figures of this document make it 0.075, found 0.07"),
        std::tuple("\"worst_setting\": \"a\"", "\"worst_setting\": \"b\"",
                   "summary.metrics[0].worst_setting: "),
        std::tuple("\"within_tolerance\": true", "\"within_tolerance\": false",
                   "summary.within_tolerance: "),
        std::tuple("\"too_noisy\": false", "\"quiet\": true", "summary.quiet: stated, but")}) {
    const std::string message = message_of(from, to);
    EXPECT_THAT(message, HasSubstr(what)) << from;
    EXPECT_THAT(message, ::testing::ContainsRegex("d\\.json:[0-9]+:[0-9]+: ")) << from;
  }
}

/// If runs were made until the newest agreed, those before them are shown: the agreement was waited
/// for.
TEST(Document, SaysOfHowManyRunsTheNewestCount) {
  ComparedSetting setting = compared(100, 110, 10, 12);
  EXPECT_EQ(setting.runs_text(), "");
  EXPECT_EQ(setting.spread_text(), "");
  setting.runs = 8;  // of a document without times: all count
  setting.spread = 0.006;
  EXPECT_EQ(setting.runs_text(), "8");
  EXPECT_EQ(setting.spread_text(), "0.6 %");
  setting.run_times = {99, 100, 101};
  EXPECT_EQ(setting.runs_text(), "newest 3 of 8");
  setting.runs = 5;
  setting.earlier_run_times = {140, 98};
  ValidationDocument document;
  document.settings = {setting};
  judge(document);
  EXPECT_EQ(document.settings[0].runs_text(), "newest 3 of 5");
  EXPECT_EQ(document.settings[0].spread_text(), "2.0 % (all runs: 42.0 %)");
  EXPECT_THAT(results_text(document), HasSubstr("| newest 3 of 5 | 2.0 % (all runs: 42.0 %) |"));
}

TEST(LivePoints, AreReadAsTheyAreShown) {
  EXPECT_EQ(parse_offload_setup("zero-offload").schedule, OffloadSchedule::kZeroOffload);
  const OffloadSetup point = parse_offload_setup("zenflow:0.05:8");
  EXPECT_EQ(point.topk_ratio, 0.05);
  EXPECT_EQ(point.update_interval, 8);
  EXPECT_EQ(to_string(point), "zenflow k=0.05 S=8");
  EXPECT_FALSE(point.accumulate_on_device);
  EXPECT_TRUE(
      parse_offload_setup("zenflow:0.05:8", {.accumulate_on_device = true}).accumulate_on_device);
  EXPECT_FALSE(parse_offload_setup("zenflow:0.05:8:host", {.accumulate_on_device = true})
                   .accumulate_on_device);
  const OffloadSetup on_device = parse_offload_setup("zenflow:0.05:8:device");
  EXPECT_TRUE(on_device.accumulate_on_device);
  EXPECT_EQ(on_device.topk_ratio, 0.05);
  EXPECT_EQ(on_device.update_interval, 8);
  EXPECT_EQ(to_string(on_device), "zenflow k=0.05 S=8 sums on device");
  for (const char* wrong : {"", "zenflow", "zenflow:0.1", "zenflow:0.1:0", "zenflow:1:4",
                            "zenflow:0:4", "zenflow:0.1:4:2", "zenflow:0.1:x", "deepspeed",
                            "zenflow:0.1:device", "zenflow:0.1:4:", "zenflow:0.1:4:devices",
                            "zenflow:0.1:4:host:device", "zero-offload:device"}) {
    try {
      (void)parse_offload_setup(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("zenflow:K:S")) << wrong;
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
