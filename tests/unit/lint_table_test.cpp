// The combinations that DeepSpeed's source rejects or breaks on, row by row and stage by stage,
// and what is true of every ZenFlow run.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/deepspeed/lint.h"
#include "tests/support/lint_cases.h"

namespace zenflow::sim {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using testing::kZenFlow;
using ::testing::Not;

std::vector<std::string> codes_of(const DsDocument& document, const LintOptions& options) {
  std::vector<std::string> codes;
  for (const Finding& finding : lint(document, options)) {
    codes.push_back(std::string(to_string(finding.severity)) + " " + std::string(finding.code));
  }
  return codes;
}

DsDocument changed(const std::vector<Edit>& edits) {
  DsDocument document = parse_ds_document(kZenFlow, "ds.json");
  for (const Edit& edit : edits) apply_edit(document.root, edit);
  return document;
}

struct Row {
  std::string name;
  std::vector<Edit> edits;
  std::string stages;  ///< in which it is found
  std::string code;    ///< "error ZF023"
};

std::vector<Row> rows() {
  const std::string zero = "zero_optimization.";
  const std::string offload = zero + "offload_optimizer.";
  const std::string zenflow = zero + "zenflow.";
  const std::string params = "optimizer.params.";
  std::vector<Row> table = {
      {"no offload", {erase_key(zero + "offload_optimizer")}, "123", "error ZF023"},
      {"device none", {set_key(offload + "device", "\"none\"")}, "123", "error ZF023"},
      {"sum", {set_key("gradient_allreduce_op", "\"sum\"")}, "0123", "error ZF024"},
      {"client optimizer", {erase_key("optimizer")}, "0123", "error ZF025"},
      {"torch_adam", {set_key(params + "torch_adam", "true")}, "0123", "error ZF026"},
      {"max_grad_norm", {set_key(params + "max_grad_norm", "1")}, "0123", "error ZF072"},
      {"ratio", {set_key(offload + "ratio", "0.5")}, "3", "error ZF028"},
      {"ratio", {set_key(offload + "ratio", "0.5")}, "012", "error ZF060"},
      {"bf16 masters",
       {set_key("bf16.bf16_master_weights_and_grads", "true")},
       "0123",
       "error ZF029"},
      {"fp16 masters",
       {erase_key("bf16"),
        set_key("fp16", R"({"enabled": true, "fp16_master_weights_and_grads": true})")},
       "0123",
       "error ZF029"},
      {"SuperOffload", {set_key(offload + "super_offload", "true")}, "0123", "error ZF030"},
      {"no reduce_scatter", {set_key(zero + "reduce_scatter", "false")}, "12", "error ZF031"},
      {"fp32 accumulation",
       {set_key("data_types", R"({"grad_accum_dtype": "fp32"})")},
       "1",
       "error ZF032"},
      {"offloaded selection, no overlap_comm",
       {set_key(zenflow + "offload", "true"), set_key(zero + "overlap_comm", "false")},
       "0123",
       "error ZF033"},
      {"offloaded selection, overlap_comm by default",
       {set_key(zenflow + "offload", "true"), erase_key(zero + "overlap_comm")},
       "012",
       "error ZF033"},
      {"auto strategy", {set_key(zenflow + "select_strategy", "\"auto\"")}, "0123", "error ZF034"},
      {"no strategy", {erase_key(zenflow + "select_strategy")}, "0123", "error ZF034"},
      {"accumulation", {set_key("gradient_accumulation_steps", "8")}, "0123", "warning ZF045"},
      {"unmanaged", {set_key("managed_gradient_accumulation", "false")}, "23", "warning ZF046"},
      {"stage 0", {}, "0", "error ZF021"},
      {"resume", {}, "0123", "note ZF057"},
      {"old PyTorch", {}, "0123", "error ZF082"},
      // What is true of the shipped ZenFlow, numbered as in its analysis.
      {"1 traffic", {}, "0123", "note ZF052"},
      {"2 accumulation is replaced",
       {set_key("gradient_accumulation_steps", "2")},
       "0123",
       "warning ZF045"},
      {"3 auto interval",
       {set_key(zenflow + "update_interval", "\"auto\"")},
       "0123",
       "error ZF037"},
      {"4 no warm-up", {set_key(zenflow + "full_warm_up_rounds", "0")}, "0123", "warning ZF043"},
      {"5 pageable copies", {}, "0123", "note ZF054"},
      {"6 two sets of moments", {}, "0123", "note ZF053"},
      {"7, 8 no masters", {}, "0123", "note ZF055"},
      {"10 never selects again",
       {erase_key(zenflow + "select_strategy"), erase_key(zenflow + "select_interval")},
       "0123",
       "warning ZF041"},
      {"11 all-reduce", {}, "12", "note ZF081"},
      {"12 samples per second", {}, "0123", "note ZF056"},
      {"12 learning rates",
       {set_key("scheduler", R"({"type": "WarmupLR"})")},
       "0123",
       "warning ZF051"},
  };
  for (const char* key : {"bias_correction", "adam_w_mode", "fp32_optimizer_states"}) {
    for (const char* value : {"true", "false"}) {
      table.push_back({key, {set_key(params + key, value)}, "12", "error ZF027"});
    }
  }
  table.push_back({"torch_adam", {set_key(params + "torch_adam", "false")}, "12", "error ZF027"});
  for (const char* type : {"Lion", "Adagrad", "Muon", "Lamb", "OneBitAdam", "SGD"}) {
    table.push_back(
        {type, {set_key("optimizer.type", '"' + std::string(type) + '"')}, "0123", "error ZF026"});
  }
  return table;
}

TEST(LintTable, EveryRowIsFoundInItsStagesOnly) {
  for (const Row& row : rows()) {
    for (const char stage : std::string("0123")) {
      std::vector<Edit> edits = row.edits;
      edits.push_back(set_key("zero_optimization.stage", std::string(1, stage)));
      LintOptions options{.torch_version = TorchVersion{2, 0}, .notes = true};
      const bool found = row.stages.find(stage) != std::string::npos;
      const auto codes = codes_of(changed(edits), options);
      EXPECT_EQ(std::count(codes.begin(), codes.end(), row.code), found ? 1 : 0)
          << row.name << " in stage " << stage << ", " << row.code;
    }
  }
}

TEST(LintTable, LaunchersOwnTheBoundaries) {  // fact 9
  for (const LaunchTarget target : {LaunchTarget::kHf, LaunchTarget::kAccelerate}) {
    EXPECT_THAT(codes_of(changed({}), {.target = target}), Contains("warning ZF104"));
  }
  EXPECT_TRUE(codes_of(changed({}), {}).empty());
}

TEST(LintTable, NamesEveryArgumentThatTrainerCompares) {
  DsDocument document =
      changed({set_key("gradient_clipping", "\"auto\""), set_key("fp16", R"({"enabled": false})"),
               set_key("bf16", R"({"enabled": true})"),
               set_key("optimizer.params", R"({"lr": 1e-5, "betas": [0.9, 0.95], "eps": null})")});
  std::vector<std::string> said;
  for (const Finding& one : lint(document, {.target = LaunchTarget::kHf, .notes = true})) {
    if (one.code == "ZF105") said.push_back(one.path + ": " + one.what);
  }
  const std::string raises = ": Trainer raises unless it is given ";
  EXPECT_THAT(said, IsSupersetOf({"optimizer.params.lr" + raises + "--learning_rate 1e-5",
                                  "optimizer.params.betas" + raises + "--adam_beta1 0.9",
                                  "optimizer.params.betas" + raises + "--adam_beta2 0.95",
                                  "bf16.enabled" + raises + "--bf16"}));
  for (const std::string& one : said) {
    EXPECT_THAT(one,
                Not(AnyOf(HasSubstr("max_grad_norm"), HasSubstr("epsilon"), HasSubstr("--fp16"))));
  }
  for (const LaunchTarget target : {LaunchTarget::kDeepSpeed, LaunchTarget::kAccelerate}) {
    const auto codes = codes_of(document, {.target = target, .notes = true});
    EXPECT_THAT(codes, Not(Contains("note ZF105")));
  }
}

TEST(LintTable, NoNotANumberReleaseIsMissed) {
  for (const Version& version : known_versions()) {
    const bool broken = version >= Version{0, 18, 3} && version < Version{0, 19, 2};
    const auto codes = codes_of(changed({}), {.version = version});
    EXPECT_EQ(std::count(codes.begin(), codes.end(), "error ZF020"), broken ? 1 : 0)
        << to_string(version);
  }
}

TEST(LintTable, HjsonIsAWarningToDeepSpeedAndTheEndToOthers) {
  DsDocument document = parse_ds_document(
      "train_micro_batch_size_per_gpu: 4,\n"
      "zero_optimization: {stage: 2}\n",
      "ds.json");
  // No braces, no quotes around keys.
  const auto plain = codes_of(document, {});
  EXPECT_EQ(plain, std::vector<std::string>(2, "warning ZF014"));
  const auto hf = codes_of(document, {.target = LaunchTarget::kHf});
  EXPECT_EQ(hf, std::vector<std::string>(2, "error ZF014"));
}

TEST(TorchVersions, AreTwoNumbersOrMore) {
  EXPECT_EQ(parse_torch_version("2.6"), (TorchVersion{2, 6}));
  EXPECT_EQ(parse_torch_version("1.13.1+cu117"), (TorchVersion{1, 13}));
  for (const char* text : {"", "2", "2.", ".1", "x", "2.x", "-1.2", "2.-1", "2.1rc", "2 .1"}) {
    EXPECT_ANY_THROW((void)parse_torch_version(text)) << text;
  }
}

}  // namespace
}  // namespace zenflow::sim
