// Every rule of the linter: one broken document each, and the documents that are right.
#include "sim/deepspeed/lint.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "tests/support/lint_cases.h"

namespace zenflow::sim {
namespace {

using testing::all_cases;
using testing::Case;
using testing::kAccelerate;
using testing::kHf;
using testing::kPlain;
using testing::kZenFlow;
using testing::with;

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kSource = ZENFLOW_SOURCE_DIR;

LintOptions options_of(const Case& c) {
  LintOptions options{.version = parse_version(c.version), .target = c.target};
  if (c.world_size > 0) options.world_size = c.world_size;
  if (c.cores > 0) {
    options.cores_per_node = c.cores;
    options.gpus_per_node = 4;
  }
  return options;
}

std::string summary(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    if (!text.empty()) text += ", ";
    text += std::string(finding.code) + " " + std::to_string(finding.at.line) + ":" +
            std::to_string(finding.at.column);
  }
  return text;
}

std::string text_of(const Case& c) {
  return c.from.empty() && c.to.empty() ? c.base : with(c.base, c.from, c.to);
}

void expect(const std::vector<Case>& cases, std::set<std::string>* seen) {
  for (const Case& c : cases) {
    const std::string text = text_of(c);
    const auto findings = lint(parse_ds_document(text, "ds.json"), options_of(c));
    std::string expected = c.expected;
    EXPECT_EQ(summary(findings), expected) << text;
    for (const Finding& finding : findings) {
      seen->insert(std::string(finding.code));
      EXPECT_FALSE(finding.what.empty());
      EXPECT_FALSE(finding.instead.empty());
      EXPECT_FALSE(finding.reference.empty());
    }
  }
}

/// Of Trainer, whose training file says `name`.
LintOptions with_argument(const std::string& name, const std::string& value) {
  LintOptions options{.target = kHf};
  options.arguments.push_back({name, parse_yaml(value, "train.yaml")});
  return options;
}

TEST(Lint, FindsEveryBrokenDocumentWhereItIsBroken) {
  std::set<std::string> seen;
  expect(all_cases(), &seen);
  // Twin-Flow and fp32 accumulation need another stage.
  const std::string three = with(kZenFlow, "\"stage\": 2", "\"stage\": 3");
  expect({{.base = three,
           .from = "\"pin_memory\": true},",
           .to = "\"pin_memory\": true, \"ratio\": 0.5},",
           .expected = "ZF028 14:73"},
          {.base = with(kZenFlow, "\"stage\": 2", "\"stage\": 1"),
           .from = "{\n",
           .to = "{\"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n",
           .expected = "ZF032 1:37"},
          {.base = with(kZenFlow, "\"overlap_comm\": true", "\"overlap_comm\": false"),
           .from = "\"topk_ratio\"",
           .to = "\"offload\": true, \"topk_ratio\"",
           .expected = "ZF033 16:18"}},
         &seen);
  for (const Finding& finding :
       lint(parse_ds_document(kZenFlow, "ds.json"), {.torch_version = TorchVersion{2, 0}})) {
    seen.insert(std::string(finding.code));
  }
  const LintOptions of_experts{.stacked_tensor = Tensor{"experts.down_proj", {8, 4, 2}}};
  for (const Finding& finding : lint(parse_ds_document(kZenFlow, "ds.json"), of_experts)) {
    seen.insert(std::string(finding.code));
  }
  for (const Finding& finding :
       lint(parse_ds_document(kZenFlow, "ds.json"), with_argument("learning_rate", "2e-5"))) {
    seen.insert(std::string(finding.code));
  }
  const LintOptions refusing{.target = kAccelerate,
                             .beside_file = {{"mixed_precision", Location{}}}};
  for (const Finding& finding : lint(parse_ds_document(kZenFlow, "ds.json"), refusing)) {
    seen.insert(std::string(finding.code));
  }
  for (const Rule& rule : lint_rules()) {
    if (rule.severity == Severity::kNote) continue;
    EXPECT_THAT(seen, Contains(std::string(rule.code))) << rule.title;
  }
}

// Compared as Trainer does: numbers by their value, and only what is written in both.
TEST(Lint, HoldsTrainersArgumentsAgainstTheFile) {
  const auto found = [](const std::string& text, const std::string& name,
                        const std::string& value) {
    std::string all;
    for (const Finding& one :
         lint(parse_ds_document(text, "ds.json"), with_argument(name, value))) {
      if (one.code == "ZF106") all += one.path + ": " + one.what;
    }
    return all;
  };
  EXPECT_EQ(found(kZenFlow, "per_device_train_batch_size", "8"),
            "train_micro_batch_size_per_gpu: ValueError of Trainer: train.yaml:1:1 says "
            "per_device_train_batch_size 8");
  EXPECT_EQ(found(kZenFlow, "per_device_train_batch_size", "4"), "");
  EXPECT_EQ(found(kZenFlow, "learning_rate", "0.00001"), "");
  EXPECT_THAT(found(kZenFlow, "adam_beta2", "0.999"), HasSubstr("optimizer.params.betas: "));
  EXPECT_THAT(found(kZenFlow, "bf16", "false"), HasSubstr("bf16.enabled: "));
  EXPECT_EQ(found(kZenFlow, "bf16", "true"), "");
  EXPECT_EQ(found(kZenFlow, "fp16", "true"), "") << "the file says nothing of it";
  const std::string off = with(kZenFlow, "\"enabled\": true", "\"enabled\": false");
  EXPECT_THAT(found(off, "bf16", "true"), HasSubstr("bf16.enabled: "));
  const std::string scheduler =
      with(kZenFlow, "{\n",
           "{\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 1}},\n");
  EXPECT_EQ(found(scheduler, "warmup_steps", "0"), "") << "Trainer makes 1 of it";
  EXPECT_THAT(found(scheduler, "warmup_steps", "9"), HasSubstr("warmup_num_steps: "));
  LintOptions accelerate = with_argument("learning_rate", "1");
  accelerate.target = kAccelerate;
  for (const Finding& one : lint(parse_ds_document(kZenFlow, "ds.json"), accelerate)) {
    EXPECT_NE(one.code, "ZF106");
  }
}

// "auto" counts as what the training file says.
TEST(Lint, FillsBatchSizesInAsTrainerDoes) {
  const std::string text =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": "auto",
"gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}})";
  const auto codes = [](const std::string& document, const LintOptions& options) {
    return summary(lint(parse_ds_document(document, "ds.json"), options));
  };
  LintOptions options = with_argument("per_device_train_batch_size", "2");
  options.world_size = 4;
  EXPECT_EQ(codes(text, options), "ZF092 1:22");
  options.world_size = 8;
  EXPECT_EQ(codes(text, options), "");
  const std::string steps = "\"gradient_accumulation_steps\": ";
  const std::string automatic = with(kZenFlow, steps + "1", steps + "\"auto\"");
  EXPECT_EQ(codes(automatic, with_argument("gradient_accumulation_steps", "4")), "");
  EXPECT_EQ(codes(automatic, with_argument("gradient_accumulation_steps", "2")), "ZF104 3:34");
}

std::string instead(const std::string& text, std::string_view code, const LintOptions& options) {
  for (const Finding& finding : lint(parse_ds_document(text, "ds.json"), options)) {
    if (finding.code == code) return finding.instead;
  }
  return "";
}

// Without train_batch_size there has to be a batch size of a GPU.
TEST(Lint, AdvisesToLeaveTheBatchSizeOutOnlyWhereDeepSpeedWorksItOut) {
  const LintOptions four{.world_size = 4};
  const std::string with_steps =
      R"({"train_batch_size": 30, "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}})";
  const std::string in_its_place = ", or train_micro_batch_size_per_gpu in its place";
  EXPECT_EQ(instead(with_steps, "ZF093", {}), "a multiple of 4" + in_its_place);
  EXPECT_THAT(instead(with_steps, "ZF092", four), HasSubstr(in_its_place));
  const auto with_micro = [&](const std::string& micro) {
    return with(with_steps, "{", "{\"train_micro_batch_size_per_gpu\": " + micro + ", ");
  };
  EXPECT_EQ(instead(with_micro("2"), "ZF093", {}), "a multiple of 8, or leave it out");
  EXPECT_EQ(instead(with_micro("2"), "ZF092", four), "32, or leave it out");
  EXPECT_EQ(instead(with_micro("null"), "ZF093", {}), "a multiple of 4" + in_its_place);
  EXPECT_EQ(instead(with_micro("\"auto\""), "ZF093", {.target = kHf}),
            "a multiple of 4, or leave it out");
  EXPECT_EQ(instead(with_micro("\"auto\""), "ZF093", {}), "a multiple of 4" + in_its_place);
  // What the advice leads to has no error.
  for (const LintOptions& options : {four, LintOptions{}}) {
    const std::string without = with(with_micro("2"), "\"train_batch_size\": 30, ", "");
    EXPECT_EQ(summary(lint(parse_ds_document(without, "ds.json"), options)), "");
  }
}

