// Where steps are found when nobody, or only the optimizer, says where they are.
#include <algorithm>
#include <string>
#include <utility>
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
        "training iteration", "global_step 7", "measure_step_0", "benchmark iteration 2",
        "PROFILERSTEP#3", "TRAIN_STEP", "Train Step", "ITERATION 4", "Batch_2", "GLOBAL STEP 1"}) {
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

/// Four steps of 100 us: so many kernels, then so many calls of an optimizer, each with a copy
/// behind it and `casts` kernels.
std::vector<TimelineStep> steps_of(int kernels, int calls, int casts, bool cuts_first) {
  std::string list;
  int number = 0;
  const auto add = [&](const std::string& one) { list += (list.empty() ? "" : ",") + one; };
  const auto launched = [&](const std::string& name, int at) {
    ++number;
    add(testing::launch("cudaLaunchKernel", std::to_string(at), "0.1", number));
    add(kernel(name, std::to_string(at) + ".3", "0.2", number));
  };
  for (int step = 0; step < 4; ++step) {
    const int missing = cuts_first && step == 0 ? kernels / 2 : 0;
    for (int i = missing; i < kernels; ++i) launched("gemm", 100 * step + i);
    for (int i = 0; i < calls; ++i) {
      const int at = 100 * step + 50 + 5 * i;
      add(event("user_annotation", "Optimizer.step#DeepSpeedCPUAdam.step", "100", "100",
                std::to_string(at), "3"));
      add(testing::copy("HtoD (Pinned -> Device)", std::to_string(at + 3), "1", 8, 1000 + number));
      for (int cast = 0; cast < casts && i + 1 < calls; ++cast) launched("cast", at + 4);
    }
  }
  return import_text("{\"traceEvents\": [" + list + "]}").timeline.steps;
}

std::vector<std::pair<std::int64_t, std::int64_t>> microseconds(
    const std::vector<TimelineStep>& steps) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const TimelineStep& one : steps) {
    found.emplace_back(one.start.count / 1'000'000, one.end.count / 1'000'000);
  }
  return found;
}

// DeepSpeed's stage 3 calls its optimizer once for each sub-group.
TEST(FindSteps, CallsOfAnOptimizerWithNoForwardBetweenAreOneStep) {
  using Steps = std::vector<std::pair<std::int64_t, std::int64_t>>;
  const Steps whole = {{0, 88}, {88, 188}, {188, 288}, {288, 388}};
  EXPECT_EQ(microseconds(steps_of(20, 8, 0, false)), whole);
  EXPECT_EQ(microseconds(steps_of(1, 8, 0, false)), whole);
  EXPECT_EQ(microseconds(steps_of(20, 8, 1, false)), whole) << "a cast is no forward";
  // Of the first step only half was recorded.
  EXPECT_EQ(microseconds(steps_of(20, 8, 0, true)), Steps(whole.begin() + 1, whole.end()));
  // Nothing is known of kernels: the longest pauses are where steps are.
  EXPECT_EQ(microseconds(steps_of(0, 8, 0, false)), Steps(whole.begin() + 1, whole.end()));
  EXPECT_EQ(microseconds(steps_of(20, 1, 0, false)),
            (Steps{{0, 53}, {53, 153}, {153, 253}, {253, 353}}));
}

/// Six times forward, backward and two optimizers; before the fourth an evaluation of forwards
/// alone. On the host, or on a GPU whose launches say which of them are a backward's.
std::vector<TimelineStep> steps_with_evaluation(bool on_gpu) {
  std::string list;
  int number = 0;
  int at = 0;  // of what begins next
  const auto add = [&](const std::string& one) { list += (list.empty() ? "" : ",") + one; };
  const auto work = [&](const std::string& operation) {
    add(event("cpu_op", operation, "100", "100", std::to_string(at), "190"));
    if (on_gpu) {
      ++number;
      add(testing::launch("cudaLaunchKernel", std::to_string(at + 1), "1", number));
      add(kernel("gemm", std::to_string(at + 3), "4", number));
    }
    at += 200;
  };
  const auto optimizer = [&](const std::string& name) {
    add(event("user_annotation", "Optimizer.step#" + name + ".step", "100", "100",
              std::to_string(at), "190"));
    at += 200;
  };
  for (int update = 0; update < 6; ++update) {
    for (int i = 0; update == 3 && i < 200; ++i) work("aten::mm");
    work("aten::mm");
    work("autograd::engine::evaluate_function: MmBackward0");
    optimizer("AdamW");
    optimizer("SGD");
  }
  return import_text("{\"traceEvents\": [" + list + "]}").timeline.steps;
}

// An evaluation has a hundred times the kernels of a step, and takes as long; where backwards are
// known it hides no step.
TEST(FindSteps, AnEvaluationIsNoReasonToTakeStepsForOne) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps = {
      {790, 1590}, {1590, 2390}, {2390, 43190}, {43190, 43990}, {43990, 44790}};
  EXPECT_EQ(microseconds(steps_with_evaluation(false)), steps);
  steps.insert(steps.begin(), {1, 790});
  EXPECT_EQ(microseconds(steps_with_evaluation(true)), steps);
}

