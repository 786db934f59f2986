// What a trace shows, on pictures small enough to count by hand. Times in microseconds.
#include "sim/trace/analysis/trace_analysis.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/trace/analysis/trace_report.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using testing::copy;
using testing::event;
using ::testing::HasSubstr;
using testing::import_text;
using ::testing::IsEmpty;
using testing::kernel;
using testing::launch;
using ::testing::SizeIs;
using testing::trace_of;

TraceAnalysis analysis_of(const std::string& text) {
  return analyze(import_text(text), default_rules());
}

std::int64_t us(Picoseconds time) {
  EXPECT_EQ(time.count % 1'000'000, 0) << "whole microseconds were expected";
  return time.count / 1'000'000;
}

std::map<std::string, std::int64_t> stall_of(const DeviceAnalysis& device) {
  std::map<std::string, std::int64_t> found;
  for (std::size_t i = 0; i < kTraceCauses; ++i) {
    if (device.stall[i].count > 0) {
      found[std::string(name_of(static_cast<WaitCause>(i)))] = us(device.stall[i]);
    }
  }
  return found;
}

std::map<std::string, std::int64_t> path_of(const TraceAnalysis& analysis) {
  std::map<std::string, std::int64_t> path;
  for (const PathPart& part : analysis.path) path[part.what] += us(part.time);
  return path;
}

std::int64_t device_stall(const TraceAnalysis& analysis, WaitCause cause) {
  return analysis.devices.at(0).stall.at(static_cast<std::size_t>(cause)).count;
}

//   stream 7  |a 0-10 |            |b 40-50 |        |c 70-80|
//   stream 8       |h2d 5-----------35|
//   stream 9                                |nccl 50-60|
//   thread                    |launch b 36-38|     |launch c 62-65|
TEST(TraceAnalysis, EveryMomentWithoutComputeHasOneCause) {
  const TraceAnalysis analysis = analysis_of(trace_of(
      launch("cudaLaunchKernel", "-5", "2", 1), kernel("a", "0", "10", 1),
      launch("cudaMemcpyAsync", "2", "1", 2), copy("HtoD (Pinned -> Device)", "5", "30", 3000, 2),
      launch("cudaLaunchKernel", "36", "2", 3), kernel("b", "40", "10", 3),
      kernel("ncclDevKernel_AllReduce", "50", "10", 4, 9), launch("cudaLaunchKernel", "62", "3", 5),
      kernel("c", "70", "10", 5)));
  const DeviceAnalysis& device = analysis.devices.at(0);
  EXPECT_EQ(us(device.span()), 80);
  EXPECT_EQ(us(device.compute), 30);
  EXPECT_EQ(us(device.kernel), 40);
  EXPECT_EQ(us(device.collective), 10);
  EXPECT_EQ(us(device.copy), 30);
  EXPECT_EQ(us(device.busy), 65);
  // 10-35 the copy; 35-38 the host; 38-40 unexplained; 50-60 the collective; 60-65 the host; 65-70.
  EXPECT_EQ(stall_of(device), (std::map<std::string, std::int64_t>{
                                  {"h2d", 25}, {"launch", 8}, {"collective", 10}, {"other", 7}}));
  const CopyStatistics& copies = device.copy_statistics.at(0);
  EXPECT_EQ(copies.bytes, 3000);
  EXPECT_EQ(us(copies.united), 30);
  EXPECT_EQ(us(copies.hidden), 5);
}

TEST(TraceAnalysis, OfSeveralThingsUnderWayTheOneThatEndsLastIsTheCause) {
  const TraceAnalysis analysis = analysis_of(
      trace_of(kernel("a", "0", "10", 1), copy("HtoD (Pinned -> Device)", "10", "20", 8, 2, 8),
               copy("DtoH (Device -> Pinned)", "15", "25", 8, 3, 9), kernel("b", "40", "10", 4)));
  EXPECT_EQ(stall_of(analysis.devices.at(0)),
            (std::map<std::string, std::int64_t>{{"h2d", 5}, {"d2h", 25}}));
}

TEST(TraceAnalysis, TheHostsOptimizerIsACause) {
  const TraceAnalysis analysis = analysis_of(trace_of(
      kernel("a", "0", "10", 1),
      event("user_annotation", "Optimizer.step#DeepSpeedCPUAdam.step", "100", "100", "12", "20"),
      kernel("b", "40", "10", 4)));
  EXPECT_EQ(stall_of(analysis.devices.at(0)),
            (std::map<std::string, std::int64_t>{{"cpu_update", 20}, {"not_recorded", 10}}));
}

/// A step of FSDP with its parameters on the CPU: gradients come down, `optimizer` runs from 40 to
/// 90, weights go up.
TraceAnalysis offloaded_step(const std::string& optimizer, const std::string& within) {
  return analysis_of(trace_of(
      event("user_annotation", "ProfilerStep#1", "100", "100", "0", "110"),
      launch("cudaLaunchKernel", "0", "2", 1), kernel("gemm", "5", "20", 1),
      launch("cudaMemcpyAsync", "3", "1", 2), copy("DtoH (Device -> Pinned)", "25", "10", 8, 2, 7),
      event("cuda_runtime", "cudaStreamSynchronize", "100", "100", "5", "31",
            R"("correlation": 3)"),
      event("user_annotation", optimizer, "100", "100", "40", "50"), within,
      launch("cudaMemcpyAsync", "92", "1", 4), copy("HtoD (Pinned -> Device)", "94", "6", 8, 4, 7),
      launch("cudaLaunchKernel", "95", "1", 5), kernel("gemm", "100", "10", 5)));
}

