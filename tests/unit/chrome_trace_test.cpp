// That a trace says what ran when, to the picosecond, in the fields that viewers read.
#include "sim/trace/chrome_trace.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/simulate/simulated_timeline.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;
using testing::contended_node;
using ::testing::HasSubstr;
using testing::JobOptions;
using testing::make_small_job;

/// Six decimals of microseconds are exact in a double up to 2^53 picoseconds, 2.5 hours.
std::int64_t picoseconds(const json& microseconds) {
  return std::llround(microseconds.get<double>() * 1e6);
}

std::vector<json> events(const json& trace, const std::string& phase,
                         const std::string& category = "") {
  std::vector<json> found;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != phase) continue;
    if (!category.empty() && event.value("cat", "") != category) continue;
    found.push_back(event);
  }
  return found;
}

TEST(ChromeTrace, WritesIntegerPicosecondsWithoutRounding) {
  Timeline timeline;
  timeline.name = "t";
  timeline.devices = {"GPU 0"};
  timeline.tracks = {{"compute", TrackKind::kGpuKernels, 0}};
  timeline.spans = {{.track = 0,
                     .name = timeline.names.intern("an hour"),
                     .start = Picoseconds{7},
                     .end = Picoseconds{3'600'000'000'000'001},
                     .extra = timeline.extras.intern({.step = 0})}};
  const std::string text = chrome_trace(timeline);
  EXPECT_THAT(text, HasSubstr("\"ts\":0.000007,\"dur\":3599999999.999994"));
  EXPECT_TRUE(json::accept(text));
}

TEST(ChromeTrace, EscapesNames) {
  Timeline timeline;
  timeline.name = "say \"hi\"\n\\";
  timeline.devices = {"\t\"GPU\""};
  timeline.tracks = {{"a\"b", TrackKind::kHost, 0}};
  timeline.spans = {{.track = 0,
                     .name = timeline.names.intern("\\x\""),
                     .start = {},
                     .end = Picoseconds{1},
                     .extra = timeline.extras.intern({.step = 0})}};
  const json trace = json::parse(chrome_trace(timeline));
  EXPECT_EQ(trace["traceName"], "say \"hi\"\n\\");
  EXPECT_EQ(events(trace, "X", "cpu_op").at(0)["name"], "\\x\"");
}

TEST(ChromeTrace, OfNothingIsStillATrace) {
  const json trace = json::parse(chrome_trace(Timeline{}));
  EXPECT_EQ(trace["schemaVersion"], 1);
  EXPECT_TRUE(trace["traceEvents"].is_array());
}

class SimulatedTrace : public ::testing::TestWithParam<std::tuple<const char*, int>> {
 protected:
  SimulatedTrace() {
    JobOptions options;
    options.gpus = std::get<1>(GetParam());
    options.reduce_bucket_size = 9000;
    options.run = {.warmup_steps = 4, .steps = 8};
    HardwareProfile hardware = contended_node(options.gpus);
    if (options.gpus == 3) hardware.host_link.switches[0].gpus = {0, 1};
    job_ = make_small_job(std::move(hardware), testing::tiny_llama(), options);
    const std::string schedule = std::get<0>(GetParam());
    run_ = std::make_unique<FullRun>(simulate_fully(job_, find_schedule(schedule)));
    timeline_ = simulated_timeline(job_, schedule, *run_);
    trace_ = json::parse(chrome_trace(timeline_));
  }
  [[nodiscard]] std::vector<json> slices() const {
    std::vector<json> found;
    for (const json& event : events(trace_, "X")) {
      const bool task = event["cat"] != "user_annotation" && event["cat"] != "cuda_runtime";
      if (task) found.push_back(event);
    }
    return found;
  }

  Job job_;
  std::unique_ptr<FullRun> run_;
  Timeline timeline_;
  json trace_;
};

// HTA drops GPU work whose launch it does not find.
TEST_P(SimulatedTrace, HasALaunchBeforeEveryPieceOfGpuWork) {
  std::map<std::int64_t, std::int64_t> launched;
  for (const json& launch : events(trace_, "X", "cuda_runtime")) {
    EXPECT_FALSE(launch["args"].contains("stream"));
    const std::int64_t correlation = launch["args"]["correlation"];
    EXPECT_TRUE(launched.emplace(correlation, picoseconds(launch["ts"])).second);
  }
  std::size_t gpu_work = 0;
  for (const json& slice : slices()) {
    if (slice["cat"] == "cpu_op") continue;
    ++gpu_work;
    EXPECT_TRUE(launched.contains(slice["args"]["correlation"].get<std::int64_t>()));
  }
  EXPECT_EQ(launched.size(), gpu_work);
}

TEST_P(SimulatedTrace, HasASliceForEveryTaskAtItsTime) {
  const std::vector<json> found = slices();
  const auto& spans = run_->execution.spans;
  ASSERT_EQ(found.size(), spans.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(picoseconds(found[i]["ts"]), spans[i].start.count) << i;
    ASSERT_EQ(picoseconds(found[i]["dur"]), (spans[i].end - spans[i].start).count) << i;
    EXPECT_EQ(found[i]["args"]["step"], run_->program.labels[i].step);
  }
}

TEST_P(SimulatedTrace, NamesCopiesAsCuptiDoesAndCountsTheirBytes) {
  std::map<std::string, double> bytes;
  std::map<std::string, double> expected;
  for (const json& copy : events(trace_, "X", "gpu_memcpy")) {
    bytes[copy["name"]] += copy["args"]["bytes"].get<double>();
    EXPECT_TRUE(copy["args"].contains("stream"));
    EXPECT_TRUE(copy["args"].contains("device"));
    EXPECT_TRUE(copy["args"].contains("correlation"));
    EXPECT_TRUE(copy["args"].contains("memory bandwidth (GB/s)"));
  }
  std::size_t copies = 0;
  for (const TaskLabel& label : run_->program.labels) {
    if (label.operation != Operation::kD2H && label.operation != Operation::kH2D) continue;
    ++copies;
    expected[label.operation == Operation::kD2H ? "Memcpy DtoH (Device -> Pinned)"
                                                : "Memcpy HtoD (Pinned -> Device)"] += label.bytes;
  }
  ASSERT_EQ(bytes.size(), expected.size());
  for (const auto& [name, total] : expected) {
    // Each copy's bytes are rounded to a whole number.
    EXPECT_NEAR(bytes[name], total, 0.5 * static_cast<double>(copies)) << name;
  }
}

TEST_P(SimulatedTrace, FlowsBeginInOneSliceAndEndInAnotherLane) {
  std::set<std::tuple<int, int, std::int64_t>> starts;
  for (const json& slice : slices()) {
    starts.insert({slice["pid"].get<int>(), slice["tid"].get<int>(), picoseconds(slice["ts"])});
  }
  std::map<int, json> open;
  for (const json& begin : events(trace_, "s")) {
    EXPECT_TRUE(open.emplace(begin["id"].get<int>(), begin).second) << "an id twice";
  }
  const std::vector<json> ends = events(trace_, "f");
  EXPECT_EQ(ends.size(), open.size());
  for (const json& end : ends) {
    ASSERT_TRUE(open.contains(end["id"].get<int>()));
    const json& begin = open[end["id"].get<int>()];
    EXPECT_EQ(end["bp"], "e");
    EXPECT_EQ(end["cat"], begin["cat"]);
    EXPECT_EQ(end["name"], begin["name"]);
    for (const json& side : {begin, end}) {
      EXPECT_TRUE(starts.contains(
          {side["pid"].get<int>(), side["tid"].get<int>(), picoseconds(side["ts"])}))
          << side;
    }
    EXPECT_NE(std::tuple(begin["pid"], begin["tid"]), std::tuple(end["pid"], end["tid"]));
    EXPECT_LE(picoseconds(begin["ts"]), picoseconds(end["ts"]));
  }
}

TEST_P(SimulatedTrace, NamesProcessesAndThreads) {
  std::set<std::pair<int, int>> named;
  std::set<int> processes;
  for (const json& event : events(trace_, "M")) {
    if (event["name"] == "thread_name") {
      EXPECT_TRUE(named.insert({event["pid"].get<int>(), event["tid"].get<int>()}).second);
    }
    if (event["name"] == "process_name") processes.insert(event["pid"].get<int>());
  }
  for (const json& slice : slices()) {
    EXPECT_TRUE(named.contains({slice["pid"].get<int>(), slice["tid"].get<int>()}));
    EXPECT_TRUE(processes.contains(slice["pid"].get<int>()));
  }
  EXPECT_EQ(trace_["deviceProperties"].size(), run_->program.classes.size());
}

TEST_P(SimulatedTrace, HasCountersOfMemoryAndOfTheLinkThatIsUsed) {
  std::map<std::string, std::int64_t> latest;
  for (const json& event : events(trace_, "C")) {
    const std::string name = event["name"];
    const std::int64_t time = picoseconds(event["ts"]);
    if (latest.contains(name)) {
      EXPECT_GT(time, latest[name]) << name << " has two values at a time";
    }
    latest[name] = time;
    EXPECT_FALSE(event["args"].empty());
    for (const auto& [series, value] : event["args"].items()) {
      EXPECT_GE(value.get<double>(), 0.0) << name << " " << series;
    }
  }
  EXPECT_TRUE(latest.contains("GPU memory (bytes)"));
  const bool copies = std::string(std::get<0>(GetParam())) != "gpu-only";
  EXPECT_EQ(latest.contains("host memory (bytes)"), copies) << "gpu-only holds nothing there";
  EXPECT_EQ(latest.contains("PCIe D2H (GB/s)"), copies);
  EXPECT_EQ(latest.contains("PCIe H2D (GB/s)"), copies);
}

TEST_P(SimulatedTrace, MarksStepsThatFollowEachOther) {
  const std::vector<json> steps = events(trace_, "X", "user_annotation");
  ASSERT_EQ(steps.size() + 1, run_->program.step_markers.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i]["name"], "ProfilerStep#" + std::to_string(i));
    if (i == 0) continue;
    EXPECT_EQ(picoseconds(steps[i]["ts"]),
              picoseconds(steps[i - 1]["ts"]) + picoseconds(steps[i - 1]["dur"]));
  }
}

