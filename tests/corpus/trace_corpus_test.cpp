// Public traces that nobody here wrote, against what another program computed from them.
//
// ZENFLOW_TRACE_CORPUS names a folder with the files and a groundtruth.jsonl: one object a file,
// its times in exact nanoseconds.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_report.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;

constexpr double kNanosecond = 1e-6;  // of a millisecond

const char* corpus_folder() {
  return std::getenv("ZENFLOW_TRACE_CORPUS");
}

/// "_us" fields of JSON traces, "_ns" fields of databases, in milliseconds.
double milliseconds(const json& truth, const std::string& field) {
  if (truth.contains(field + "_us")) return truth[field + "_us"].get<double>() / 1e3;
  return truth.at(field + "_ns").get<double>() / 1e6;
}

class TraceCorpus : public ::testing::Test {
 protected:
  void SetUp() override {
    if (corpus_folder() == nullptr) {
      GTEST_SKIP() << "ZENFLOW_TRACE_CORPUS is not set: no folder of public traces to compare with";
    }
    std::ifstream file(std::filesystem::path(corpus_folder()) / "groundtruth.jsonl");
    ASSERT_TRUE(file) << "no groundtruth.jsonl in ZENFLOW_TRACE_CORPUS";
    for (std::string line; std::getline(file, line);) {
      if (!line.empty()) truths_.push_back(json::parse(line));
    }
    ASSERT_FALSE(truths_.empty());
  }

  static json analysis_of(const json& truth) {
    const auto path = std::filesystem::path(corpus_folder()) / truth["file"].get<std::string>();
    const ImportedTrace trace = import_trace(path);
    return json::parse(trace_json(trace, analyze(trace, default_rules()), path.string()));
  }

  std::vector<json> truths_;
};

/// Kernels that communicate and are none of NCCL's, among those that took longest.
std::int64_t collectives_of_others(const json& found) {
  std::int64_t count = 0;
  for (const json& kernel : found["top_kernels"]) {
    const std::string name = kernel["name"];
    const bool is_of_nccl = name.find("nccl") != std::string::npos;
    if (!is_of_nccl && is_collective(name)) count += kernel["count"].get<std::int64_t>();
  }
  return count;
}

/// `others`: collectives that the truth, which knows NCCL's alone, takes for computing.
void compare_device(const json& found, const json& truth, std::int64_t others) {
  EXPECT_EQ(found["kernels"], truth["n_kernels"]);
  EXPECT_NEAR(found["kernel_sum_ms"], milliseconds(truth, "kernel_sum"), kNanosecond / 2);
  EXPECT_NEAR(found["kernel_ms"], milliseconds(truth, "kernel_union"), kNanosecond / 2);
  EXPECT_NEAR(found["copy_ms"], milliseconds(truth, "memcpy_union"), kNanosecond / 2);
  EXPECT_NEAR(found["busy_ms"], milliseconds(truth, "busy_union"), kNanosecond / 2);
  const bool is_json = truth.contains("idle_frac_over_gpu_span");
  // Six decimals are written there.
  EXPECT_NEAR(found["idle_share"],
              truth[is_json ? "idle_frac_over_gpu_span" : "idle_frac_over_span"].get<double>(),
              6e-7);
  if (!is_json) {
    EXPECT_NEAR(found["span_ms"], milliseconds(truth, "gpu_span"), kNanosecond / 2);
    return;
  }
  EXPECT_EQ(found["copies"], truth["n_memcpy"]);
  EXPECT_EQ(found["memsets"], truth["n_memset"]);
  EXPECT_EQ(found["collective_kernels"].get<std::int64_t>(),
            truth["n_nccl_kernels"].get<std::int64_t>() + others);
  if (others > 0) {
    EXPECT_LT(found["compute_ms"].get<double>(), milliseconds(truth, "compute_kernel_union"));
    EXPECT_GT(found["collective_ms"].get<double>(), milliseconds(truth, "nccl_union"));
    EXPECT_NEAR(found["compute_ms"].get<double>() + found["collective_exposed_ms"].get<double>(),
                milliseconds(truth, "kernel_union"), kNanosecond);
    return;
  }
  EXPECT_NEAR(found["compute_ms"], milliseconds(truth, "compute_kernel_union"), kNanosecond / 2);
  EXPECT_NEAR(found["collective_ms"], milliseconds(truth, "nccl_union"), kNanosecond / 2);
  EXPECT_NEAR(found["collective_exposed_ms"], milliseconds(truth, "nccl_exposed"), kNanosecond / 2);
}

