// A recording of the real PyTorch profiler, against what PyTorch's own API said of it
// (tests/data/traces/pytorch_cpu, made by script/interop).
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/import/import_trace.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::filesystem::path kFolder =
    std::filesystem::path(ZENFLOW_SOURCE_DIR) / "tests/data/traces/pytorch_cpu";

struct PytorchTrace : ::testing::Test {
  json said = json::parse(std::ifstream(kFolder / "expected.json"));
  ImportedTrace trace = import_trace(kFolder / "trace.json.gz");
};

double microseconds(Picoseconds time) {
  return static_cast<double>(time.count) * 1e-6;
}

TEST_F(PytorchTrace, HasEveryOperatorAndItsTime) {
  EXPECT_THAT(trace.problems, IsEmpty());
  EXPECT_EQ(trace.events, said["events"]);
  std::uint64_t expected = 0;
  for (const char* list : {"operators", "hidden"}) {
    for (const auto& [name, count] : said[list].items()) expected += count.get<std::uint64_t>();
  }
  const LeftOut* operators = nullptr;
  for (const LeftOut& one : trace.left_out) {
    if (one.what == "cpu_op") operators = &one;
  }
  ASSERT_NE(operators, nullptr);
  EXPECT_EQ(operators->count, expected);
  const double time = said["operators_us"].get<double>() + said["hidden_us"].get<double>();
  // PyTorch's own list counts in doubles: up to a nanosecond each.
  EXPECT_NEAR(microseconds(operators->time), time, 1e-3 * static_cast<double>(expected));
}

/// Annotations and optimizer ranges, in the order in which they began.
TEST_F(PytorchTrace, HasTheRangesAndSteps) {
  EXPECT_EQ(trace.step_source, StepSource::kAnnotation);
  ASSERT_THAT(trace.timeline.spans, SizeIs(said["ranges"].size()));
  std::vector<double> steps;
  for (std::size_t i = 0; i < trace.timeline.spans.size(); ++i) {
    const TimelineSpan& span = trace.timeline.spans[i];
    const double expected = said["ranges"][i]["us"];
    EXPECT_NEAR(microseconds(span.end - span.start), expected, 1.5e-3) << i;
    const std::string name = said["ranges"][i]["name"];
    if (name == "ProfilerStep*") {
      steps.push_back(expected);  // PyTorch takes the number away
    } else {
      EXPECT_EQ(trace.timeline.name_of(span), name);
    }
  }
  ASSERT_THAT(trace.timeline.steps, SizeIs(steps.size()));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const TimelineStep& step = trace.timeline.steps[i];
    EXPECT_EQ(step.number, static_cast<std::int64_t>(i) + 1);
    EXPECT_NEAR(microseconds(step.end - step.start), steps[i], 1.5e-3);
  }
}

TEST_F(PytorchTrace, OfTheCpuSaysNothingOfGpus) {
  const TraceAnalysis analysis = analyze(trace, default_rules());
  EXPECT_THAT(analysis.devices, IsEmpty());
  EXPECT_THAT(analysis.steps, SizeIs(3));
  EXPECT_THAT(analysis.path, IsEmpty());
}

}  // namespace
}  // namespace zenflow::sim
