// Where steps are found when nobody, or only the optimizer, says where they are.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/import/steps.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using testing::event;
using testing::import_text;
using testing::kernel;
using ::testing::SizeIs;

std::vector<NameId> repeated(const std::vector<NameId>& part, int times) {
  std::vector<NameId> all;
  for (int i = 0; i < times; ++i) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(FindPeriod, FindsTheStepAndNotItsLayers) {
  std::vector<NameId> step = {1};
  for (int layer = 0; layer < 12; ++layer) step.insert(step.end(), {2, 3, 4});
  step.push_back(5);
  EXPECT_EQ(find_period(repeated(step, 4)), step.size());
}

TEST(FindPeriod, LayersOfOneStepAreNoSteps) {
  std::vector<NameId> step = {1, 6};
  for (int layer = 0; layer < 12; ++layer) step.insert(step.end(), {2, 3, 4});
  step.push_back(5);
  EXPECT_EQ(find_period(step), 0U);
}

TEST(FindPeriod, AllowsFewDifferencesAndNeedsThreeRepetitions) {
  std::vector<NameId> step;
  for (NameId i = 1; i <= 100; ++i) step.push_back(i);
  std::vector<NameId> sequence = repeated(step, 5);
  sequence[250] = 7;
  EXPECT_EQ(find_period(sequence), 100U);
  EXPECT_EQ(find_period(repeated(step, 2)), 0U);
  EXPECT_EQ(find_period({}), 0U);
  EXPECT_EQ(find_period({1, 2}), 0U);
}

TEST(FindPeriod, KernelsThatAreLaunchedOverAndOverAreNoSteps) {
  EXPECT_EQ(find_period(repeated({1, 2}, 10'000)), 2U);
  EXPECT_EQ(find_period(repeated({1, 2}, 10'001)), 0U);
  EXPECT_EQ(find_period(repeated({1}, 1'000'000)), 0U);
}

TEST(FindSteps, KnowsWhatProgramsCallTheirSteps) {
  const auto source_of = [](const std::string& name) {
    return import_text("{\"traceEvents\": [" +
                       event("user_annotation", name, "100", "100", "0", "10") + "]}")
        .step_source;
  };
  for (const char* name :
       {"ProfilerStep#12", "step 12", "Step_3", "iteration_12", "iter 3", "batch 0", "train_step",
        "training iteration", "global_step 7", "measure_step_0", "benchmark iteration 2"}) {
    EXPECT_EQ(source_of(name), StepSource::kAnnotation) << name;
  }
  for (const char* name :
       {"warmup_step_0", "backward step 3", "stepping 3", "layer 3", "micro_step 2", "optimizer"}) {
    EXPECT_EQ(source_of(name), StepSource::kNone) << name;
  }
}

TEST(FindSteps, TakesOptimizersWhereNoStepIsAnnotated) {
  std::string list;
  for (int i = 0; i < 3; ++i) {
    list += (i == 0 ? "" : ",") + event("user_annotation", "Optimizer.step#AdamW.step", "100",
                                        "100", std::to_string(100 * i + 50), "10");
  }
  const ImportedTrace trace = import_text("{\"traceEvents\": [" + list + "]}");
  EXPECT_EQ(trace.step_source, StepSource::kOptimizer);
  ASSERT_THAT(trace.timeline.steps, SizeIs(2));
  EXPECT_EQ(trace.timeline.steps[0].start.count, 60'000'000);
  EXPECT_EQ(trace.timeline.steps[0].end.count, 160'000'000);
}

TEST(FindSteps, TakesThePeriodOfTheKernelsElse) {
  std::string list;
  int number = 0;
  for (int step = 0; step < 4; ++step) {
    for (const char* name : {"embed", "gemm", "norm", "gemm", "norm", "head"}) {
      list += (number == 0 ? "" : ",") + kernel(name, std::to_string(10 * number), "8", number);
      ++number;
    }
  }
  const ImportedTrace trace = import_text("{\"traceEvents\": [" + list + "]}");
  EXPECT_EQ(trace.step_source, StepSource::kPeriod);
  ASSERT_THAT(trace.timeline.steps, SizeIs(3));
  EXPECT_EQ((trace.timeline.steps[1].end - trace.timeline.steps[1].start).count, 60'000'000);
}

TEST(FindSteps, APatternDecidesAlone) {
  const std::string text =
      testing::trace_of(event("user_annotation", "ProfilerStep#1", "100", "100", "0", "10"),
                        event("cpu_op", "my_step", "100", "100", "20", "10"),
                        event("cpu_op", "my_step", "100", "100", "40", "10"));
  ImportOptions options;
  options.steps = "my_.*";
  const ImportedTrace found = import_text(text, options);
  EXPECT_EQ(found.step_source, StepSource::kPattern);
  EXPECT_THAT(found.timeline.steps, SizeIs(2));
  options.steps = "your_.*";
  EXPECT_EQ(import_text(text, options).step_source, StepSource::kNone);
}

// Whole microseconds: a step may seem to begin before the one before it has ended.
TEST(FindSteps, StepsMayOverlapALittle) {
  const ImportedTrace trace = import_text(
      testing::trace_of(event("user_annotation", "ProfilerStep#1", "100", "100", "0", "11"),
                        event("user_annotation", "ProfilerStep#2", "100", "100", "10", "10")));
  EXPECT_THAT(trace.timeline.steps, SizeIs(2));
}

}  // namespace
}  // namespace zenflow::sim
