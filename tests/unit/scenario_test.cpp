// How a scenario and the files it names become one, and what is wrong with them.
#include "sim/config/scenario.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/scenario_files.h"
#include "tests/support/sparse_weights.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using zenflow::testing::kProfile;
using zenflow::testing::kScenario;

class ScenarioFile : public ::testing::Test {
 protected:
  ScenarioFile() {
    scenario_ = zenflow::testing::write_scenario(folder_);
    options_.profile_directories = {folder_ / "profiles"};
  }

  [[nodiscard]] Scenario load(const fs::path& path) const { return load_scenario(path, options_); }
  [[nodiscard]] Scenario load_with(std::vector<Override> overrides) {
    options_.overrides = std::move(overrides);
    return load(scenario_);
  }
  [[nodiscard]] std::string error_of(const fs::path& path) const {
    try {
      (void)load(path);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      return error.what();
    }
    return "no error";
  }
  /// The scenario with `from` replaced.
  [[nodiscard]] std::string error_with(const std::string& from, const std::string& to) {
    std::string text = kScenario;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return error_of(folder_.write("scenarios/changed.yaml", text));
  }
  [[nodiscard]] std::string error_of_overrides(std::vector<Override> overrides) {
    options_.overrides = std::move(overrides);
    return error_of(scenario_);
  }

  zenflow::testing::TemporaryFolder folder_;
  fs::path scenario_;
  LoadOptions options_;
};

TEST_F(ScenarioFile, BringsTheFilesItNames) {
  const Scenario scenario = load(scenario_);
  EXPECT_EQ(scenario.name, "one");
  EXPECT_EQ(scenario.model.name, "tiny");
  EXPECT_EQ(scenario.model.hidden, 32);
  EXPECT_EQ(scenario.hardware.name, "node");
  EXPECT_EQ(scenario.gpus, 2);
  EXPECT_EQ(scenario.nodes, 1);
  EXPECT_EQ(scenario.ranks(), 2);
  EXPECT_EQ(scenario.training.tokens(), 128);
  EXPECT_EQ(scenario.training.dtype, DType::kBf16);
  EXPECT_THAT(scenario.schedules, ElementsAre("zero-offload", "zenflow"));
  EXPECT_EQ(scenario.run.warmup_steps, 3);
  EXPECT_EQ(scenario.run.steps, 5);
  ASSERT_NE(scenario.deepspeed.find("zero_optimization"), nullptr);
  EXPECT_EQ(scenario.max_staleness, 31);
}

TEST_F(ScenarioFile, UsesAllGpusOfTheProfileUnlessItSaysHowMany) {
  const fs::path path = folder_.write("scenarios/all.yaml", R"(name: all
model: models/tiny.json
hardware: node
training: {micro_batch_size_per_gpu: 1, sequence_length: 8}
schedules: [gpu-only]
)");
  EXPECT_EQ(load(path).gpus, 2);
}

// Weights that no row knows; of a scenario that is derived from it, another model is that alone.
TEST_F(ScenarioFile, TakesAModelFromItsWeights) {
  std::vector<testing::SparseTensor> tensors = {{"embed.weight", {50, 32}}};
  for (const char* layer : {"layers.0.", "layers.1."}) {
    for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
      tensors.push_back({fmt::format("{}{}.weight", layer, name), {32, 32}});
    }
  }
  testing::write_sparse(folder_, "scenarios/new/model.safetensors", tensors);
  folder_.write("scenarios/new/config.json",
                R"({"model_type": "new", "num_attention_heads": 2, "num_key_value_heads": 1})");
  const std::string rest =
      "hardware: node\ntraining: {micro_batch_size_per_gpu: 1, sequence_length: 8}\n"
      "schedules: [gpu-only]\n";
  const Scenario one = load(folder_.write("scenarios/w.yaml", "name: w\nmodel: new\n" + rest));
  EXPECT_EQ(one.model.name, "new");
  EXPECT_EQ(one.model.parameters(), 50 * 32 + 2 * 4 * 32 * 32);
  EXPECT_THAT(one.model.estimate, HasSubstr("scenarios/new/model.safetensors: "));
  const Scenario derived =
      load(folder_.write("scenarios/d.yaml", "name: d\nbase: w.yaml\nmodel: models/tiny.json\n"));
  const Scenario tiny =
      load(folder_.write("scenarios/t.yaml", "name: t\nmodel: models/tiny.json\n" + rest));
  EXPECT_EQ(derived.model.estimate, "");
  EXPECT_EQ(derived.model.parameters(), tiny.model.parameters());
}

