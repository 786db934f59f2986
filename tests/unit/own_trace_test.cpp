// That what chrome_trace.h writes comes back as it was: simulated runs and measured ones.
#include <chrono>
#include <regex>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "runtime/trace/recorder.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/trace/analysis/trace_report.h"
#include "sim/trace/chrome_trace.h"
#include "sim/trace/import/collector.h"
#include "sim/trace/launches.h"
#include "tests/support/small_jobs.h"
#include "tests/support/traces.h"

namespace zenflow::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using zenflow::testing::import_text;
using zenflow::testing::kernel;

/// Without the rates: a simulated copy may move a fraction of a byte, which the file rounds, and
/// then its rate has another last digit.
std::string without_rates(const std::string& text) {
  static const std::regex kRate(R"_("memory bandwidth \(GB/s\)":[0-9.]*)_");
  return std::regex_replace(text, kRate, "");
}

/// Compares line by line: a difference of whole traces could not be read.
void expect_same_lines(const std::string& found, const std::string& expected) {
  std::istringstream left(found);
  std::istringstream right(expected);
  std::string a;
  std::string b;
  for (int line = 1; std::getline(right, b); ++line) {
    ASSERT_TRUE(std::getline(left, a)) << "ends before line " << line;
    ASSERT_EQ(a, b) << "line " << line;
  }
  EXPECT_FALSE(std::getline(left, a)) << a;
}

void expect_round_trip(const Timeline& timeline) {
  const std::string text = chrome_trace(timeline);
  const ImportedTrace back = import_text(text);
  EXPECT_THAT(back.problems, IsEmpty());
  EXPECT_THAT(back.left_out, IsEmpty());
  expect_same_lines(chrome_trace(back.timeline), text);
}

class SimulatedRoundTrip : public ::testing::TestWithParam<const char*> {};

