// That a result has every key of schema version 1 with its type.
#include "sim/report/result_json.h"

#include <map>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using nlohmann::json;
using testing::contended_node;
using testing::JobOptions;
using testing::make_small_job;

json document(const JobOptions& options = {}) {
  const Job job = make_small_job(contended_node(4), testing::tiny_llama(), options);
  std::vector<SimulationResult> results;
  for (const auto& schedule : schedules()) {
    results.push_back(simulate_schedule(testing::suited_to(*schedule, job), *schedule));
  }
  return json::parse(result_json(job, results, "9.9.9"));
}

const json& result_of(const json& document, const std::string& schedule) {
  for (const json& one : document.at("results")) {
    if (one.at("schedule") == schedule) return one;
  }
  throw std::runtime_error("no result of " + schedule);
}

JobOptions four_gpus() {
  JobOptions options;
  options.gpus = 4;
  return options;
}

TEST(ResultJson, NamesToolModelAndMachine) {
  const json found = document(four_gpus());
  EXPECT_EQ(found["schema_version"], 1);
  EXPECT_EQ(found["tool"], "zenflow-sim");
  EXPECT_EQ(found["version"], "9.9.9");
  EXPECT_EQ(found["scenario"], "small");
  EXPECT_EQ(found["model"],
            (json{{"name", "tiny_llama"}, {"parameters", 34976}, {"bytes", 69952}}));
  EXPECT_EQ(found["hardware"], (json{{"name", "contended"}, {"gpus", 4}}));
  EXPECT_EQ(found["results"].size(), schedules().size());
}

// A launcher counts 4 micro steps as one, and the file has a key that is not modelled.
TEST(ResultJson, HasBothTimesAndNamesWhatIsNotModelled) {
  JobOptions options = four_gpus();
  options.with_zenflow = false;
  options.accumulation = 4;
  Job job = make_small_job(contended_node(4), testing::tiny_llama(), options);
  job.deepspeed.not_modelled = {"communication_data_type"};
  job.assumptions = {"one"};
  const SimulationResult result = simulate_schedule(job, find_schedule("deepspeed-zero-offload"));
  const json found = json::parse(result_json(job, {result}, "9.9.9"));
  EXPECT_EQ(found["not_modelled"], json{"communication_data_type"});
  EXPECT_EQ(found["assumptions"], json{"one"});
  const json& one = found["results"][0];
  EXPECT_EQ(one["gradient_accumulation_steps"], 4);
  EXPECT_NEAR(one["optimizer_step_time_ms"].get<double>(),
              4 * one["micro_step_time_ms"].get<double>(), 1e-8);
  EXPECT_FALSE(document(four_gpus())["results"][0].contains("optimizer_step_time_ms"));
}

TEST(ResultJson, HasEveryKeyWithItsType) {
  const json found = document(four_gpus());
  for (const json& one : found["results"]) {
    SCOPED_TRACE(one["schedule"].get<std::string>());
    for (const char* key : {"step_time_ms", "gpu_compute_ms", "gpu_stall_ms", "gpu_utilization",
                            "tokens_per_second", "mfu", "critical_path_ms"}) {
      EXPECT_TRUE(one.at(key).is_number_float()) << key;
    }
    EXPECT_TRUE(one.at("tasks").is_number_integer());
    ASSERT_TRUE(one.at("step_times_ms").is_array());
    for (const json& time : one["step_times_ms"]) EXPECT_TRUE(time.is_number_float());
    EXPECT_EQ(one.at("stall_by_cause_ms").size(), 7U);
    for (const char* cause :
         {"cpu_update", "d2h", "h2d", "collective", "nvme", "selection", "launch"}) {
      EXPECT_TRUE(one["stall_by_cause_ms"].at(cause).is_number_float()) << cause;
    }
    EXPECT_TRUE(one.at("pcie").at("d2h_bytes_per_step").is_number_integer());
    EXPECT_TRUE(one["pcie"].at("h2d_bytes_per_step").is_number_integer());
    EXPECT_TRUE(one["pcie"].at("model_sizes_per_step").is_number());
    EXPECT_TRUE(one.at("staleness_steps").at("min").is_number_integer());
    EXPECT_TRUE(one["staleness_steps"].at("max").is_number_integer());
    const json& memory = one.at("memory");
    EXPECT_TRUE(memory.at("fits").is_boolean());
    for (const char* key :
         {"gpu_peak_bytes", "gpu_capacity_bytes", "host_peak_bytes", "host_capacity_bytes"}) {
      EXPECT_TRUE(memory.at(key).is_number_integer()) << key;
    }
    EXPECT_TRUE(memory.at("gpu").at("context").is_number_integer());
    EXPECT_TRUE(memory.at("host").is_object());
  }
  EXPECT_EQ(result_of(found, "zenflow").at("topk_ratio"), 0.1);
  EXPECT_EQ(result_of(found, "zenflow").at("update_interval"), 4);
  EXPECT_FALSE(result_of(found, "gpu-only").contains("topk_ratio"));
}

TEST(ResultJson, CategoriesAddUpToThePeaks) {
  const json found = document(four_gpus());
  for (const json& one : found["results"]) {
    for (const std::string place : {"gpu", "host"}) {
      std::int64_t sum = 0;
      for (const auto& [name, bytes] : one["memory"][place].items()) {
        sum += bytes.get<std::int64_t>();
      }
      // Each category is rounded to a byte.
      EXPECT_NEAR(static_cast<double>(sum), one["memory"][place + "_peak_bytes"].get<double>(), 5)
          << one["schedule"] << " " << place;
    }
  }
}

TEST(ResultJson, TimesAddUpToThePicosecond) {
  const json found = document(four_gpus());
  for (const json& one : found["results"]) {
    const double step = one["step_time_ms"];
    const double stall = one["gpu_stall_ms"];
    // Values are rounded to 1e-9 ms; two of them may add up to a unit more or less.
    EXPECT_NEAR(step, one["gpu_compute_ms"].get<double>() + stall, 2e-9) << one["schedule"];
    double causes = 0;
    for (const auto& [cause, time] : one["stall_by_cause_ms"].items()) {
      causes += time.get<double>();
    }
    EXPECT_NEAR(causes, stall, 8e-9) << one["schedule"];
  }
}

TEST(ResultJson, SaysWhatAutoChose) {
  JobOptions options;
  options.update_interval = "\"auto\"";
  const Job job = make_small_job(contended_node(1), testing::tiny_llama(), options);
  const json found =
      json::parse(result_json(job, {simulate_schedule(job, find_schedule("zenflow"))}, "9.9.9"));
  const json& zenflow = result_of(found, "zenflow");
  EXPECT_EQ(zenflow.at("update_interval_is_auto"), true);
  EXPECT_TRUE(zenflow.at("stall_removed").is_boolean());
  EXPECT_TRUE(zenflow.at("update_interval").is_number_integer());
}

TEST(ResultJson, OfEqualResultsIsEqual) {
  EXPECT_EQ(document(four_gpus()).dump(), document(four_gpus()).dump());
}

}  // namespace
}  // namespace zenflow::sim