TEST_F(ScenarioFile, InheritsFromItsBase) {
  const fs::path path = folder_.write("scenarios/more/derived.yaml", R"(base: ../one.yaml
name: derived
training: {sequence_length: 32}
deepspeed: {zero_optimization: {zenflow: {topk_ratio: 0.2}}}
)");
  const Scenario scenario = load(path);
  EXPECT_EQ(scenario.name, "derived");
  EXPECT_EQ(scenario.training.micro_batch_size_per_gpu, 2);  // from the base
  EXPECT_EQ(scenario.training.sequence_length, 32);
  EXPECT_EQ(scenario.model.name, "tiny");  // found beside the base, not beside this file
  const Node* zero = scenario.deepspeed.find("zero_optimization");
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(zero->find("stage")->scalar, "2");
  EXPECT_EQ(zero->find("zenflow")->find("topk_ratio")->scalar, "0.2");
  EXPECT_EQ(zero->find("zenflow")->find("update_interval")->scalar, "4");
}

TEST_F(ScenarioFile, InheritsThroughSeveralBases) {
  folder_.write("scenarios/two.yaml", "base: one.yaml\nname: two\ngpus: 1\n");
  const fs::path path = folder_.write("scenarios/three.yaml", "base: two.yaml\nname: three\n");
  const Scenario scenario = load(path);
  EXPECT_EQ(scenario.name, "three");
  EXPECT_EQ(scenario.gpus, 1);
}

TEST_F(ScenarioFile, RefusesABaseThatIsItself) {
  const fs::path path = folder_.write("scenarios/self.yaml", "name: self\nbase: self.yaml\n");
  EXPECT_THAT(error_of(path), AllOf(StartsWith(path.generic_string() + ":2:7: base: "),
                                    HasSubstr("cycle"), HasSubstr("self.yaml")));
}

TEST_F(ScenarioFile, RefusesACycleOfBases) {
  const fs::path a = folder_.write("scenarios/a.yaml", "name: a\nbase: b.yaml\n");
  const fs::path b = folder_.write("scenarios/b.yaml", "name: b\nbase: a.yaml\n");
  EXPECT_THAT(error_of(a),
              AllOf(StartsWith(b.generic_string() + ":2:7: base: "), HasSubstr("cycle")));
}

TEST_F(ScenarioFile, RefusesACycleThroughOtherSpellingsOfItsName) {
  const fs::path path =
      folder_.write("scenarios/self.yaml", "name: self\nbase: ../scenarios/./self.yaml\n");
  EXPECT_THAT(error_of(path), HasSubstr("cycle"));
  fs::create_symlink("self.yaml", folder_ / "scenarios/link.yaml");
  folder_.write("scenarios/self.yaml", "name: self\nbase: link.yaml\n");
  EXPECT_THAT(error_of(path), HasSubstr("cycle"));
}

TEST_F(ScenarioFile, RefusesItselfAsAnyOtherFile) {
  for (const char* key : {"hardware", "deepspeed", "model"}) {
    const std::string from = std::string(key) == "hardware" ? "hardware: node"
                             : std::string(key) == "model"  ? "model: models/tiny.json"
                                                            : "deepspeed: ds/zenflow.json";
    EXPECT_THAT(error_with(from, std::string(key) + ": changed.yaml"),
                AllOf(HasSubstr(std::string("changed.yaml:")), HasSubstr(std::string(key) + ": "),
                      HasSubstr("cycle")))
        << key;
  }
}