/// What a host thread does, 200 us each; on a GPU each operation launches a kernel.
class Steps {
 public:
  explicit Steps(bool on_gpu) : on_gpu_(on_gpu) {}

  void work(const std::string& operation, int thread = 100) {
    add(event("cpu_op", operation, "100", std::to_string(thread), std::to_string(at_), "190"));
    if (on_gpu_) {
      ++number_;
      add(testing::launch("cudaLaunchKernel", std::to_string(at_ + 1), "1", number_, thread));
      add(kernel("gemm", std::to_string(at_ + 3), "4", number_));
    }
    at_ += 200;
  }
  void forward() { work("aten::mm"); }
  void backward(int thread = 100) {
    work("autograd::engine::evaluate_function: MmBackward0", thread);
  }
  /// A range over what `inside` does.
  template <class Inside>
  void range(const std::string& name, Inside inside, int thread = 100) {
    around("user_annotation", name, inside, thread);
  }
  /// A backward's operation that calls hooks.
  template <class Inside>
  void backward_around(Inside inside, int thread) {
    around("cpu_op", "autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", inside,
           thread);
  }
  [[nodiscard]] ImportedTrace imported() const {
    return import_text("{\"traceEvents\": [" + list_ + "]}");
  }

 private:
  template <class Inside>
  void around(const std::string& category, const std::string& name, Inside inside, int thread) {
    const int start = at_;
    at_ += 5;
    inside();
    at_ = std::max(at_, start + 100);
    add(event(category, name, "100", std::to_string(thread), std::to_string(start),
              std::to_string(at_ - start)));
    at_ += 5;
  }
  void add(const std::string& one) { list_ += (list_.empty() ? "" : ",") + one; }

  bool on_gpu_;
  std::string list_;
  int at_ = 0;
  int number_ = 0;
};

std::vector<SpanPhase> kernel_phases(const ImportedTrace& trace) {
  std::vector<SpanPhase> phases;
  for (const TimelineSpan& span : trace.timeline.spans) {
    if (kind_of(trace.timeline, span) == SpanKind::kKernel) phases.push_back(span.phase);
  }
  return phases;
}

// Lightning's loops: the optimizer runs forward and backward, between its calls only validations.
TEST(FindSteps, AnOptimizerThatIsGivenAClosureEndsAStep) {
  for (const bool on_gpu : {false, true}) {
    Steps steps(on_gpu);
    for (int step = 0; step < 6; ++step) {
      steps.range("Optimizer.step#AdamW.step", [&] {
        steps.forward();
        steps.backward();
        steps.work("aten::_foreach_add_");
      });
      for (int i = 0; step == 2 && i < 20; ++i) steps.forward();
    }
    const ImportedTrace trace = steps.imported();
    EXPECT_EQ(trace.step_source, StepSource::kOptimizer);
    EXPECT_THAT(trace.timeline.steps, SizeIs(5)) << on_gpu;
    if (!on_gpu) continue;
    const std::vector<SpanPhase> phases = kernel_phases(trace);
    EXPECT_EQ(phases.at(0), SpanPhase::kForward);
    EXPECT_EQ(phases.at(1), SpanPhase::kBackward);
    EXPECT_EQ(phases.at(2), SpanPhase::kOptimizer);
  }
}

// torchtune's optimizer_in_bwd: a hook updates each parameter, in the thread of the backward pass.
TEST(FindSteps, UpdatesWithinABackwardAreOneStep) {
  for (const bool on_gpu : {false, true}) {
    const int thread = on_gpu ? 200 : 100;
    Steps steps(on_gpu);
    for (int step = 0; step < 5; ++step) {
      for (int i = 0; i < 4; ++i) steps.forward();
      for (int parameter = 0; parameter < 6; ++parameter) {
        steps.backward(thread);
        const auto update = [&] { steps.work("aten::add_", thread); };
        steps.backward_around([&] { steps.range("Optimizer.step#SGD.step", update, thread); },
                              thread);
      }
    }
    const ImportedTrace trace = steps.imported();
    EXPECT_THAT(trace.timeline.steps, SizeIs(on_gpu ? 5 : 4)) << on_gpu;
    if (on_gpu) {
      EXPECT_EQ(kernel_phases(trace).at(0), SpanPhase::kForward);
    }
  }
}

// schedule(active=8) of a run that ends after seven steps: the profiler leaves the eighth open.
TEST(FindSteps, AProfilersLastStepWithoutAnUpdateIsNone) {
  const auto steps_of = [](const std::vector<bool>& updates) {
    Steps steps(true);
    for (std::size_t i = 0; i < updates.size(); ++i) {
      steps.range("ProfilerStep#" + std::to_string(i), [&] {
        steps.forward();
        if (!updates[i]) return;
        steps.range("Optimizer.step#AdamW.step", [] {});
      });
    }
    return steps.imported().timeline.steps.size();
  };
  EXPECT_EQ(steps_of({true, true, true, false}), 3U);
  EXPECT_EQ(steps_of({true, true, true}), 3U);
  EXPECT_EQ(steps_of({true, false, true, false}), 4U) << "of micro-batches";
  EXPECT_EQ(steps_of({false, false, false, false}), 4U) << "nothing names the optimizer";
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