TEST(Lint, SaysThatARatioKeepsNothingOfNvmeOnTheGpu) {
  const auto ratio = [](const std::string& device, const std::string& group) {
    return R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
"optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}, "zero_optimization": {"stage": 3,
"sub_group_size": )" +
           group + R"(, "offload_optimizer": {"device": ")" + device +
           R"(", "nvme_path": "/x", "ratio": 0.5, "pin_memory": true}}})";
  };
  EXPECT_EQ(instead(ratio("cpu", "1000000000"), "ZF061", {}),
            "\"sub_group_size\": 100000000 with it");
  EXPECT_EQ(instead(ratio("cpu", "100000000"), "ZF061", {}), "");
  for (const char* group : {"1000000000", "100000000"}) {
    EXPECT_EQ(instead(ratio("nvme", group), "ZF061", {}), "1.0, or device \"cpu\"");
  }
}

// Numbers as texts reach the optimizer as they are: pybind and PyTorch raise.
TEST(Lint, RefusesOptimizerParametersOfTheWrongType) {
  const auto found = [](const std::string& params, const std::string& type = "AdamW",
                        LaunchTarget target = LaunchTarget::kDeepSpeed) {
    const std::string text = with(with(kPlain, R"({"lr": 1e-5})", params), "AdamW", type);
    std::string all;
    for (const Finding& one : lint(parse_ds_document(text, "ds.json"), {.target = target})) {
      if (one.code == "ZF119") all += one.path + ": " + one.what + " -> " + one.instead + "\n";
    }
    return all;
  };
  EXPECT_EQ(found(R"({"lr": "1e-5"})"),
            "optimizer.params.lr: DeepSpeedCPUAdam takes a number, found \"1e-5\": TypeError -> "
            "1e-5\n");
  EXPECT_EQ(found(R"({"betas": "0.9,0.95"})"),
            "optimizer.params.betas: DeepSpeedCPUAdam takes a list of two numbers, found "
            "\"0.9,0.95\": TypeError -> [0.9, 0.999]\n");
  for (const char* value : {R"({"eps": "1e-8"})", R"({"weight_decay": "0.1"})", R"({"lr": null})",
                            R"({"lr": [1e-5]})", R"({"betas": 0.9})", R"({"betas": [0.9]})",
                            R"({"betas": ["0.9", 0.95]})", R"({"betas": [0.9, 0.95, 0.99]})"}) {
    EXPECT_NE(found(value), "") << value;
  }
  for (const char* value :
       {R"({"lr": 1e-5, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 0})", R"({"lr": true})",
        R"({"lr": "auto"})", R"({"bias_correction": "yes"})"}) {
    EXPECT_EQ(found(value), "") << value;
  }
  EXPECT_EQ(found(R"({"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"})",
                  "AdamW", kHf),
            "");
  EXPECT_NE(found(R"({"lr": "1e-5"})", "SGD"), "");
  EXPECT_NE(found(R"({"lr": "1e-5"})", "Lion"), "");
  EXPECT_EQ(found(R"({"lr": "1e-5"})", "Own"), "") << "another package's";
  EXPECT_EQ(found(R"({"eps": [1e-30, 1e-3]})", "Adafactor"), "");
  EXPECT_EQ(found(R"({"torch_adam": true, "betas": [0.9, 0.95, 0.99]})"), "");
  const LintFix fixed = fix(parse_ds_document(with(kPlain, "1e-5", "\"1e-5\""), "ds.json"), {});
  EXPECT_THAT(render_json(fixed.root), HasSubstr(R"("lr": 1e-5)"));
}