TEST_P(SimulatedTrace, SaysHowLongAndForWhatTheGpuWaited) {
  double waited = 0;
  double expected = 0;
  for (const json& slice : slices()) {
    if (!slice["args"].contains("stalled_us")) continue;
    waited += static_cast<double>(picoseconds(slice["args"]["stalled_us"]));
    EXPECT_FALSE(slice["args"]["cause"].get<std::string>().empty());
  }
  for (const TaskWait& wait : compute_waits(run_->program, run_->execution)) {
    expected += static_cast<double>(wait.time.count);
  }
  EXPECT_EQ(waited, expected);
}

INSTANTIATE_TEST_SUITE_P(Schedules, SimulatedTrace,
                         ::testing::Combine(::testing::Values("gpu-only", "zero-offload",
                                                              "zero-offload-dpu", "zero-infinity",
                                                              "zenflow"),
                                            ::testing::Values(1, 3)),
                         [](const auto& parameters) {
                           std::string name = std::get<0>(parameters.param);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name + "_" + std::to_string(std::get<1>(parameters.param));
                         });

TEST(TaskName, SaysPageableIfMemoryIsNotPinned) {
  JobOptions options;
  options.pin_memory = false;
  const Job job = make_small_job(contended_node(1), testing::tiny_llama(), options);
  EXPECT_EQ(task_name(job, {Operation::kD2H, 0, 0, 1, true}), "Memcpy DtoH (Device -> Pageable)");
  EXPECT_EQ(task_name(job, {Operation::kH2D, 0, 0, 1, true}), "Memcpy HtoD (Pageable -> Device)");
  EXPECT_EQ(task_name(job, {Operation::kForward, 0, 0, 0}), "forward embedding");
  EXPECT_EQ(task_name(job, {Operation::kBackward, 0, 2, 0}), "backward block 1");
  EXPECT_EQ(task_name(job, {Operation::kForward, 0, 3, 0}), "forward head");
}

}  // namespace
}  // namespace zenflow::sim