TEST_F(ScenarioFile, NamesMissingFilesWhereTheyAreNamed) {
  EXPECT_THAT(error_with("models/tiny.json", "models/none.json"),
              AllOf(HasSubstr("changed.yaml:2:8: model: no such file"), HasSubstr("none.json")));
  // Only a file that is read brings weights.
  EXPECT_THAT(error_with("models/tiny.json", "{name: tiny, config: {}, weights: some}"),
              HasSubstr("model.weights: expected none: a scenario names weights as its model"));
  EXPECT_THAT(error_with("ds/zenflow.json", "ds/none.json"),
              AllOf(HasSubstr("changed.yaml:6:12: deepspeed: no such file")));
  EXPECT_THAT(error_of(folder_.write("scenarios/b.yaml", "base: none.yaml\n")),
              HasSubstr("b.yaml:1:7: base: no such file"));
  EXPECT_THAT(error_of(folder_ / "scenarios/none.yaml"), HasSubstr("none.yaml"));
}

TEST_F(ScenarioFile, NamesKnownProfilesForAnUnknownOne) {
  folder_.write("profiles/other.yaml", kProfile);
  EXPECT_THAT(error_with("hardware: node", "hardware: nodde"),
              AllOf(HasSubstr("changed.yaml:3:11: hardware: no profile named \"nodde\""),
                    HasSubstr("did you mean \"node\"?"), HasSubstr("known: node, other")));
}

TEST_F(ScenarioFile, SaysWhereItLookedWhereThereAreNoProfilesAtAll) {
  EXPECT_EQ(known_profiles({folder_ / "nowhere", "also/../nowhere"}),
            "no profiles were found in " + (folder_ / "nowhere").generic_string() + ", nowhere");
  EXPECT_EQ(known_profiles({folder_ / "profiles"}), "known: node");
}

TEST_F(ScenarioFile, TakesAProfileByPath) {
  fs::copy_file(folder_ / "profiles/node.yaml", folder_ / "scenarios/mine.yaml");
  folder_.write("scenarios/changed.yaml",
                std::string(kScenario).replace(std::string(kScenario).find("hardware: node"), 14,
                                               "hardware: mine.yaml"));
  options_.profile_directories.clear();
  EXPECT_EQ(load(folder_ / "scenarios/changed.yaml").hardware.name, "node");
  EXPECT_THAT(error_with("hardware: node", "hardware: ./none.yaml"),
              HasSubstr("hardware: no such file"));
}

TEST_F(ScenarioFile, TakesTheProfileOfTheCommandLineInsteadOfItsOwn) {
  folder_.write("profiles/other.yaml", std::string("name: other") + (kProfile + 10));
  options_.profile = "other";
  EXPECT_EQ(load(scenario_).hardware.name, "other");
  options_.profile = "none";
  EXPECT_THAT(error_of(scenario_),
              AllOf(StartsWith("--profile none: hardware: no profile named \"none\"")));
}

TEST_F(ScenarioFile, RefusesMoreGpusThanTheProfileHas) {
  EXPECT_THAT(error_with("gpus: 2", "gpus: 3"),
              AllOf(HasSubstr("changed.yaml:4:7: gpus: "), HasSubstr("at most the 2 GPUs")));
  EXPECT_THAT(error_with("gpus: 2", "gpus: 0"), HasSubstr("changed.yaml:4:7: gpus: "));
}

TEST_F(ScenarioFile, RefusesNodesWithoutNetwork) {
  EXPECT_THAT(error_with("gpus: 2", "nodes: 2"),
              AllOf(HasSubstr("changed.yaml:4:8: nodes: "), HasSubstr("no network block")));
}

TEST_F(ScenarioFile, RefusesAnElementTypeWithoutPeak) {
  EXPECT_THAT(error_with("sequence_length: 64", "sequence_length: 64, dtype: fp16"),
              HasSubstr("gpu.peak.fp16"));
}