void compare_bytes(const json& found, const json& truth) {
  json expected = json::object();
  if (truth.contains("memcpy_bytes_by_direction")) {
    expected = truth["memcpy_bytes_by_direction"];
  } else {
    for (const auto& [direction, copies] : truth["memcpy_by_direction"].items()) {
      expected[direction] = copies["bytes"];
    }
  }
  EXPECT_EQ(found["bytes_by_direction"], expected);
  std::int64_t without = 0;
  for (const json& device : found["devices"]) {
    for (const json& copies : device["copies_by_kind"]) {
      without += copies["copies_without_bytes"].get<std::int64_t>();
    }
  }
  std::int64_t expected_without = 0;
  for (const auto& [kind, copies] : truth["memcpy"].items()) {
    expected_without += copies.value("n_without_bytes", std::int64_t{0});
  }
  EXPECT_EQ(without, expected_without);
}

void compare_steps(const json& found, const json& truth) {
  if (truth.value("n_steps", 0) == 0) {
    EXPECT_NE(found["steps"]["source"], "annotation") << "no step is annotated in this file";
    return;
  }
  const json& steps = found["steps"];
  EXPECT_EQ(steps["count"], truth["n_steps"]);
  // Three decimals of a microsecond's mean are written there.
  EXPECT_NEAR(steps["mean_ms"], milliseconds(truth, "mean_step_dur"), 0.6 * kNanosecond);
  if (truth.contains("mean_start_to_start_us")) {
    EXPECT_NEAR(steps["mean_interval_ms"], milliseconds(truth, "mean_start_to_start"),
                0.6 * kNanosecond);
  }
  if (truth.contains("mean_idle_frac_busy_over_steps")) {
    // A mean, with six decimals, of numbers with six decimals: half a unit for each rounding.
    EXPECT_NEAR(steps["mean_idle_share"], truth["mean_idle_frac_busy_over_steps"].get<double>(),
                1.01e-6);
  }
  ASSERT_EQ(steps["each"].size(), truth["steps"].size());
  for (std::size_t i = 0; i < truth["steps"].size(); ++i) {
    const json& expected = truth["steps"][i];
    const json& step = steps["each"][i];
    EXPECT_NEAR(step["duration_ms"], milliseconds(expected, "dur"), kNanosecond / 2) << i;
    for (const char* direction : {"HtoD", "DtoH"}) {
      EXPECT_EQ(step["bytes_by_direction"].value(direction, std::int64_t{0}),
                expected[std::string(direction) + "_bytes"])
          << i;
    }
    for (std::size_t d = 0; d < found["devices"].size(); ++d) {
      const json& on = expected["dev" + found["devices"][d]["device"].dump()];
      EXPECT_NEAR(step["busy_ms"][d], milliseconds(on, "busy"), kNanosecond / 2) << i;
      EXPECT_NEAR(step["kernel_ms"][d], milliseconds(on, "kernel"), kNanosecond / 2) << i;
      EXPECT_NEAR(step["idle_share"][d], on["idle_frac_busy"].get<double>(), 6e-7) << i;
    }
  }
}