RejectedBy rejection(const std::string& text, std::string_view code, std::int64_t ranks) {
  const LintOptions options{.world_size = ranks};
  for (const Finding& finding : lint(parse_ds_document(text, "ds.json"), options)) {
    if (finding.code == code) return finding.rejected_by;
  }
  ADD_FAILURE() << code << " not found in " << text;
  return RejectedBy::kNobody;
}

// Which of several values the configuration classes let pass, to fail in the engine.
TEST(Lint, SaysWhoRejectsByTheValue) {
  const auto batch = [](const std::string& size) {
    return "{\"train_micro_batch_size_per_gpu\": " + size + "}";
  };
  EXPECT_EQ(rejection(batch("2.5"), "ZF091", 2), RejectedBy::kEngine);
  EXPECT_EQ(rejection(batch("1e300"), "ZF091", 2), RejectedBy::kEngine);
  for (const char* size : {"0", "-1", "-0.5", "\"4\"", "[]"}) {
    EXPECT_EQ(rejection(batch(size), "ZF091", 2), RejectedBy::kConfig) << size;
  }
  const auto norm = [](const std::string& value) {
    return R"({"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"max_grad_norm": )" +
           value + "}}}";
  };
  EXPECT_EQ(rejection(norm("1"), "ZF072", 2), RejectedBy::kEngine);
  EXPECT_EQ(rejection(norm("true"), "ZF072", 2), RejectedBy::kEngine);
  for (const char* value : {"null", "\"1\"", "[]", "{}"}) {
    EXPECT_EQ(rejection(norm(value), "ZF072", 2), RejectedBy::kConfig) << value;
  }
}