TEST(TraceAnalysis, AnOptimizerThatLaunchesNothingIsTheHosts) {
  for (const char* name : {"Optimizer.step#AdamW.step", "Optimizer.step#DeepSpeedCPUAdam.step",
                           "optimizer_step", "HybridDeviceOptimizer.step"}) {
    const TraceAnalysis analysis = offloaded_step(name, "{}");
    EXPECT_EQ(stall_of(analysis.devices.at(0)).at("cpu_update"), 50) << name;
    EXPECT_EQ(path_of(analysis).at("cpu_update"), 50) << name;
  }
  // One that launches runs on the GPU, though between its calls nothing may happen there.
  const std::string inside =
      launch("cudaLaunchKernel", "50", "2", 9) + "," + kernel("adamw", "53", "10", 9);
  const TraceAnalysis on_gpu = offloaded_step("Optimizer.step#AdamW.step", inside);
  EXPECT_EQ(path_of(on_gpu).count("cpu_update"), 0U);
  EXPECT_EQ(stall_of(on_gpu.devices.at(0)).count("cpu_update"), 0U);
  // A hybrid one launches, but what it calls for the part that is offloaded does not.
  const TraceAnalysis hybrid = offloaded_step(
      "Optimizer.step#HybridDeviceOptimizer.step",
      inside + "," +
          event("user_annotation", "Optimizer.step#AdamW.step", "100", "100", "65", "20"));
  EXPECT_EQ(path_of(hybrid).at("cpu_update"), 20);
}