TEST_F(ScenarioFile, RefusesWrongValues) {
  EXPECT_THAT(
      error_with("sequence_length: 64", "sequence_length: 65"),
      AllOf(HasSubstr("changed.yaml:5:58: training.sequence_length: "), HasSubstr("64 positions")));
  EXPECT_THAT(error_with("sequence_length: 64", "sequence_length: many"),
              HasSubstr("training.sequence_length: expected a whole number"));
  EXPECT_THAT(error_with("sequence_length: 64", "sequence_lenght: 64"),
              AllOf(HasSubstr("changed.yaml:5:41: training.sequence_lenght: unknown key"),
                    HasSubstr("did you mean \"sequence_length\"?")));
  EXPECT_THAT(error_with("gpus: 2", "gpuss: 2"), HasSubstr("did you mean \"gpus\"?"));
  EXPECT_THAT(error_with("run: {", "run: {stepz: 3, "), HasSubstr("run.stepz: unknown key"));
  EXPECT_THAT(error_with("[zero-offload, zenflow]", "[zenflow, zenflow]"),
              HasSubstr("\"zenflow\" is listed twice"));
  EXPECT_THAT(error_with("[zero-offload, zenflow]", "[]"),
              HasSubstr("schedules: expected at least one"));
  EXPECT_THAT(error_with("name: one\n", "name: one\nname: two\n"), HasSubstr(":2:1"));
  EXPECT_THAT(error_with("steps: 5", "steps: 0"), HasSubstr("run.steps: "));
}

TEST_F(ScenarioFile, SaysWhereZenFlowTrainSums) {
  const auto sums = [&](const std::string& text) {
    return load(folder_.write("scenarios/sums.yaml", kScenario + text))
        .offload.accumulate_on_device;
  };
  EXPECT_FALSE(load(scenario_).offload.accumulate_on_device);
  EXPECT_FALSE(sums("zenflow_train: {}\n"));
  EXPECT_FALSE(sums("zenflow_train: {accumulate_on: host}\n"));
  EXPECT_TRUE(sums("zenflow_train: {accumulate_on: device}\n"));
  EXPECT_THAT(error_with("run: {", "zenflow_train: {accumulate_on: devise}\nrun: {"),
              AllOf(HasSubstr("changed.yaml:8:32: zenflow_train.accumulate_on: "),
                    HasSubstr("did you mean \"device\"?")));
  EXPECT_THAT(error_with("run: {", "zenflow_train: {acumulate_on: device}\nrun: {"),
              AllOf(HasSubstr("changed.yaml:8:17: zenflow_train.acumulate_on: unknown key"),
                    HasSubstr("did you mean \"accumulate_on\"?")));
  EXPECT_THAT(error_with("run: {", "zenflow_train: {sum_threads: 0}\nrun: {"),
              HasSubstr("zenflow_train.sum_threads: "));
  EXPECT_TRUE(load_with({{"zenflow_train.accumulate_on", "device"}}).offload.accumulate_on_device);
  EXPECT_EQ(load(scenario_).offload.optimizer_threads, 0) << "not said";
  const auto threads =
      load_with({{"zenflow_train.optimizer_threads", "6"}, {"zenflow_train.sum_threads", "2"}});
  EXPECT_EQ(threads.offload.optimizer_threads, 6);
  EXPECT_EQ(threads.offload.sum_threads, 2);
}

TEST_F(ScenarioFile, RefusesWhatIsNoScenario) {
  EXPECT_THAT(error_of(folder_.write("scenarios/list.yaml", "- a\n- b\n")),
              HasSubstr("list.yaml:1:1: expected a scenario"));
  EXPECT_THAT(error_of(folder_.write("scenarios/empty.yaml", "")), HasSubstr("empty.yaml"));
  EXPECT_THAT(error_of(folder_ / "scenarios"), HasSubstr("scenarios"));
}

TEST_F(ScenarioFile, OverridesWinOverFilesAndLaterOverEarlier) {
  const Scenario scenario = load_with(
      {{"training.sequence_length", "16"}, {"training.sequence_length", "8"}, {"name", "renamed"}});
  EXPECT_EQ(scenario.training.sequence_length, 8);
  EXPECT_EQ(scenario.name, "renamed");
}

