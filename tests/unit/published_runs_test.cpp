// Published runs: what a file of them may say, and what is predicted for each quantity.
#include "sim/accuracy/published_runs.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "tests/support/scenario_files.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kGib = 1073741824.0;

/// A run of two GPUs on 2 x 64 tokens, four micro steps an update.
constexpr const char* kRun = R"(- id: first
  node: node
  model: tiny
  gpus: 2
  nodes: 1
  micro_batch: 2
  seq: 64
  ga: 4
  dtype: bf16
  activation_checkpointing: true
  bind_cores: false
  deepspeed_version: 0.17.5
  schedule: zero-offload
  deepspeed:
    zero_optimization: {stage: 2, offload_optimizer: {device: cpu}}
    optimizer: {type: AdamW, params: {lr: 1e-5}}
  quantity: optimizer step
  value: 2
  unit: ms
  source: a paper
  how_read: table
  uncertainty: 1 %
  notes: of the first
  judged: true
  simulated: true
)";

class PublishedFile : public ::testing::Test {
 protected:
  PublishedFile() {
    folder_.write("profiles/node.yaml", zenflow::testing::kProfile);
    folder_.write("models/tiny.json", zenflow::testing::kModel);
  }
  [[nodiscard]] std::vector<PublishedRow> read(const std::string& text) const {
    return read_published_rows(folder_.write("rows.yaml", text), {});
  }
  [[nodiscard]] std::string error_of(const std::string& text) const {
    try {
      (void)read(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "no error";
  }
  /// kRun with `from` replaced.
  [[nodiscard]] static std::string with(const std::string& from, const std::string& to) {
    std::string text = kRun;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  }
  /// What is predicted for the first run with this quantity in this unit.
  [[nodiscard]] double predicted(const std::string& quantity, const std::string& unit,
                                 const std::string& more = "") const {
    const std::string text = std::string(kRun) +
                             "- {id: second, like: first, quantity: " + quantity +
                             ", unit: " + unit + more + "}\n";
    const auto results = predict_published(read(text));
    EXPECT_EQ(results[1].prediction->refused, "");
    return results[1].prediction->value.value_or(0);
  }
  /// The run as the simulator sees it without a file of rows.
  [[nodiscard]] SimulationResult simulated(const std::string& micro_batch = "2") const {
    const std::string training = "training: {micro_batch_size_per_gpu: " + micro_batch +
                                 ", sequence_length: 64, activation_checkpointing: true}\n";
    const fs::path file = folder_.write("one.yaml", training + R"(name: one
model: models/tiny.json
hardware: node
deepspeed:
  gradient_accumulation_steps: 4
  zero_optimization: {stage: 2, offload_optimizer: {device: cpu}}
  optimizer: {type: AdamW, params: {lr: 1e-5}}
launch: {deepspeed_version: 0.17.5}
schedules: [zero-offload]
)");
    LoadOptions options;
    options.profile_directories = {folder_ / "profiles"};
    return simulate_schedule(make_job(load_scenario(file, options)), find_schedule("zero-offload"));
  }
  [[nodiscard]] double step_seconds() const { return simulated().step_time / 1e12; }
  /// OPT, hidden 32, 3 layers, 100 tokens, 64 + 2 positions, head tied:
  /// 166 x 32 + 3 (12 x 32^2 + 13 x 32) + 2 x 32.
  static constexpr double kParameters = 5312 + 38112 + 64;

  zenflow::testing::TemporaryFolder folder_;
};

TEST_F(PublishedFile, RowTakesTheRunOfTheRowItIsLike) {
  const auto rows = read(std::string(kRun) + R"(- id: second
  like: first
  micro_batch: 4
  value: 3
  cause: found
)");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].id, "second");
  EXPECT_EQ(rows[1].source, "a paper");
  EXPECT_EQ(rows[1].notes, "");  // of the first row's figure
  EXPECT_EQ(rows[1].cause, "found");
  const Scenario scenario = read_scenario(rows[1].run->scenario, {});
  EXPECT_EQ(scenario.training.micro_batch_size_per_gpu, 4);
  EXPECT_EQ(scenario.gpus, 2);
  EXPECT_EQ(scenario.deepspeed_version->text, "0.17.5");
  EXPECT_THAT(scenario.schedules, ElementsAre("zero-offload"));
  EXPECT_EQ(make_job(scenario).deepspeed.gradient_accumulation_steps, 4);
}

TEST_F(PublishedFile, ValuesAreInTheUnitThatIsPredicted) {
  EXPECT_DOUBLE_EQ(read(kRun)[0].value, 0.002);
  EXPECT_EQ(read(kRun)[0].unit, "s");
  const auto rows = read(std::string(kRun) +
                         "- {id: m, like: first, quantity: host memory, value: 1, unit: GB}\n"
                         "- {id: f, like: first, quantity: MFU, value: 0.5, unit: share}\n");
  EXPECT_NEAR(rows[1].value, 0.931323, 1e-6);  // 10^9 / 2^30
  EXPECT_DOUBLE_EQ(rows[2].value, 50);
}

TEST_F(PublishedFile, ProfileMayDeriveFromAnother) {
  folder_.write("profiles/small.yaml",
                "base: node.yaml\nname: small\ngpu: {memory: {value: 2 GiB, source: s}}\n");
  const auto rows = read(with("node: node", "node: small"));
  const Scenario scenario = read_scenario(rows[0].run->scenario, {});
  EXPECT_EQ(scenario.hardware.name, "small");
  EXPECT_DOUBLE_EQ(scenario.hardware.gpu.memory.value(), 2 * kGib);
  EXPECT_EQ(scenario.hardware.gpu.count, 2);
}

TEST_F(PublishedFile, RecordNeedsNoRun) {
  const auto rows = read(R"(- id: far
  node: a machine
  model: a model
  schedule: another system
  gpus: 4
  ssds: 12
  quantity: epoch
  value: 23
  unit: min
  source: a blog
  how_read: table
  uncertainty: 5 %
  judged: false
  simulated: false
  reason: no profile
)");
  EXPECT_FALSE(rows[0].run);
  EXPECT_EQ(rows[0].reason, "no profile");
  EXPECT_DOUBLE_EQ(rows[0].parts.at("ssds"), 12);
  const auto results = predict_published(rows);
  EXPECT_FALSE(results[0].prediction);
  EXPECT_FALSE(results[0].counts());
}

TEST_F(PublishedFile, MistakesAreNamedWithTheirPlace) {
  EXPECT_THAT(error_of(with("micro_batch:", "microbatch:")), HasSubstr("micro_batch"));
  const std::string unknown = error_of(with("  ga: 4", "  ga: 4\n  gpu_s: 2"));
  EXPECT_THAT(unknown, HasSubstr("rows.yaml:9:3: gpu_s: unknown key"));
  EXPECT_THAT(unknown, HasSubstr("did you mean \"gpus\""));
  EXPECT_THAT(error_of(with("unit: ms", "unit: GiB")), HasSubstr("rows.yaml:19:9: unit"));
  EXPECT_THAT(error_of(with("optimizer step", "optimiser step")),
              HasSubstr("did you mean \"optimizer step\""));
  EXPECT_THAT(error_of(with("schedule: zero-offload", "schedule: zero-offlaod")),
              HasSubstr("rows.yaml:13:13: "));
  EXPECT_THAT(error_of(with("model: tiny", "model: tinny")), HasSubstr("no tinny.json in "));
  EXPECT_THAT(error_of(with("node: node", "node: nod")), HasSubstr("did you mean \"node\""));
  EXPECT_THAT(error_of(with("gpus: 2", "gpus: 3")), HasSubstr("at most the 2 GPUs"));
  EXPECT_THAT(error_of(with("value: 2", "value: 0")), HasSubstr("above 0"));
  EXPECT_THAT(error_of(with("  deepspeed:", "  deepspeed:\n    gradient_accumulation_steps: 8")),
              HasSubstr("rows.yaml:8:7: ga: 4 is not deepspeed.gradient_accumulation_steps, 8"));
  EXPECT_THAT(error_of(std::string(kRun) + "- {id: first, like: first}\n"),
              HasSubstr("\"first\" is there twice"));
  EXPECT_THAT(error_of(std::string(kRun) + "- {id: second, like: frist}\n"),
              HasSubstr("did you mean \"first\""));
  EXPECT_THAT(error_of("- {id: r, node: n, model: m, schedule: s, quantity: q, value: 1, unit: u, "
                       "source: s, how_read: h, uncertainty: u, judged: true, simulated: false}\n"),
              HasSubstr("judged: expected false"));
}

TEST_F(PublishedFile, OptimizerStepIsAllMicroStepsOfAnUpdate) {
  EXPECT_NEAR(predicted("optimizer step", "s"), 4 * step_seconds(), 1e-12);
}

TEST_F(PublishedFile, RatesCountEightFlopWithRecomputationAndSixWithout) {
  const double tokens = 2 * 64;
  const double eight = 8 * kParameters * tokens / step_seconds() / 1e12;
  EXPECT_NEAR(predicted("TFLOPS/GPU", "TFLOPS"), eight, 1e-9 * eight);
  EXPECT_NEAR(predicted("TFLOPS of the node", "TFLOPS"), 2 * eight, 1e-9 * eight);
  EXPECT_NEAR(predicted("TFLOPS/GPU", "TFLOPS", ", flop: 6"), 0.75 * eight, 1e-9 * eight);
  const auto rows = read(with("checkpointing: true", "checkpointing: false"));
  EXPECT_DOUBLE_EQ(rows[0].run->flop, 6);
}

TEST_F(PublishedFile, MfuCountsAttentionAndNoRecomputation) {
  // A sequence of 64 tokens: 3 (2 P 64 + 4 x 3 layers x 32 x 64^2); two of them; 100 TFLOPS.
  const double sequence = 3 * (128 * kParameters + 1572864);
  const double share = 2 * sequence / step_seconds() / 100e12;
  EXPECT_NEAR(predicted("MFU", "'%'"), 100 * share, 1e-7 * share);
}

TEST_F(PublishedFile, GpuMemoryIsWithoutTheContextAndHostMemoryWithWhatPyTorchKeeps) {
  const MemoryReport memory = simulated().memory;
  EXPECT_NEAR(predicted("gpu peak memory", "GiB"), memory.gpu.total / kGib - 1, 1e-9);
  EXPECT_NEAR(predicted("host memory", "GiB"), (memory.host.total + memory.host_framework) / kGib,
              1e-9);
}

TEST_F(PublishedFile, LargestMicroBatchIsTheLastThatFits) {
  folder_.write("profiles/small.yaml",
                "base: node.yaml\nname: small\ngpu: {memory: {value: 1026 MiB, source: s}}\n");
  const double largest = predicted("largest micro-batch", "sequences", ", node: small");
  const double room = 1026.0 / 1024 * kGib;
  const auto needs = [this](double sequences) {
    return simulated(std::to_string(static_cast<int>(sequences))).memory.gpu.total;
  };
  ASSERT_GE(largest, 1);
  EXPECT_LE(needs(largest), room);
  EXPECT_GT(needs(largest + 1), room);
}

TEST_F(PublishedFile, FurtherSettingsReachTheScenario) {
  const auto rows = read(std::string(kRun) +
                         "- {id: second, like: first, set: {run.steps: 8, "
                         "hardware.gpu.gemm_efficiency.value: 0.25}}\n");
  const Scenario scenario = read_scenario(rows[1].run->scenario, rows[1].run->set);
  EXPECT_EQ(scenario.run.steps, 8);
  EXPECT_DOUBLE_EQ(scenario.hardware.gpu.gemm_efficiency, 0.25);
}

TEST_F(PublishedFile, RefusesAFileWithoutRows) {
  EXPECT_THAT(error_of("[]"), HasSubstr("expected rows of published runs"));
}

TEST_F(PublishedFile, RefusedRowDoesNotStopTheOthers) {
  // There is no ZenFlow without a zenflow block.
  const auto results =
      predict_published(read(std::string(kRun) + "- {id: second, like: first, schedule: "
                                                 "zenflow}\n- {id: third, like: first}\n"));
  EXPECT_NE(results[1].prediction->refused, "");
  EXPECT_FALSE(results[1].error());
  EXPECT_EQ(judged_rows(results), 3);
  EXPECT_EQ(published_errors(results).rows, 2);
  EXPECT_THAT(published_table(results, false), HasSubstr("second: refused: "));
  EXPECT_THAT(published_markdown(results), HasSubstr("- `second`: refused: "));
}

/// A row whose prediction is known.
PublishedResult result(const std::string& id, const std::string& schedule, double published,
                       double value) {
  PublishedResult one;
  one.row.id = id;
  one.row.node = "node";
  one.row.schedule = schedule;
  one.row.source = "a paper";
  one.row.quantity = "optimizer step";
  one.row.unit = "s";
  one.row.value = published;
  one.row.judged = true;
  one.prediction = PublishedPrediction{value, "", {}, SimulationResult{}};
  return one;
}

TEST(PublishedErrors, AreMeanSignedMeanAndWorstOfJudgedRowsByGroup) {
  std::vector<PublishedResult> results = {result("a", "x", 2, 2.2),   // +10 %
                                          result("b", "x", 10, 7),    // -30 %
                                          result("c", "y", 4, 4),     // 0 %
                                          result("d", "y", 1, 100)};  // does not count
  results[3].row.judged = false;
  const PublishedErrors all = published_errors(results);
  EXPECT_EQ(all.rows, 3);
  EXPECT_NEAR(all.mean, 0.4 / 3, 1e-12);
  EXPECT_NEAR(all.signed_mean, -0.2 / 3, 1e-12);
  EXPECT_NEAR(all.worst, -0.3, 1e-12);
  EXPECT_EQ(all.worst_row, "b");
  const auto groups = published_errors(results, PublishedGroup::kSchedule);
  ASSERT_EQ(groups.size(), 2U);
  EXPECT_EQ(groups[0].name, "x");
  EXPECT_NEAR(groups[0].mean, 0.2, 1e-12);
  EXPECT_NEAR(groups[0].signed_mean, -0.1, 1e-12);
  EXPECT_EQ(groups[1].rows, 1);
  const auto json = nlohmann::json::parse(published_json(results, "1.2.3"));
  EXPECT_EQ(json["summary"]["judged"], 3);
  EXPECT_DOUBLE_EQ(json["summary"]["mean_error"], 0.133333);
  EXPECT_EQ(json["by_schedule"][0]["worst_row"], "b");
  EXPECT_DOUBLE_EQ(json["rows"][1]["error"], -0.3);
}

TEST(PublishedErrors, PageNamesTheCauseOfEachMissAboveAFifth) {
  std::vector<PublishedResult> results = {result("a", "x", 10, 12.1), result("b", "x", 10, 7.9),
                                          result("c", "x", 10, 11.9)};
  results[0].row.cause = "the links are not shared";
  const std::string page = published_markdown(results);
  EXPECT_THAT(page, HasSubstr("- `a` (+21.0 %): the links are not shared\n"));
  EXPECT_THAT(page, HasSubstr("- `b` (-21.0 %): cause not known\n"));
  EXPECT_THAT(page, HasSubstr("| `c` | node |"));
  EXPECT_EQ(page.find("- `c`"), std::string::npos);
}

/// The file that ships with the program.
class ShippedRows : public ::testing::Test {
 protected:
  static const std::vector<PublishedRow>& rows() {
    static const std::vector<PublishedRow> kRows = [] {
      const fs::path root = ZENFLOW_SOURCE_DIR;
      return read_published_rows(root / "docs/accuracy/published/rows.yaml",
                                 {{root / "profiles"}, {root / "scenarios/models"}});
    }();
    return kRows;
  }
};

TEST_F(ShippedRows, AreComplete) {
  EXPECT_EQ(rows().size(), 101U) << "a row that is lost is noticed";
  int judged = 0;
  int simulated = 0;
  for (const PublishedRow& row : rows()) {
    judged += row.judged ? 1 : 0;
    simulated += row.run ? 1 : 0;
    if (row.run && !row.judged) {
      EXPECT_THAT(row.notes, StartsWith("not judged: ")) << row.id;
    }
  }
  EXPECT_EQ(simulated, 63);
  EXPECT_EQ(judged, 61);
}

TEST_F(ShippedRows, AllWhichCountArePredicted) {
  const auto results = predict_published(rows());
  for (const PublishedResult& one : results) {
    EXPECT_EQ(one.prediction ? one.prediction->refused : "", "") << one.row.id;
  }
  EXPECT_EQ(published_errors(results).rows, judged_rows(results));
}

TEST_F(ShippedRows, ProfilesAndModelsAreUsed) {
  std::set<std::string> names;
  for (const PublishedRow& row : rows()) {
    if (row.run) names.insert({row.node, row.model});
  }
  const fs::path folder = fs::path(ZENFLOW_SOURCE_DIR) / "docs/accuracy/published";
  for (const char* kind : {"profiles", "models"}) {
    for (const auto& file : fs::directory_iterator(folder / kind)) {
      EXPECT_TRUE(names.contains(file.path().stem().string())) << file.path();
    }
  }
}

}  // namespace
}  // namespace zenflow::sim