TEST_P(SimulatedRoundTrip, GivesTheSameBytesAndDependencies) {
  testing::JobOptions options;
  options.gpus = 2;
  options.reduce_bucket_size = 9000;
  options.run = {.warmup_steps = 4, .steps = 8};
  const Job job =
      testing::make_small_job(testing::contended_node(2), testing::tiny_llama(), options);
  const FullRun run = simulate_fully(job, find_schedule(GetParam()));
  const Timeline timeline = simulated_timeline(job, GetParam(), run);
  const ImportedTrace back = import_text(chrome_trace(timeline));
  EXPECT_THAT(back.problems, IsEmpty());
  EXPECT_THAT(back.left_out, IsEmpty());
  expect_same_lines(without_rates(chrome_trace(back.timeline)),
                    without_rates(chrome_trace(timeline)));
  ASSERT_EQ(back.timeline.flows.size(), timeline.flows.size());
  EXPECT_EQ(back.timeline.steps.size(), timeline.steps.size());
  EXPECT_EQ(launch_of_spans(back.timeline).all(), launch_of_spans(timeline).all());
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    ASSERT_EQ(is_gpu_work(kind_of(back.timeline, back.timeline.spans[i])),
              is_gpu_work(kind_of(timeline, timeline.spans[i])))
        << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, SimulatedRoundTrip,
                         ::testing::Values("gpu-only", "zero-offload", "zenflow",
                                           "deepspeed-zenflow"),
                         [](const auto& parameter) {
                           std::string name = parameter.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(OwnTrace, OfTheHostRecorderComesBack) {
  using namespace std::chrono_literals;
  runtime::Recorder recorder(true);
  runtime::TrackRecorder& compute = recorder.add_track("compute", TrackKind::kGpuKernels);
  runtime::TrackRecorder& copies = recorder.add_track("d2h", TrackKind::kGpuCopies);
  runtime::TrackRecorder& waits = recorder.add_track("training thread", TrackKind::kHost);
  const auto at = [&](std::chrono::nanoseconds since) { return recorder.origin() + since; };
  compute.span(Operation::kForward, 0, at(1'000ns), at(5'001ns));
  copies.copy(runtime::CopyDirection::kDeviceToHost, runtime::Traffic::kGradients,
              Operation::kGradientsDown, 0, at(5'001ns), at(9'000ns), 4096);
  compute.wait(WaitCause::kH2D, 0, at(5'100ns), at(6'000ns));
  waits.wait(WaitCause::kD2H, 0, at(5'100ns), at(9'100ns));
  recorder.step(0, at(900ns), at(9'500ns));
  expect_round_trip(recorder.timeline("run", "host device"));
}

// A damaged file: each number is one, no sum of them may leave 64 bits.
TEST(OwnTrace, LeavesOutNumbersThatDoNotFit) {
  Timeline timeline;
  timeline.name = "t";
  timeline.devices = {"GPU"};
  timeline.tracks.push_back({.name = "compute"});
  std::string text = chrome_trace(timeline);
  const std::string row = R"("cat":"kernel","name":"k","pid":0,"tid":1)";
  std::string events;
  for (const char* odd : {R"("ts":9200000000000,"dur":9200000000000)", R"("ts":0,"dur":1e308)",
                          R"("ts":-1e15,"dur":1)", R"("ts":0,"dur":1,"args":{"step":4294967296})",
                          R"("ts":0,"dur":1,"args":{"bytes":9223372036854775807})"}) {
    events += std::string(",\n{\"ph\":\"X\",") + row + "," + odd + "}";
  }
  events +=
      R"(,{"ph":"X","cat":"user_annotation","name":"ProfilerStep#9223372036854775807","pid":0,"tid":0,"ts":0,"dur":1})";
  events += R"(,{"ph":"C","name":"memory","pid":4294967296,"tid":0,"ts":0,"args":{"bytes":1}})";
  text.insert(text.rfind("\n]}"), events);
  const ImportedTrace trace = import_text(text);
  EXPECT_THAT(trace.timeline.spans, IsEmpty());
  EXPECT_THAT(trace.timeline.steps, IsEmpty());
  EXPECT_THAT(trace.timeline.counters, IsEmpty());
  ASSERT_THAT(trace.left_out, ::testing::SizeIs(2));
  EXPECT_EQ(trace.left_out[0].count, 6U);
  EXPECT_EQ(trace.left_out[1].what, TraceCollector::kBeyondSums);
  EXPECT_EQ(trace.left_out[1].count, 1U);
}

// 25 days each, over each other: the sum of five is beyond 64 bits of picoseconds.
TEST(OwnTrace, StepsWhoseTimesCannotBeAddedUpAreLeftOut) {
  Timeline timeline;
  timeline.devices = {"GPU"};
  std::string text = chrome_trace(timeline);
  for (int step = 0; step < 10; ++step) {
    text.insert(text.rfind("\n]}"),
                fmt::format(R"(,{{"ph":"X","cat":"user_annotation","name":"ProfilerStep#{}",)"
                            R"("pid":0,"tid":0,"ts":0,"dur":2160000000000}})",
                            step));
  }
  const ImportedTrace trace = import_text(text);
  EXPECT_THAT(trace.timeline.steps, ::testing::SizeIs(4));
  ASSERT_THAT(trace.left_out, ::testing::SizeIs(1));
  EXPECT_EQ(trace.left_out[0].what, TraceCollector::kBeyondSums);
  EXPECT_EQ(trace.left_out[0].count, 6U);
  EXPECT_EQ(trace.left_out[0].time.count, INT64_MAX);
  EXPECT_TRUE(trace.left_out[0].takes_longer);
  const std::size_t place = text.rfind('{', text.find("ProfilerStep#4"));
  EXPECT_EQ(trace.left_out[0].first, fmt::format("byte {}", place));
  const TraceAnalysis analysis = analyze(trace, default_rules());
  const auto told = nlohmann::json::parse(trace_json(trace, analysis, "t.json"));
  EXPECT_DOUBLE_EQ(told["steps"]["mean_ms"], 2'160'000'000);
  EXPECT_EQ(told["left_out"][0]["takes_longer"], true);
  EXPECT_THAT(trace_text(trace, analysis, "t.json", false),
              HasSubstr("4 steps (by annotation): mean 2160000000.000 ms"));
}

TEST(OwnTrace, SeveralListsOfEventsAreOne) {
  Timeline timeline;
  timeline.devices = {"GPU"};
  timeline.tracks.push_back({.name = "compute"});
  timeline.spans.push_back({.name = timeline.names.intern("a"), .end = {5}});
  std::string text = chrome_trace(timeline);
  const std::size_t last = text.rfind("]}");
  text.insert(last, R"(], "traceEvents": [
{"ph":"M","name":"thread_name","pid":0,"tid":2,"args":{"name":"copies"}},
{"ph":"X","cat":"kernel","name":"b","pid":0,"tid":2,"ts":1,"dur":2,"args":{"device":0,"stream":2}})");
  const ImportedTrace trace = import_text(text);
  EXPECT_THAT(trace.left_out, IsEmpty());
  ASSERT_EQ(trace.timeline.tracks.size(), 2U);
  EXPECT_EQ(trace.timeline.devices.size(), 1U);
  ASSERT_EQ(trace.timeline.spans.size(), 2U);
  EXPECT_EQ(trace.timeline.spans[1].track, 1U);
}

// Scripts that filter a trace may put the header first, and write of it what they need.
TEST(OwnTrace, AProfilersTraceWithTheSameHeaderIsNotOne) {
  const std::string text =
      R"({"schemaVersion":1,"displayTimeUnit":"ms","baseTimeNanoseconds":1712000000000000000,"traceName":"t",
"deviceProperties":[{"id":0,"name":"NVIDIA A100"}],"traceEvents":[
{"ph":"M","name":"process_name","ts":5969123456789.123,"pid":9,"tid":0,"args":{"name":"python"}},
)" + kernel("k", "5969123456789.123", "10.5", 1) +
      "]}";
  const ImportedTrace trace = import_text(text);
  EXPECT_THAT(trace.problems, IsEmpty());
  ASSERT_EQ(trace.timeline.spans.size(), 1U);
  EXPECT_EQ((trace.timeline.spans[0].end - trace.timeline.spans[0].start).count, 10'500'000);
  EXPECT_EQ(trace.timeline.devices, std::vector<std::string>{"NVIDIA A100"});
}

TEST(OwnTrace, KeepsDetailsCountersProcessesAndMetadata) {
  Timeline timeline;
  timeline.name = "all of it \"\\";
  timeline.devices = {"GPU 0", "GPU 1"};
  timeline.tracks = {{"stream 7", TrackKind::kGpuKernels, 1, -1, 7},
                     {"thread 44", TrackKind::kRuntime, 0, 4711, 44},
                     {"overhead", TrackKind::kRuntime, 0, 4711, -1}};
  timeline.processes = {{4711, "python"}};
  timeline.details = {{"kernel", {{"context", "1"}, {"grid", "[1,2,3]"}}},
                      {"cuda_driver", {}},
                      {"overhead", {{"note", "\"x\\ny\""}}}};
  timeline.spans = {{.track = 0,
                     .name = timeline.names.intern("k<float>"),
                     .start = {5},
                     .end = {9},
                     .correlation = 3,
                     .extra = timeline.extras.intern({.detail = 0})},
                    {.track = 1,
                     .name = timeline.names.intern("cuLaunchKernel"),
                     .start = {1},
                     .end = {4},
                     .correlation = 3,
                     .extra = timeline.extras.intern({.detail = 1})},
                    {.track = 2,
                     .name = timeline.names.intern("flush"),
                     .start = {2},
                     .end = {3},
                     .extra = timeline.extras.intern({.detail = 2})},
                    {.track = 0,
                     .name = timeline.names.intern("Memset (Device)"),
                     .start = {10},
                     .end = {12},
                     .extra = timeline.extras.intern(
                         {.bytes = 64, .stalled = {1}, .cause = WaitCause::kD2H, .step = 4}),
                     .kind = SpanKind::kMemset}};
  timeline.flows = {{1, 0, FlowKind::kLaunch}};
  timeline.counters = {{"memory",
                        0,
                        {"weights", "activations"},
                        {{Picoseconds{1}, {1.5, 2}}, {Picoseconds{7}, {0, 1e300}}}}};
  timeline.steps = {{4, {0}, {20}}};
  timeline.metadata = {{"zenflow_recording", R"({"complete":true})"}};
  timeline.origin_nanoseconds = 123'456'789'012;
  expect_round_trip(timeline);
}

}  // namespace
}  // namespace zenflow::sim