Finding only_finding(const std::string& text, const char* version) {
  const auto findings =
      lint(parse_ds_document(text, "ds.json"), {.version = parse_version(version)});
  EXPECT_EQ(findings.size(), 1U) << summary(findings);
  return findings.empty() ? Finding{} : findings.front();
}

TEST(Lint, SaysWhetherTheOptimizerFailsOrIsNotAsked) {
  using testing::with_optimizer;
  const std::string amsgrad = with_optimizer(R"({"type": "Adam", "params": {"amsgrad": true}})");
  EXPECT_EQ(only_finding(amsgrad, "0.19.8").severity, Severity::kError);
  EXPECT_EQ(only_finding(with(amsgrad, "\"pin", "\"buffer_count\": 4, \"pin"), "0.19.7").severity,
            Severity::kWarning);
  // Without ZeRO the optimizers for the CPU are made all the same, and fail.
  const auto stage0 = [](const std::string& type) {
    return with(with_optimizer("{\"type\": \"" + type + "\"}"), "\"stage\": 2", "\"stage\": 0");
  };
  for (const char* type : {"AdamW", "Lion", "Adagrad"}) {
    EXPECT_EQ(only_finding(stage0(type), "0.19.8").severity, Severity::kError) << type;
  }
  EXPECT_EQ(only_finding(stage0("SGD"), "0.19.8").severity, Severity::kWarning);
}

TEST(Lint, NamesWhatWasMeantAndWhereItIsSaid) {
  using testing::with_optimizer;
  const auto instead = [](const std::string& text) { return only_finding(text, "0.19.8").instead; };
  EXPECT_THAT(instead(with_optimizer(R"({"type": "sgd"})")), HasSubstr("\"SGD\""));
  EXPECT_THAT(instead(with_optimizer(R"({"type": "AdamW", "params": {"weight_deacy": 0.1}})")),
              HasSubstr("\"weight_decay\""));
  EXPECT_THAT(instead(with_optimizer(R"({"type": "AdamW", "param": {"lr": 1e-5}})")),
              HasSubstr("\"params\""));
  EXPECT_THAT(instead(testing::with_scheduler(R"({"type": "warmuplr", "params": {}})")),
              HasSubstr("\"WarmupLR\""));
  const std::string type = with(kPlain, "{\n", "{\"communication_data_type\": \"bfloat16\",\n");
  EXPECT_THAT(std::string(only_finding(type, "0.19.8").reference),
              HasSubstr("get_communication_data_type"));
}