TEST_F(ScenarioFile, OverridesReachIntoTheFilesItNames) {
  const Scenario scenario = load_with({{"deepspeed.zero_optimization.zenflow.topk_ratio", "0.3"},
                                       {"deepspeed.gradient_accumulation_steps", "2"},
                                       {"hardware.host_link.d2h.value", "17 GB/s"},
                                       {"hardware.gpu.count.value", "1"},
                                       {"gpus", "1"},
                                       {"model.config.num_hidden_layers", "7"}});
  const Node* zenflow = scenario.deepspeed.find("zero_optimization")->find("zenflow");
  EXPECT_EQ(zenflow->find("topk_ratio")->scalar, "0.3");
  EXPECT_EQ(zenflow->find("update_interval")->scalar, "4");
  EXPECT_EQ(scenario.deepspeed.find("gradient_accumulation_steps")->scalar, "2");
  EXPECT_EQ(scenario.hardware.host_link.pinned.d2h.value(), 17e9);
  EXPECT_EQ(scenario.hardware.gpu.count, 1);
  EXPECT_EQ(scenario.model.layers(), 7);
}

TEST_F(ScenarioFile, OverridesOfFilesAreFilesAndOthersReachIntoThose) {
  folder_.write("profiles/other.yaml", std::string("name: other") + (kProfile + 10));
  const Scenario scenario =
      load_with({{"hardware.gpu.count.value", "1"}, {"gpus", "1"}, {"hardware", "other"}});
  EXPECT_EQ(scenario.hardware.name, "other");
  EXPECT_EQ(scenario.hardware.gpu.count, 1);
}

TEST_F(ScenarioFile, WrongOverridesNameThemselves) {
  EXPECT_THAT(error_of_overrides({{"training.sequence_length", "many"}}),
              StartsWith("--set training.sequence_length=many"));
  EXPECT_THAT(error_of_overrides({{"training.sequence_lenth", "8"}}),
              AllOf(HasSubstr("--set training.sequence_lenth=8"), HasSubstr("unknown key"),
                    HasSubstr("did you mean \"sequence_length\"?")));
  EXPECT_THAT(error_of_overrides({{"hardware", "none"}}), HasSubstr("--set hardware=none"));
  EXPECT_THAT(error_of_overrides({{"name.x", "1"}}), HasSubstr("--set name.x=1"));
}

TEST_F(ScenarioFile, ASweepsPointsReadTheTreeAnew) {
  const ScenarioTree tree = load_scenario_tree(scenario_, options_);
  EXPECT_EQ(read_scenario(tree, {{"training.sequence_length", "8"}}).training.sequence_length, 8);
  EXPECT_EQ(read_scenario(tree, {}).training.sequence_length, 64);
}

TEST(FindProfile, LooksThroughTheDirectoriesInOrder) {
  const zenflow::testing::TemporaryFolder folder;
  const fs::path second = folder.write("b/x.yaml", "name: x\n");
  folder.write("b/y.yaml", "name: y\n");
  const std::vector<fs::path> directories = {folder / "a", folder / "b"};
  EXPECT_EQ(find_profile("x", "", directories, {}), second);
  const fs::path first = folder.write("a/x.yaml", "name: x\n");
  EXPECT_EQ(find_profile("x", "", directories, {}), first);
  EXPECT_THAT(list_profiles(directories), ElementsAre("x", "y"));
}

TEST(NamesAFile, IsTrueForWholeFilesOnly) {
  EXPECT_TRUE(names_a_file("hardware"));
  EXPECT_TRUE(names_a_file("model"));
  EXPECT_TRUE(names_a_file("deepspeed"));
  EXPECT_FALSE(names_a_file("deepspeed.zero_optimization"));
  EXPECT_FALSE(names_a_file("hardware.gpu.count.value"));
  EXPECT_FALSE(names_a_file("gpus"));
}

}  // namespace
}  // namespace zenflow::sim