/// Annotations by name, as far as the truth counts them.
void compare_ranges(const json& found, const json& truth) {
  const bool is_json = truth.contains("optimizer_step_annotations");
  const json& expected = is_json ? truth["optimizer_step_annotations"]
                                 : truth.value("nvtx_by_text_top", json::object());
  for (const auto& [name, range] : expected.items()) {
    const auto same = std::find_if(found["ranges"].begin(), found["ranges"].end(),
                                   [&name = name](const json& one) { return one["name"] == name; });
    // If there are thousands of names, only the longest ranges are listed.
    if (same == found["ranges"].end() && found["ranges"].size() == 50) continue;
    ASSERT_NE(same, found["ranges"].end()) << name;
    EXPECT_EQ((*same)["count"], range["n"]) << name;
    EXPECT_NEAR((*same)["time_ms"], milliseconds(range, "sum"), kNanosecond / 2) << name;
  }
}

TEST_F(TraceCorpus, ProfilesSayWhatTheyHold) {
  int compared = 0;
  for (const json& truth : truths_) {
    if (!truth.contains("devices")) continue;
    SCOPED_TRACE(truth["file"].get<std::string>());
    const json found = analysis_of(truth);
    ASSERT_EQ(found["devices"].size(), truth["devices"].size());
    const std::int64_t others = collectives_of_others(found);
    ASSERT_TRUE(others == 0 || found["devices"].size() == 1) << "of which device they are";
    for (const json& device : found["devices"]) {
      SCOPED_TRACE("device " + device["device"].dump());
      ASSERT_TRUE(truth["devices"].contains(device["device"].dump()));
      compare_device(device, truth["devices"][device["device"].dump()], others);
    }
    compare_bytes(found, truth);
    compare_steps(found, truth);
    compare_ranges(found, truth);
    EXPECT_EQ(found["events"], truth.value("n_events", found["events"].get<std::int64_t>()));
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

TEST_F(TraceCorpus, TimerLogsGiveTheirMeans) {
  int compared = 0;
  // A mean with three decimals; sums of values with two decimals, added up in another order.
  constexpr double kRounded = 6e-4;
  for (const json& truth : truths_) {
    if (!truth.contains("keys")) continue;
    SCOPED_TRACE(truth["file"].get<std::string>());
    const json found = analysis_of(truth)["timers"];
    EXPECT_EQ(found["records"], truth["time_ms_records"]);
    EXPECT_EQ(found["timers"].size(), truth["keys"].size());
    for (const auto& [name, expected] : truth["keys"].items()) {
      ASSERT_TRUE(found["timers"].contains(name)) << name;
      const json& timer = found["timers"][name];
      EXPECT_EQ(timer["count"], expected["n"]) << name;
      EXPECT_EQ(timer["first_ms"], expected["first"]) << name;
      EXPECT_EQ(timer["last_ms"], expected["last"]) << name;
      EXPECT_NEAR(timer["sum_ms"], expected["sum"].get<double>(),
                  1e-6 * expected["sum"].get<double>())
          << name;
      EXPECT_NEAR(timer["mean_ms"], expected["mean"].get<double>(), kRounded) << name;
    }
    const auto mean_of = [&](const char* key) { return truth["keys"][key]["mean"].get<double>(); };
    if (truth["keys"].contains("fwd")) {
      EXPECT_NEAR(found["forward_ms"], mean_of("fwd"), kRounded);
      EXPECT_NEAR(found["backward_ms"], mean_of("bwd"), kRounded);
      EXPECT_NEAR(found["optimizer_ms"], mean_of("step"), kRounded);
    }
    if (truth.contains("elapsed_time_per_iteration_ms") &&
        truth["elapsed_time_per_iteration_ms"].value("n", 0) > 0) {
      EXPECT_NEAR(found["step_ms"], truth["elapsed_time_per_iteration_ms"]["mean"].get<double>(),
                  kRounded);
    }
    ++compared;
  }
  EXPECT_GT(compared, 0);
}

}  // namespace
}  // namespace zenflow::sim