TEST(Lint, NotesComeOnRequest) {
  std::set<std::string> seen;
  LintOptions options{.target = kHf, .notes = true};
  const std::string three = with(kZenFlow, "\"stage\": 2", "\"stage\": 3");
  const std::string train = with(kZenFlow, "{\n", "{\"train_batch_size\": 4,\n");
  const std::string timed = with(kZenFlow, "{\n", "{\"wall_clock_breakdown\": true,\n");
  for (const std::string& text : {kZenFlow, three, train, timed}) {
    for (const Finding& finding : lint(parse_ds_document(text, "ds.json"), options)) {
      seen.insert(std::string(finding.code));
    }
  }
  for (const Rule& rule : lint_rules()) {
    if (rule.severity != Severity::kNote) continue;
    EXPECT_THAT(seen, Contains(std::string(rule.code))) << rule.title;
  }
}

TEST(Lint, RulesHaveStableCodesInOrder) {
  const auto rules = lint_rules();
  EXPECT_GE(rules.size(), 30U);
  EXPECT_TRUE(std::is_sorted(rules.begin(), rules.end(),
                             [](const Rule& a, const Rule& b) { return a.code < b.code; }));
  std::set<std::string_view> codes;
  for (const Rule& rule : rules) {
    EXPECT_TRUE(codes.insert(rule.code).second) << rule.code;
    EXPECT_EQ(rule.code.size(), 5U);
    EXPECT_FALSE(rule.title.empty());
    EXPECT_FALSE(rule.reference.empty());
  }
}

TEST(Lint, EveryRuleIsDocumented) {
  const std::string page = read_text_file(kSource + "/docs/lint.md");
  for (const Rule& rule : lint_rules()) {
    std::string row =
        "| " + std::string(rule.code) + " | " + std::string(to_string(rule.severity)) + " | " +
        std::string(to_string(rule.rejected_by)) + " | " + std::string(rule.title) + " |";
    EXPECT_THAT(page, HasSubstr(row));
  }
  for (const VersionedChange& change : version_changes()) {
    EXPECT_THAT(page, HasSubstr("| " + to_string(change.since) + " | " + std::string(change.what)));
  }
}

// The four minimal configurations that a reader of DeepSpeed's source would write.
TEST(Lint, MinimalConfigurationsAreClean) {
  const std::string head =
      R"({"train_micro_batch_size_per_gpu":4,"gradient_accumulation_steps":1,"bf16":{"enabled":true},)";
  const std::string adam =
      R"("optimizer":{"type":"AdamW","params":{"lr":1e-5,"betas":[0.9,0.95],"eps":1e-8,"weight_decay":0.1}},)";
  const std::string a =
      head + R"("gradient_clipping":1.0,)" + adam +
      R"("zero_optimization":{"stage":2,"overlap_comm":true,"reduce_bucket_size":200000000,)"
      R"("round_robin_gradients":true,"offload_optimizer":{"device":"cpu","pin_memory":true}},)"
      R"("wall_clock_breakdown":true})";
  const std::string c =
      with(head, "steps\":1", "steps\":4") + adam +
      R"("zero_optimization":{"stage":2,"overlap_comm":true,"offload_optimizer":{"device":"cpu",)"
      R"("pin_memory":true},"zenflow":{"topk_ratio":0.1,"select_strategy":"step",)"
      R"("select_interval":64,"update_interval":4,"full_warm_up_rounds":0,"overlap_step":false}}})";
  const std::string d =
      head + R"("gradient_clipping":0.0,"optimizer":{"type":"AdamW","params":{"lr":1e-5}},)"
             R"("zero_optimization":{"stage":3,"sub_group_size":400000000,"reduce_bucket_size":)"
             R"(400000000,"offload_optimizer":{"device":"cpu","pin_memory":true,"ratio":0.9,)"
             R"("super_offload":true,"cpuadam_cores_perc":0.9}}})";
  const std::vector<std::pair<std::string, std::vector<LaunchTarget>>> configs = {
      {a, {LaunchTarget::kDeepSpeed, kHf, kAccelerate}},
      {kZenFlow, {LaunchTarget::kDeepSpeed}},
      {c, {kHf, kAccelerate}},
      {d, {LaunchTarget::kDeepSpeed}}};
  for (const auto& [text, targets] : configs) {
    for (const LaunchTarget target : targets) {
      LintOptions options{.target = target};
      for (const std::int64_t ranks : {0, 1, 8}) {
        if (ranks > 0) options.world_size = ranks;
        EXPECT_EQ(summary(lint(parse_ds_document(text, "ds.json"), options)), "") << text;
      }
    }
  }
}