// Copying its weights back, or one kernel, makes no GPU optimizer of 50 ms of computing.
TEST(TraceAnalysis, AnOptimizerThatLaunchesLittleIsTheHosts) {
  const auto cpu_update = [](int calls, int apart) {
    std::string list =
        event("user_annotation", "ProfilerStep#1", "100", "100", "0", "60000") + "," +
        launch("cudaLaunchKernel", "0", "2", 1) + "," + kernel("gemm", "5", "20", 1) + "," +
        event("user_annotation", "Optimizer.step#AdamW.step", "100", "100", "5000", "50000") + "," +
        launch("cudaLaunchKernel", "59000", "2", 2) + "," + kernel("gemm", "59010", "20", 2);
    for (int i = 0; i < calls; ++i) {
      const int at = 10000 + i * apart;
      list += "," + launch("cudaMemcpyAsync", std::to_string(at), "1", 10 + i) + "," +
              copy("HtoD (Pinned -> Device)", std::to_string(at + 2), "1", 8, 10 + i, 7);
    }
    return stall_of(analysis_of(trace_of(list)).devices.at(0))["cpu_update"];
  };
  EXPECT_EQ(cpu_update(0, 0), 50'000);
  EXPECT_EQ(cpu_update(1, 0), 50'000) << "its copy runs beside the update";
  EXPECT_NEAR(static_cast<double>(cpu_update(5, 9'000)), 50'000, 10);
  EXPECT_EQ(cpu_update(50, 800), 0) << "who launches all the time computes on the GPU";
}

// Without calls nobody knows what an optimizer launched.
TEST(TraceAnalysis, AnOptimizerWhoseCallsAreNotRecordedMayBeTheGpus) {
  const TraceAnalysis analysis = analysis_of(
      trace_of(kernel("gemm", "0", "10", 1),
               event("user_annotation", "Optimizer.step#AdamW.step", "100", "100", "12", "20"),
               kernel("adamw", "40", "10", 2)));
  EXPECT_EQ(stall_of(analysis.devices.at(0)).count("cpu_update"), 0U);
}

//   stream 7  |a 0-10|  |b 20-30||c 30-35|  |d 50-60|        |e 95-100|
//   launched    before    at 15    at 16      at 18             at 19
// HTA compares gaps with 30 in a trace's own unit, microseconds.
TEST(TraceAnalysis, CountsIdleStreamsAsHtaDoes) {
  const TraceAnalysis analysis = analysis_of(
      trace_of(launch("cudaLaunchKernel", "-9", "1", 1), kernel("a", "0", "10", 1),
               launch("cudaLaunchKernel", "15", "1", 2), kernel("b", "20", "10", 2),
               launch("cudaLaunchKernel", "16", "1", 3), kernel("c", "30.020", "4.98", 3),
               launch("cudaLaunchKernel", "18", "1", 4), kernel("d", "50", "10", 4),
               launch("cudaLaunchKernel", "19", "1", 5), kernel("e", "95", "5", 5)));
  const StreamIdle& stream = analysis.devices.at(0).streams.at(0);
  EXPECT_EQ(us(stream.host_wait), 10);
  EXPECT_EQ(stream.kernel_wait.count, 15'020'000);  // 30-30.02, 35-50
  EXPECT_EQ(us(stream.other), 35);
  EXPECT_EQ(stream.busy.count, 39'980'000);
}

//   stream 7  |a 0-10|     |b 20-35|       |c 60-70|
//   stream 8         |h2d 12---25|    |d2h 40-50|
TEST(TraceAnalysis, OfAPartOnlyWorkThatBeginsInItCounts) {
  const ImportedTrace trace = import_text(
      trace_of(kernel("a", "0", "10", 1), copy("HtoD (Pinned -> Device)", "12", "13", 100, 2),
               kernel("b", "20", "15", 3), copy("DtoH (Device -> Pinned)", "40", "10", 10, 4),
               kernel("c", "60", "10", 5)));
  const TraceAnalysis analysis = analyze_part(trace, default_rules(), {{12'000'000}, {40'000'000}});
  const DeviceAnalysis& device = analysis.devices.at(0);
  EXPECT_EQ(us(device.start), 12);
  EXPECT_EQ(us(device.end), 35);
  EXPECT_EQ(device.kernels, 1U);
  ASSERT_THAT(device.copy_statistics, SizeIs(1));
  EXPECT_EQ(us(device.copy_statistics[0].hidden), 5);
  EXPECT_EQ(stall_of(device), (std::map<std::string, std::int64_t>{{"h2d", 8}}));
  EXPECT_THAT(analysis.path, IsEmpty());
}

// Kernels and copies of any overlap on four streams, against sets of single nanoseconds.
TEST(TraceAnalysis, WhatIsHiddenAgreesWithSetsOfPoints) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 100; ++round) {
    std::set<std::uint64_t> computing;
    std::set<std::uint64_t> communicating;
    std::map<std::string, std::set<std::uint64_t>> copying;
    std::string list;
    for (int i = 0; i < 12; ++i) {
      const std::uint64_t start = random() % 60;
      const std::uint64_t length = random() % 9;
      const auto at = [](std::uint64_t nanoseconds) { return fmt::format("0.{:03}", nanoseconds); };
      const int stream = static_cast<int>(random() % 4);
      std::set<std::uint64_t>* points = &computing;
      std::string one = kernel("k", at(start), at(length), i, stream);
      if (random() % 4 == 0) {
        points = &communicating;
        one = kernel("ncclDevKernel_AllGather", at(start), at(length), i, stream);
      } else if (random() % 2 == 0) {
        const std::string direction = random() % 2 == 0 ? "HtoD" : "DtoH";
        points = &copying[direction];
        one = copy(direction, at(start), at(length), 8, i, stream);
      }
      for (std::uint64_t t = start; t < start + length; ++t) points->insert(t);
      list += (list.empty() ? "" : ",") + one;
    }
    const auto without = [&](const std::set<std::uint64_t>& points) {
      return std::count_if(points.begin(), points.end(),
                           [&](std::uint64_t t) { return !computing.contains(t); });
    };
    const TraceAnalysis analysis = analysis_of("{\"traceEvents\": [" + list + "]}");
    const DeviceAnalysis& device = analysis.devices.at(0);
    constexpr std::int64_t kNanosecond = 1000;
    EXPECT_EQ(device.compute.count, kNanosecond * std::ssize(computing));
    EXPECT_EQ(device.collective.count, kNanosecond * std::ssize(communicating));
    EXPECT_EQ(device.collective_exposed.count, kNanosecond * without(communicating));
    ASSERT_EQ(device.copy_statistics.size(), copying.size());
    for (const CopyStatistics& one : device.copy_statistics) {
      const std::set<std::uint64_t>& points = copying[to_string(one.kind.direction)];
      EXPECT_EQ(one.united.count, kNanosecond * std::ssize(points));
      EXPECT_EQ((one.united - one.hidden).count, kNanosecond * without(points)) << list;
    }
  }
}

// If two kernels end the gap, the one that was launched first says how late the host was.
TEST(TraceAnalysis, KernelsMayStartTogether) {
  const TraceAnalysis analysis =
      analysis_of(trace_of(kernel("a", "0", "10", 1), launch("cudaLaunchKernel", "30", "8", 2),
                           launch("cudaLaunchKernel", "20", "5", 3, 101),
                           kernel("b", "40", "10", 2, 7), kernel("c", "40", "5", 3, 8),
                           kernel("empty", "40", "0", 4, 9), kernel("last", "60", "0", 5)));
  EXPECT_EQ(stall_of(analysis.devices.at(0)),
            (std::map<std::string, std::int64_t>{
                {"launch", 15}, {"not_recorded", 10}, {"other", 15}}));  // "last" has no launch
}

// Traces in whole microseconds have many: what the GPU waited for before one ended with it.
TEST(TraceAnalysis, AKernelOfNoLengthEndsAGap) {
  const TraceAnalysis analysis =
      analysis_of(trace_of(kernel("a", "0", "10", 1), launch("cudaLaunchKernel", "10", "4", 2),
                           kernel("short", "20", "0", 2), launch("cudaLaunchKernel", "25", "2", 3),
                           kernel("b", "30", "10", 3)));
  EXPECT_EQ(stall_of(analysis.devices.at(0)),
            (std::map<std::string, std::int64_t>{{"launch", 4 + 7}, {"other", 6 + 3}}));
}

TEST(TraceAnalysis, StepsSayHowBusyTheGpuWasInThem) {
  const TraceAnalysis analysis =
      analysis_of(trace_of(event("user_annotation", "ProfilerStep#7", "100", "100", "0", "40"),
                           event("user_annotation", "ProfilerStep#8", "100", "100", "40", "60"),
                           kernel("a", "10", "10", 1), kernel("b", "35", "15", 2)));
  ASSERT_THAT(analysis.steps, SizeIs(2));
  EXPECT_EQ(us(analysis.steps[0].busy.at(0)), 15);
  EXPECT_EQ(us(analysis.steps[1].busy.at(0)), 10);
  EXPECT_EQ(analysis.steps[1].number, 8);
}

//   step 1  |0--------40|        step 2  |38-------100|   of two devices
//   d2h 30-50 of device 0, h2d 39-41 of device 1, h2d 40-42 of device 0, d2h 100-101
std::string steps_of(const std::vector<int>& lengths) {
  std::string list;
  int at = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    list +=
        (i == 0 ? "" : ",") + event("user_annotation", "ProfilerStep#" + std::to_string(i), "100",
                                    "100", std::to_string(at), std::to_string(lengths[i]));
    at += lengths[i];
  }
  return list;
}

// The first allocates; the third evaluates, the fourth saves. Recomputing is called checkpointing.
TEST(TraceAnalysis, TellsStepsApartThatAreNotLikeTheOthers) {
  const std::string ranges =
      event("user_annotation", "evaluate", "100", "100", "500", "20") + "," +
      event("user_annotation", "save_checkpoint", "100", "100", "700", "20") + "," +
      event("user_annotation", "CheckpointFunction", "100", "100", "810", "20");
  const ImportedTrace trace = import_text(
      trace_of(steps_of({300, 100, 200, 150, 100, 110}), ranges, kernel("a", "310", "5", 1)));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  std::vector<std::string> apart;
  for (const StepAnalysis& step : analysis.steps) apart.push_back(step.apart);
  EXPECT_THAT(apart, ::testing::ElementsAre("the first", "", "evaluation", "saving", "", ""));
  const auto json = nlohmann::json::parse(trace_json(trace, analysis, "t"))["steps"];
  EXPECT_EQ(json["usual"]["count"], 3);
  EXPECT_NEAR(json["usual"]["mean_ms"].get<double>(), 0.31 / 3, 1e-12);
  EXPECT_NEAR(json["mean_ms"].get<double>(), 0.16, 1e-12) << "of all";
  EXPECT_THAT(trace_text(trace, analysis, "t", false),
              HasSubstr("mean of 3 steps: 0.103 ms, without step 0 (the first, 0.300 ms), step 2 "
                        "(evaluation, 0.200 ms), step 3 (saving, 0.150 ms)"));
}

/// Steps of 1000 us, each of so many products in forward and so many in backward.
TraceAnalysis analysis_of_products(const std::vector<std::pair<int, int>>& steps) {
  std::string list = steps_of(std::vector<int>(steps.size(), 1000));
  int number = 0;
  const auto product = [&](const std::string& operation, std::size_t step, int at) {
    const std::string start = std::to_string(1000 * static_cast<int>(step) + at);
    ++number;
    list += "," + event("cpu_op", operation, "100", "100", start, "5") + "," +
            launch("cudaLaunchKernel", start + ".5", "2", number) + "," +
            kernel("ampere_sgemm_128x64_tn", start + ".9", "4", number);
  };
  for (std::size_t step = 0; step < steps.size(); ++step) {
    for (int i = 0; i < steps[step].first; ++i) product("aten::mm", step, 6 * i);
    for (int i = 0; i < steps[step].second; ++i) {
      product("autograd::engine::evaluate_function: MmBackward0", step, 500 + 6 * i);
    }
  }
  return analysis_of(trace_of(list));
}

// Who evaluates seldom names a range after it; a larger batch has more of both passes, and what
// else a step computes is no product.
TEST(TraceAnalysis, ForwardsWithoutBackwardAreAnEvaluation) {
  const auto apart = [](const std::vector<std::pair<int, int>>& steps) {
    std::vector<std::string> found;
    for (const StepAnalysis& step : analysis_of_products(steps).steps) {
      found.push_back(step.apart);
    }
    return found;
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(apart({{10, 20}, {15, 20}, {10, 20}, {10, 20}}),
              ElementsAre("", "evaluation", "", ""));
  EXPECT_THAT(apart({{10, 20}, {20, 40}, {10, 20}, {10, 20}}), ElementsAre("", "", "", ""));
  EXPECT_THAT(apart({{10, 0}, {15, 0}, {10, 0}, {10, 0}}), ElementsAre("", "", "", ""))
      << "inference";
}

std::vector<std::string> apart_of(const TraceAnalysis& analysis) {
  std::vector<std::string> found;
  for (const StepAnalysis& step : analysis.steps) found.push_back(step.apart);
  return found;
}

// Before its queue is full a host that waits for nothing launches steps faster than they run.
TEST(TraceAnalysis, StepsInWhichTheHostRunsAheadAreNotLikeTheOthers) {
  const std::string ahead = "the host ran ahead of the GPU";
  const auto apart = [](const std::vector<int>& lengths, const std::string& work) {
    return apart_of(analysis_of(trace_of(steps_of(lengths), work)));
  };
  using ::testing::ElementsAre;
  const std::string work = launch("cudaLaunchKernel", "1", "2", 1) + "," + kernel("a", "5", "5", 1);
  EXPECT_THAT(apart({35, 72, 96, 96, 96}, work), ElementsAre(ahead, ahead, "", "", ""));
  EXPECT_THAT(apart({90, 96, 96, 96, 96}, work), ElementsAre("", "", "", "", ""));
  EXPECT_THAT(apart({96, 35, 96, 96, 96}, work), ElementsAre("", "", "", "", ""))
      << "not the first";
  EXPECT_THAT(apart({35, 72, 96, 96, 96}, "{}"), ElementsAre("", "", "", "", "")) << "no GPU";
}

// Nothing waits: what the second step evaluates runs in the third.
TEST(TraceAnalysis, AnEvaluationIsInTheStepInWhichItRuns) {
  const auto apart = [](int third) {
    return apart_of(analysis_of(
        trace_of(steps_of({100, 100, third, 100, 100, 100}),
                 event("user_annotation", "evaluate", "100", "100", "150", "20"),
                 launch("cudaLaunchKernel", "160", "2", 1), kernel("a", "190", "150", 1))));
  };
  using ::testing::ElementsAre;
  EXPECT_THAT(apart(250), ElementsAre("", "evaluation", "evaluation", "", "", ""));
  EXPECT_THAT(apart(100), ElementsAre("", "evaluation", "", "", "", ""));
}

// A GPU that waits for a loop's next batch waits for a launch; no graph and no fusion helps.
TEST(TraceAnalysis, SaysThatALoopWaitedForItsData) {
  const auto text_of = [](const char* name) {
    const ImportedTrace trace =
        import_text(trace_of(launch("cudaLaunchKernel", "1", "2", 1), kernel("a", "5", "20", 1),
                             event("user_annotation", name, "100", "100", "10", "60"),
                             launch("cudaLaunchKernel", "80", "2", 2), kernel("a", "84", "20", 2)));
    return trace_text(trace, analyze(trace, default_rules()), "t", false);
  };
  EXPECT_THAT(text_of("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
              HasSubstr("the loop was 0.060 ms in enumerate(DataLoader)"));
  EXPECT_THAT(text_of("something else"), ::testing::Not(HasSubstr("DataLoader")));
}

// A range of every step, whatever it is called.
TEST(TraceAnalysis, WhatEveryStepHasTellsNoneApart) {
  std::string ranges;
  for (int i = 0; i < 4; ++i) {
    ranges += (i == 0 ? "" : ",") + event("user_annotation", "validate_gradients", "100", "100",
                                          std::to_string(100 * i + 10), "20");
  }
  EXPECT_THAT(apart_of(analysis_of(trace_of(steps_of({100, 100, 100, 100}), ranges))),
              ::testing::Each(""));
}

// A first step takes longer because it evaluates; of the others the second does as well.
TEST(TraceAnalysis, AFirstStepThatEvaluatesIsNotApartForBeingFirst) {
  const std::string ranges = event("user_annotation", "evaluate", "100", "100", "50", "20") + "," +
                             event("user_annotation", "evaluate", "100", "100", "350", "20");
  const TraceAnalysis analysis =
      analysis_of(trace_of(steps_of({300, 300, 100, 100}), ranges, kernel("a", "310", "5", 1)));
  EXPECT_EQ(analysis.steps[0].apart, "evaluation");
  EXPECT_EQ(usual_mean(analysis.steps).milliseconds, 0.1);
  EXPECT_EQ(usual_interval(analysis.steps).milliseconds, 0.1) << "the last has no end";
  EXPECT_EQ(usual_interval(analysis.steps).steps, 1U);
}

// Who profiles a loop over batches calls each of them a step.
TEST(TraceAnalysis, SaysInHowManyStepsAnOptimizerUpdates) {
  const auto of = [](const std::vector<int>& updates) {
    std::string list = steps_of({100, 100, 100, 100});
    for (const int at : updates) {
      list += "," + event("user_annotation", "Optimizer.step#AdamW.step", "100", "100",
                          std::to_string(at), "10");
    }
    // Its copy on the GPU, which comes later.
    list += "," + event("gpu_user_annotation", "Optimizer.step#AdamW.step", "0", "7", "210", "5");
    return import_text(trace_of(list, kernel("a", "310", "5", 1)));
  };
  const auto text = [](const ImportedTrace& trace) {
    return trace_text(trace, analyze(trace, default_rules()), "t", false);
  };
  EXPECT_EQ(analyze(of({180, 380}), default_rules()).steps_with_updates, 2U);
  EXPECT_EQ(analyze(of({180, 185}), default_rules()).steps_with_updates, 1U);
  EXPECT_THAT(text(of({180, 380})),
              HasSubstr("an optimizer updates in 2 of them: one step of a batch may be several"));
  EXPECT_THAT(text(of({80, 180, 280, 380})), ::testing::Not(HasSubstr("an optimizer updates")));
  EXPECT_THAT(text(of({})), ::testing::Not(HasSubstr("an optimizer updates")));
}

TEST(TraceAnalysis, AsksOfRepetitionsWhetherTheyAreSteps) {
  std::string list;
  for (int i = 0; i < 12; ++i) {
    list +=
        (i == 0 ? "" : ",") + kernel(i % 3 == 0 ? "gemm" : "norm", std::to_string(10 * i), "8", i);
  }
  const ImportedTrace trace = import_text(trace_of(list));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  EXPECT_THAT(trace_text(trace, analysis, "t", false),
              HasSubstr("3 repetitions (repetitions: steps or layers?"));
  EXPECT_EQ(nlohmann::json::parse(trace_json(trace, analysis, "t"))["steps"]["question"],
            "repetitions: steps or layers?");
}

TEST(TraceAnalysis, StepsSayWhatBeganToBeCopiedInThem) {
  const ImportedTrace trace =
      import_text(trace_of(event("user_annotation", "ProfilerStep#1", "100", "100", "0", "40"),
                           event("user_annotation", "ProfilerStep#2", "100", "100", "38", "62"),
                           copy("DtoH (Device -> Pinned)", "30", "20", 1, 1),
                           copy("HtoD (Pinned -> Device)", "39", "2", 2, 2, 8, 1),
                           copy("HtoD (Pinned -> Device)", "40", "2", 4, 3, 9),
                           copy("DtoH (Device -> Pinned)", "100", "1", 8, 4)));
  const auto json =
      nlohmann::json::parse(trace_json(trace, analyze(trace, default_rules()), "t.json"));
  const auto& each = json["steps"]["each"];
  EXPECT_EQ(each[0]["bytes_by_direction"], (nlohmann::json{{"DtoH", 1}, {"HtoD", 2}}));
  EXPECT_EQ(each[1]["bytes_by_direction"], (nlohmann::json{{"HtoD", 6}}));
  EXPECT_EQ(json["bytes_by_direction"], (nlohmann::json{{"DtoH", 9}, {"HtoD", 6}}));
}

TEST(TraceAnalysis, RangesAddUpByName) {
  const ImportedTrace trace =
      import_text(trace_of(event("user_annotation", "short", "1", "1", "0", "3"),
                           event("user_annotation", "long", "1", "1", "5", "4"),
                           event("user_annotation", "short", "2", "2", "1", "2.5"),
                           event("gpu_user_annotation", "long", "0", "7", "6", "90")));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  ASSERT_THAT(analysis.ranges, SizeIs(2));
  EXPECT_EQ(analysis.ranges[0].name, "short");
  EXPECT_EQ(analysis.ranges[0].spans, 2U);
  EXPECT_EQ(analysis.ranges[0].time.count, 5'500'000);
  EXPECT_EQ(us(analysis.ranges[1].time), 4) << "its projection onto the GPU is not counted again";
  const TraceAnalysis projected = analysis_of(trace_of(
      event("gpu_user_annotation", "long", "0", "7", "6", "90"), kernel("k", "6", "1", 1)));
  EXPECT_EQ(us(projected.ranges.at(0).time), 90);
}

// The host launches a, waits for it, works, and launches b; c follows b on another stream after a
// gap.
TEST(TraceAnalysis, ThePathGoesBackThroughLaunchesAndWaits) {
  const TraceAnalysis analysis =
      analysis_of(trace_of(event("user_annotation", "ProfilerStep#1", "100", "100", "0", "100"),
                           launch("cudaLaunchKernel", "0", "5", 1), kernel("a", "7", "20", 1),
                           event("cuda_runtime", "cudaStreamSynchronize", "100", "100", "6", "22",
                                 R"("correlation": 9)"),
                           launch("cudaLaunchKernel", "50", "5", 2), kernel("b", "58", "42", 2)));
  std::map<std::string, std::int64_t> path;
  std::int64_t total = 0;
  for (const PathPart& part : analysis.path) {
    path[part.what] = us(part.time);
    total += us(part.time);
  }
  // b 58-100; 55-58 the launch; 28-55 and 27-28 the host; a 7-27; 5-7 its launch; 0-5 the host.
  EXPECT_EQ(path, (std::map<std::string, std::int64_t>{
                      {"compute forward", 62}, {"launch", 5}, {"host", 33}}));
  EXPECT_EQ(total, us(analysis.path_length));
}

constexpr const char* kStep = "ProfilerStep#1";

/// `.item()` of a sum: a kernel of 100 us, a copy of its result, which ends at 106 us.
TraceAnalysis item_of(const std::string& memory, const std::string& call, const std::string& takes,
                      const std::string& wait_at, const std::string& waits) {
  return analysis_of(trace_of(
      event("user_annotation", kStep, "100", "100", "0", "150"),
      launch("cudaLaunchKernel", "0", "2", 1), kernel("sum", "3", "100", 1),
      launch(call, "4", takes, 2), copy("DtoH (Device -> " + memory + ")", "104", "2", 4, 2, 7),
      event("cuda_runtime", "cudaStreamSynchronize", "100", "100", wait_at, waits,
            R"("correlation": 3)"),
      launch("cudaLaunchKernel", "130", "2", 4), kernel("next", "133", "17", 4)));
}

// How long the call took that asked for the copy, and who waited, make no difference.
TEST(TraceAnalysis, ACopyOfPageableMemoryWaitsAsASynchronizationDoes) {
  const TraceAnalysis waits = item_of("Pageable", "cudaMemcpyAsync", "2", "7", "101");
  const TraceAnalysis blocks = item_of("Pageable", "cudaMemcpyAsync", "104", "108", "0");
  EXPECT_EQ(path_of(waits), path_of(blocks));
  // next 133-150; its launch; the host 106-132; the copy 104-106; a gap; the sum; its launch.
  EXPECT_EQ(
      path_of(blocks),
      (std::map<std::string, std::int64_t>{
          {"compute forward", 117}, {"d2h", 2}, {"host", 28}, {"launch", 2}, {"undetermined", 1}}));
  EXPECT_EQ(path_of(item_of("Pinned", "cudaMemcpy", "104", "108", "0")), path_of(blocks));
}

// A call that is asynchronous and lasts, as the first of a kind does, has waited for nothing.
TEST(TraceAnalysis, AnAsynchronousCopyOfPinnedMemoryWaitsForNothing) {
  EXPECT_EQ(path_of(item_of("Pinned", "cudaMemcpyAsync", "104", "108", "0"))["host"], 132);
}

// The first copy to the device waits until the stream is there; the second is staged, and its call
// returns before.
TEST(TraceAnalysis, ACopyFromPageableMemoryWaitsOnlyAsTimesSay) {
  const auto path = [](const std::string& takes) {
    return path_of(analysis_of(
        trace_of(event("user_annotation", kStep, "100", "100", "0", "200"),
                 launch("cudaLaunchKernel", "0", "2", 1), kernel("a", "3", "97", 1),
                 launch("cudaMemcpyAsync", "4", takes, 2),
                 copy("HtoD (Pageable -> Device)", "100", "10", 4, 2, 7),
                 launch("cudaLaunchKernel", "150", "2", 3), kernel("b", "155", "45", 3))));
  };
  EXPECT_EQ(path("100"), (std::map<std::string, std::int64_t>{
                             {"compute forward", 142}, {"h2d", 4}, {"host", 50}, {"launch", 4}}));
  EXPECT_EQ(path("5")["host"], 152);
}

/// Two threads of a process: the second runs a backward pass, of which the first knows nothing.
std::string backward_op(const std::string& ts, const std::string& dur) {
  return event("cpu_op", "autograd::engine::evaluate_function: MmBackward0", "100", "200", ts, dur);
}

//   thread 100  |launch a 0-2|sync 3------102|                  |sync 130-170|
//   thread 200                                |op 118-124|
//   stream 7       |a 5--100|                     |b 125-165|
TEST(TraceAnalysis, AThreadThatOnlyLaunchesGoesOnWhereAnotherEnded) {
  const TraceAnalysis analysis =
      analysis_of(trace_of(event("user_annotation", kStep, "100", "100", "0", "170"),
                           launch("cudaLaunchKernel", "0", "2", 1), kernel("a", "5", "95", 1),
                           event("cuda_runtime", "cudaStreamSynchronize", "100", "100", "3", "99",
                                 R"("correlation": 2)"),
                           backward_op("118", "6"), launch("cudaLaunchKernel", "120", "3", 3, 200),
                           kernel("b", "125", "40", 3),
                           event("cuda_runtime", "cudaStreamSynchronize", "100", "100", "130", "40",
                                 R"("correlation": 4)")));
  // b 125-165 and a 5-100; host: 165-170, 102-123, 100-102, 0-2; launches 2 + 3.
  EXPECT_EQ(path_of(analysis),
            (std::map<std::string, std::int64_t>{
                {"compute backward", 40}, {"compute forward", 95}, {"host", 30}, {"launch", 5}}));
}

// Nobody waits in the trace, and the GPU is busy: the thread waited for it, or for who waited.
TEST(TraceAnalysis, WhileTheGpuIsBusyAThreadThatOnlyLaunchesWaitsForIt) {
  const auto events = [](const std::string& more) {
    return trace_of(event("user_annotation", kStep, "100", "100", "0", "170"),
                    launch("cudaLaunchKernel", "0", "2", 1), kernel("a", "5", "95", 1), more,
                    backward_op("118", "6"), launch("cudaLaunchKernel", "120", "3", 3, 200),
                    kernel("b", "125", "45", 3));
  };
  EXPECT_EQ(path_of(analysis_of(events("{}"))),
            (std::map<std::string, std::int64_t>{{"compute backward", 45},
                                                 {"compute forward", 95},
                                                 {"host", 7},
                                                 {"launch", 5},
                                                 {"undetermined", 18}}));
  // What the main thread is known to have run is the host's.
  const std::string loss = event("cpu_op", "aten::nll_loss", "100", "100", "100", "18");
  EXPECT_EQ(path_of(analysis_of(events(loss)))["host"], 25);
}

// A backward pass whose launches are late: the GPU works and waits by turns, the thread never
// stops.
TEST(TraceAnalysis, AThreadThatNeverPausesDecidesThoughTheGpuIsBusy) {
  std::string events = trace_of(event("user_annotation", kStep, "100", "100", "0", "100"),
                                launch("cudaLaunchKernel", "0", "2", 1), kernel("a", "3", "4", 1),
                                backward_op("10", "90"));
  std::string more;
  for (int i = 1; i < 9; ++i) {
    more += "," + launch("cudaLaunchKernel", std::to_string(10 * i), "2", 10 + i, 200) + "," +
            kernel("b", std::to_string(10 * i + 3), "5", 10 + i);
  }
  events.insert(events.find("\n  ],"), more);
  const auto path = path_of(analysis_of(events));
  // b 83-88, 82-83 its launch, and the thread since 10; 7-10 nobody is known to have run.
  EXPECT_EQ(path.at("host"), 86);
  EXPECT_EQ(path.at("compute backward"), 5);
}

// It paused for 2 ms, in which nobody called anything; the GPU was busy for half of them.
TEST(TraceAnalysis, ALongPauseOfAThreadThatOnlyLaunchesIsNotItsOwn) {
  const TraceAnalysis analysis = analysis_of(
      trace_of(event("user_annotation", kStep, "100", "100", "0", "2100"),
               launch("cudaLaunchKernel", "0", "2", 1), kernel("a", "5", "15", 1),
               backward_op("18", "6"), launch("cudaLaunchKernel", "20", "3", 2, 200),
               kernel("b", "25", "1000", 2), backward_op("2040", "6"),
               launch("cudaLaunchKernel", "2045", "3", 3, 200), kernel("c", "2050", "50", 3)));
  const auto path = path_of(analysis);
  EXPECT_EQ(path.at("compute backward"), 1050);
  EXPECT_EQ(path.at("undetermined"), 1015);
}

// Kernels and copies alone, as with --low-overhead: whether the host was late, nobody can say.
TEST(TraceAnalysis, ATraceWithoutTheHostDoesNotBlameIt) {
  const std::string text = trace_of(
      event("user_annotation", "ProfilerStep#1", "100", "100", "0", "100"),
      kernel("a", "10", "20", 1), kernel("b", "30.020", "9.98", 2), kernel("c", "60", "20", 3));
  const ImportedTrace trace = import_text(text);
  const TraceAnalysis analysis = analyze(trace, default_rules());
  std::map<std::string, std::int64_t> path;
  for (const PathPart& part : analysis.path) path[part.what] += part.time.count;
  EXPECT_EQ(path.count("host"), 0U);
  // 80-100 and 0-10.
  EXPECT_EQ(path["not_recorded"], 30'000'000);
  const StreamIdle& stream = analysis.devices.at(0).streams.at(0);
  EXPECT_EQ(stream.host_wait.count, 0);
  EXPECT_EQ(stream.other.count, 0);
  EXPECT_EQ(us(stream.not_recorded), 20);  // 40-60
  EXPECT_EQ(stream.kernel_wait.count, 20'000);
  EXPECT_EQ(device_stall(analysis, WaitCause::kNotRecorded), 20'020'000);
  EXPECT_EQ(device_stall(analysis, WaitCause::kOther), 0);
  EXPECT_EQ(device_stall(analysis, WaitCause::kLaunch), 0);
  const auto json = nlohmann::json::parse(trace_json(trace, analysis, "t.json"));
  EXPECT_EQ(json["devices"][0]["idle_by_stream"][0]["not_recorded_ms"], 0.02);
  EXPECT_THAT(trace_text(trace, analysis, "t.json", false), HasSubstr("not recorded"));
}

/// A product of 512 x 1024 x 256 in bf16, of 1 us, launched at `ts`, whose sums take half of one.
std::string product(int ts, int correlation) {
  const std::string at = std::to_string(ts);
  return event("cpu_op", "aten::mm", "100", "100", at, "5",
               R"("Input Dims": [[512, 256], [256, 1024]],)"
               R"("Input type": ["c10::BFloat16", "c10::BFloat16"])") +
         "," + launch("cudaLaunchKernel", at + ".5", "1", correlation) + "," +
         launch("cudaLaunchKernel", at + ".9", "1", correlation + 1) + "," +
         kernel("sm80_gemm", std::to_string(ts + 5), "1", correlation) + "," +
         kernel("splitKreduce_kernel", std::to_string(ts + 7), "0.5", correlation + 1);
}

std::string reduction(const std::string& kind, int ts, int elements, int ranks) {
  return event("kernel", "ncclDevKernel_" + kind + "_Sum_bf16_RING_LL", "0", "9",
               std::to_string(ts), "10",
               fmt::format(R"("device": 0, "stream": 9, "In msg nelems": {}, "dtype": "BFloat16",)"
                           R"("Group size": {})",
                           elements, ranks));
}

TEST(TraceAnalysis, SaysWhatTookLongestAndHowWell) {
  const ImportedTrace trace = import_text(trace_of(
      steps_of({100, 120, 110}), product(0, 1), product(100, 3), product(220, 5),
      kernel("relu", "40", "4", 7), event("cpu_op", "aten::linear", "100", "100", "300", "9"),
      reduction("AllReduce", 50, 500'000, 4), reduction("AllReduce", 70, 500'000, 4),
      reduction("AllGather", 150, 500'000, 4)));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  const auto json = nlohmann::json::parse(trace_json(trace, analysis, "t"));
  EXPECT_EQ(json["top_kernels"][0]["name"], "ncclDevKernel_AllReduce_Sum_bf16_RING_LL");
  EXPECT_EQ(json["top_kernels"][0]["count"], 2);
  EXPECT_EQ(json["top_kernels"][0]["time_ms"], 0.02);
  EXPECT_EQ(json["top_operators"][0]["name"], "aten::mm");
  EXPECT_EQ(json["top_operators"][0]["time_ms"], 0.015);
  EXPECT_EQ(json["top_operators"][1]["name"], "aten::linear");
  ASSERT_THAT(json["products_by_shape"], SizeIs(1));
  const auto& product = json["products_by_shape"][0];
  EXPECT_EQ(product["count"], 3) << "what adds up parts is of the same product";
  EXPECT_EQ(product["time_ms"], 0.0045);
  EXPECT_NEAR(product["tflops"].get<double>(), 2.0 * 512 * 1024 * 256 / 1.5e-6 / 1e12, 1e-9);
  ASSERT_THAT(json["collectives_by_size"], SizeIs(2));
  // 1 MB in 10 us, of which each link carries 2 x 3/4; 4 MB gathered in 10 us, 3/4 of it.
  EXPECT_EQ(json["collectives_by_size"][0]["kind"], "all_reduce");
  EXPECT_EQ(json["collectives_by_size"][0]["bytes"], 1e6);
  EXPECT_NEAR(json["collectives_by_size"][0]["bus_gb_per_s"].get<double>(), 150, 1e-9);
  EXPECT_EQ(json["collectives_by_size"][1]["bytes"], 4e6);
  EXPECT_NEAR(json["collectives_by_size"][1]["bus_gb_per_s"].get<double>(), 300, 1e-9);
  EXPECT_NEAR(json["step_variation"]["standard_deviation_ms"].get<double>(), 0.01, 1e-12);
  EXPECT_EQ(json["step_variation"]["median_ms"], 0.11);
  const std::string text = trace_text(trace, analysis, "t", false);
  for (const char* part :
       {"kernels, longest in all", "operators of the host", "512 x 1024 x 256 c10::BFloat16",
        "bus GB/s", "150.0", "All steps vary by 9.1 %", "median 0.110 ms"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

// Of sixty-four GPUs one table, and one GPU in full.
TEST(TraceAnalysis, ManyDevicesAreOneTable) {
  std::string list;
  for (int device = 0; device < 64; ++device) {
    list += (device == 0 ? "" : ",") +
            kernel("gemm", "0", std::to_string(100 + device), 2 * device, 7, device) + "," +
            kernel("ncclDevKernel_AllReduce", std::to_string(100 + device),
                   std::to_string(100 - device), 2 * device + 1, 9, device);
  }
  const ImportedTrace trace = import_text(trace_of(list));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  const std::string text = trace_text(trace, analysis, "t", false);
  EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 100);
  EXPECT_THAT(text, HasSubstr("52 devices between these are in --json"));
  EXPECT_EQ(nlohmann::json::parse(trace_json(trace, analysis, "t"))["devices"].size(), 64U);
}

TEST(TraceAnalysis, ReportsAsJsonAndText) {
  const ImportedTrace trace = import_text(trace_of(
      event("user_annotation", "ProfilerStep#1", "100", "100", "0", "100"),
      kernel("a\xC3\xA9", "7", "20.5", 1), copy("DtoH (Device -> Pageable)", "30", "2", 16'000, 2),
      event("cpu_op", "aten::mm", "100", "100", "1", "2")));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  const auto json = nlohmann::json::parse(trace_json(trace, analysis, "t.json"));
  EXPECT_EQ(json["devices"][0]["kernel_ms"], 0.0205);
  EXPECT_EQ(json["devices"][0]["copies_by_kind"][0]["bandwidth_gb_per_s"], 8.0);
  EXPECT_EQ(json["bytes_by_direction"]["DtoH"], 16'000);
  EXPECT_EQ(json["steps"]["mean_ms"], 0.1);
  EXPECT_EQ(json["left_out"][0]["what"], "cpu_op");
  EXPECT_EQ(json["left_out"][0]["time_ms"], 0.002);
  const std::string text = trace_text(trace, analysis, "t.json", false);
  for (const char* part : {"1 step (by annotation): mean 0.100 ms", "DtoH Device -> Pageable",
                           "8.00", "without a phase, longest", "cpu_op", "idle as HTA counts it"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

TEST(TraceAnalysis, SaysThatThereIsNoGpuWork) {
  const ImportedTrace trace =
      import_text(trace_of(event("user_annotation", "ProfilerStep#1", "1", "1", "0", "5")));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  EXPECT_THAT(analysis.devices, IsEmpty());
  EXPECT_THAT(trace_text(trace, analysis, "t", false), HasSubstr("No GPU work in this trace"));
}

}  // namespace
}  // namespace zenflow::sim