TEST(Lint, CoreBindingStudyHasWarningsOnly) {
  const auto document = load_ds_document(kSource + "/scenarios/ds/corebinding.json");
  const auto findings = lint(document, {});
  EXPECT_EQ(summary(findings), "ZF069 18:3, ZF041 24:5, ZF043 27:30");
  for (const Finding& finding : findings) EXPECT_EQ(finding.severity, Severity::kWarning);

  DsDocument zero_offload = document;
  apply_edit(zero_offload.root, erase_key("zero_optimization.zenflow"));
  EXPECT_EQ(summary(lint(zero_offload, {})), "ZF069 18:3");
}

TEST(Lint, CoreBindingStudyCompetesForCoresUnlessBound) {
  // Two EPYC 7742 of 64 cores, two GPUs.
  const auto document = load_ds_document(kSource + "/scenarios/ds/corebinding.json");
  LintOptions options;
  options.cores_per_node = 128;
  options.gpus_per_node = 2;
  EXPECT_THAT(summary(lint(document, options)), HasSubstr("ZF079"));
  options.bind_cores_to_rank = true;
  EXPECT_THAT(summary(lint(document, options)), Not(HasSubstr("ZF079")));
}

TEST(Lint, BufferReuseMatchesDeepSpeedsSchedule) {
  // Brute force over DeepSpeed's own predicates, micro step by micro step.
  const auto reuses = [](int interval, int select, int warm_up) {
    int previous = -1;
    for (int m = 0; m < 4000; ++m) {
      const bool boundary = m + 1 < warm_up || (m + 1 - warm_up) % interval == 0 ||
                            (select != 0 && (m + 1) % select == 0);
      if (!boundary || m < warm_up) continue;
      if (previous >= 0 && (previous / interval) % 2 == (m / interval) % 2) return true;
      previous = m;
    }
    return false;
  };
  for (int interval = 1; interval <= 6; ++interval) {
    for (int select = 0; select <= 20; ++select) {
      if (select != 0 && select < interval) continue;
      for (int warm_up = 0; warm_up <= 9; ++warm_up) {
        std::string text = with(kZenFlow, "\"select_interval\": 64",
                                "\"select_interval\": " + std::to_string(select));
        text = with(text, "\"update_interval\": 4",
                    "\"update_interval\": " + std::to_string(interval));
        text = with(text, "\"full_warm_up_rounds\": 4",
                    "\"full_warm_up_rounds\": " + std::to_string(warm_up));
        const bool found =
            summary(lint(parse_ds_document(text, "d"), {})).find("ZF042") != std::string::npos;
        EXPECT_EQ(found, reuses(interval, select, warm_up)) << text;
      }
    }
  }
}

TEST(Lint, FixedFilesLintWithoutWhatWasFixed) {
  for (const Case& c : all_cases()) {
    const std::string text = text_of(c);
    const DsDocument document = parse_ds_document(text, "ds.json");
    const LintOptions options = options_of(c);
    const LintFix fixed = fix(document, options);
    const auto left = lint(parse_ds_document(render_json(fixed.root), "fixed.json"), options);
    for (const Finding& finding : left) {
      EXPECT_FALSE(finding.fixable) << finding.code << " in\n" << render_json(fixed.root);
    }
    const auto before = lint(document, options);
    const bool fixable = std::any_of(before.begin(), before.end(),
                                     [](const Finding& finding) { return finding.fixable; });
    EXPECT_EQ(fixable, !fixed.changes.empty()) << text;
    if (!fixable) {
      EXPECT_EQ(render_json(fixed.root), render_json(document.root));
    }
  }
}

/// "a.b[0]" -> its text, for every leaf and empty container, in order.
void flatten(const Node& node, const std::string& path,
             std::vector<std::pair<std::string, std::string>>& out) {
  if (node.items.empty() && node.entries.empty()) out.emplace_back(path, render_json(node));
  for (const Node& item : node.items) flatten(item, path + "[]", out);
  for (const Node::Entry& entry : node.entries) {
    flatten(entry.value, path.empty() ? entry.key : path + "." + entry.key, out);
  }
}

TEST(Lint, FixesNothingButWhatIsNamed) {
  const std::string unusual =
      "  \"größe 日本\": {\"deep\": [1, [], {}, {\"x\": [null]}], \"\": \"\\u0001\\\\\\\"/é\"},\n"
      "  \"numbers\": [1e-5, 5e8, 2.0, -0, 1E+05, 0.10, " +
      std::string(300, '9') + ", 123456789012345678901234567890],\n";
  std::size_t fixed_documents = 0;
  for (const Case& c : all_cases()) {
    std::string text = text_of(c);
    const std::size_t first = text.find("  \"");
    if (!text.starts_with('{') || first == std::string::npos) continue;
    text.insert(first, unusual);
    const DsDocument document = parse_ds_document(text, "ds.json");
    const LintOptions options = options_of(c);
    const LintFix fixed = fix(document, options);
    if (fixed.changes.empty()) continue;
    ++fixed_documents;
    // Strict JSON that says the same when it is read and written again.
    const std::string out = render_json(fixed.root);
    EXPECT_EQ(render_json(parse_json(out, "fixed.json")), out);
    const auto is_changed = [&fixed](const std::string& path) {
      return std::any_of(fixed.changes.begin(), fixed.changes.end(), [&path](const auto& change) {
        const std::string key = change.substr(6, change.find(' ', 6) - 6);
        return path == key || path.starts_with(key + ".") || key.starts_with(path + ".");
      });
    };
    std::vector<std::pair<std::string, std::string>> before;
    std::vector<std::pair<std::string, std::string>> after;
    flatten(document.root, "", before);
    flatten(fixed.root, "", after);
    for (auto* leaves : {&before, &after}) {
      std::erase_if(*leaves, [&](const auto& leaf) { return is_changed(leaf.first); });
    }
    EXPECT_EQ(before, after) << text;
  }
  EXPECT_GE(fixed_documents, 40U);
}

TEST(Lint, FixesManyThingsAtOnceAndKeepsTheRest) {
  const std::string text = R"({ // mine
  "my_block": {"b": 500000000, "a": [1, {"x": null}]},
  "train_micro_batch_size_per_gpu": 1,
  "bf16": {"enabled": "true"},
  "nebula": {},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5, "adam_w_mode": true}},
  "zero_optimization": {"stage": 2, "cpu_offload": true,
    "zenflow": {"overlap_step": true, "select_interval": 10, "update_interval": 4}}
})";
  const LintFix fixed = fix(parse_ds_document(text, "ds.json"), {});
  const std::string out = render_json(fixed.root);
  EXPECT_THAT(out, HasSubstr("\"b\": 500000000,\n    \"a\": [\n      1,"));
  EXPECT_THAT(out, Not(HasSubstr("nebula")));
  EXPECT_THAT(out, HasSubstr("\"lr\": 1e-5\n"));
  EXPECT_THAT(fixed.changes, Contains("ZF004 nebula removed"));
  EXPECT_EQ(summary(lint(parse_ds_document(out, "f"), {})), "ZF010 2:3");
}

TEST(Lint, WrongTypesAnywhereNeverCrash) {
  const std::vector<std::string> values = {"null",
                                           "[]",
                                           "{}",
                                           "\"x\"",
                                           "-1",
                                           "1e300",
                                           "true",
                                           "[[1]]",
                                           "\"auto\"",
                                           "0.5",
                                           "\"\"",
                                           "9200000000000000000",
                                           "-9200000000000000000"};
  const DsDocument document = parse_ds_document(kZenFlow, "ds.json");
  std::vector<std::string> paths = {"zero_optimization",
                                    "zero_optimization.zenflow",
                                    "zero_optimization.offload_optimizer",
                                    "optimizer",
                                    "optimizer.params",
                                    "optimizer.type",
                                    "scheduler",
                                    "scheduler.params.warmup_num_steps",
                                    "gradient_allreduce_op",
                                    "bf16",
                                    "fp16",
                                    "train_batch_size",
                                    "gradient_accumulation_steps",
                                    "data_types"};
  for (const char* key : {"topk_ratio", "select_strategy", "select_interval", "update_interval",
                          "overlap_step", "offload", "full_warm_up_rounds", "steps_per_epoch"}) {
    paths.push_back(std::string("zero_optimization.zenflow.") + key);
  }
  for (const std::string& path : paths) {
    for (const std::string& value : values) {
      for (const LaunchTarget target : {LaunchTarget::kDeepSpeed, kHf, kAccelerate}) {
        for (const Version& version : {Version{0, 17, 5}, Version{0, 19, 8}}) {
          DsDocument broken = document;
          apply_edit(broken.root, set_key(path, value));
          LintOptions options{.version = version, .target = target, .notes = true};
          options.world_size = 4;
          EXPECT_NO_THROW((void)lint(broken, options)) << path << value;
          EXPECT_NO_THROW((void)fix(broken, options)) << path << value;
        }
      }
    }
  }
}

/// What releases before 0.17.5 read differently, in files that need no ZenFlow.
TEST(Versions, OlderOnesReadTheirOwnKeys) {
  const auto codes = [](const std::string& zero, const char* version,
                        const std::string& more = "") {
    const std::string text = R"({"train_batch_size": 8, "bf16": {"enabled": true, "my_key": 1},)" +
                             more + R"("zero_optimization": {)" + zero + "}}";
    std::string found;
    LintOptions options{.version = parse_version(version)};
    for (const Finding& one : lint(parse_ds_document(text, "ds.json"), options)) {
      if (one.rejected_by == RejectedBy::kConfig)
        found += std::string(one.code) + " " + one.path + ";";
    }
    return found;
  };
  // fp16 and bf16 were not checked.
  EXPECT_EQ(codes("", "0.17.0"), "");
  EXPECT_EQ(codes("", "0.17.1"), "ZF002 bf16.my_key;");
  // pydantic 1 cuts off fractions, and takes [] and "" for {}.
  EXPECT_EQ(
      codes(R"("sub_group_size": 1.5, "offload_param": [], "offload_optimizer": "")", "0.14.5"),
      "");
  EXPECT_EQ(codes(R"("stage": 2, "sub_group_size": 1.5)", "0.15.0"),
            "ZF005 zero_optimization.sub_group_size;");
  EXPECT_EQ(codes(R"("stage": "2")", "0.14.5"), "ZF005 zero_optimization.stage;");
  EXPECT_EQ(codes(R"("stage": "2")", "0.15.0"), "");
  // Keys that came later. Of a block that is not there only the block is named.
  EXPECT_EQ(codes(R"("zenflow": {"topk_ratio": 0.1})", "0.17.0"),
            "ZF003 zero_optimization.zenflow;");
  EXPECT_EQ(codes(R"("stage3_module_granularity_threshold": 1)", "0.15.4"),
            "ZF003 zero_optimization.stage3_module_granularity_threshold;");
  EXPECT_EQ(codes(R"("stage3_module_granularity_threshold": 1)", "0.16.0"), "");
  EXPECT_EQ(codes(R"("offload_optimizer": {"device": "cpu", "super_offload": true})", "0.17.0"),
            "ZF003 zero_optimization.offload_optimizer.super_offload;");
  const std::string bf16 = R"("communication_data_type": "bf16",)";
  EXPECT_EQ(codes("", "0.14.0", bf16), "ZF008 communication_data_type;");
  EXPECT_EQ(codes("", "0.14.1", bf16), "");
  const std::string sequence = R"("seq_parallel_communication_data_type": "x",)";
  EXPECT_EQ(codes("", "0.16.4", sequence), "") << "it was called seq_parallel_comm_data_type";
  EXPECT_EQ(codes("", "0.16.5", sequence), "ZF008 seq_parallel_communication_data_type;");
}

TEST(Versions, KnowTheirRange) {
  EXPECT_EQ(to_string(newest_version()), "0.19.8");
  EXPECT_EQ(known_versions().front(), kOldestVersion);
  EXPECT_TRUE(has_change({0, 19, 2}, Change::kZenFlowPrologue));
  EXPECT_FALSE(has_change({0, 19, 1}, Change::kZenFlowPrologue));
  for (const char* text : {"0.19.9", "0.12.5", "latest", "", "0.19"}) {
    try {
      (void)parse_version(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      EXPECT_THAT(error.what(), HasSubstr("from 0.12.6 (the oldest known) to 0.19.8"));
    }
  }
  EXPECT_THROW((void)parse_target("hugging"), Error);
}

}  // namespace
}  // namespace zenflow::sim
