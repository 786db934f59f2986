// What zenflow-tune tells its user: true, in the objective's terms, and enough to tell settings
// apart.
#include <cmath>
#include <filesystem>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/support/tune_program.h"

namespace zenflow::testing {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

/// The first line that begins with `name`, of the table of comparison.
std::string row_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name + "  ")) return line;
  }
  return "";
}

std::string line_with(const std::string& text, const std::string& words) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(words) != std::string::npos) return line;
  }
  return "";
}

class TuneSummary : public Tune {
 protected:
  /// Both summaries.
  [[nodiscard]] std::pair<std::string, json> tuned(std::vector<std::string> arguments) const {
    std::filesystem::remove_all(folder_ / "out");
    arguments.insert(arguments.end(), {"-o", "out"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return {content("out/summary.txt"), json::parse(content("out/summary.json"))};
  }
  [[nodiscard]] std::pair<std::string, json> tuned_small(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kScenario);
    arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
    return tuned(arguments);
  }
  /// The published file, changed.
  void write_base(const std::string& from, const std::string& to) const {
    std::string base = file_content(kBase);
    ASSERT_NE(base.find(from), std::string::npos) << from;
    folder_.write("base.json", base.replace(base.find(from), from.size(), to));
  }
};

// Without offloading, which suffices, nothing overlaps with the GPU: it is slower than the user's,
// whose windows are so long that the GPU never waits.
TEST_F(TuneSummary, CallsALossALoss) {
  const std::vector<std::string> published = {kSource + "/scenarios/qwen2_5_3b_2xa100_40g.yaml",
                                              "--schedule",
                                              "zenflow",
                                              "--vary",
                                              "update_interval=16",
                                              "--set",
                                              "update_interval=16",
                                              "--front-within",
                                              "0"};
  const auto& [loss, said] = tuned(published);
  ASSERT_LT(said["speedup"], 0.99);
  EXPECT_THAT(loss, AllOf(HasSubstr("\nLoss: "), HasSubstr(" times as long"),
                          Not(HasSubstr("Gain: ")), Not(HasSubstr("times as fast"))));
  const auto& [gain, better] = tuned_small({});
  ASSERT_GT(better["speedup"], 1.01);
  EXPECT_THAT(gain,
              AllOf(HasSubstr("\nGain: "), HasSubstr(" times as fast"), Not(HasSubstr("Loss: "))));
}

TEST_F(TuneSummary, SpeaksOfMoneyWhereThatIsTheObjective) {
  const auto& [text, said] = tuned_small({"--objective", "cost_per_token", "--price", "2", "--vary",
                                          "gpus=1,2,4", "--vary", "stage=1,2,3"});
  const auto cost = [](const json& of) {
    const double gpus = of["setting"]["gpus"];
    return 2 * gpus / 3600 / of["result"]["tokens_per_second"].get<double>() * 1e6;
  };
  const double before = said["baseline"]["cost_per_million_tokens"];
  const double after = said["chosen"]["cost_per_million_tokens"];
  EXPECT_NEAR(before, cost(said["baseline"]), 1e-6);
  EXPECT_NEAR(after, cost(said["chosen"]), 1e-6);
  EXPECT_NEAR(said["fastest"]["cost_per_million_tokens"], cost(said["fastest"]), 1e-6);
  const auto shown = [](double money) {
    std::ostringstream number;
    number << std::setprecision(4) << money;
    return number.str();
  };
  EXPECT_THAT(line_with(text, "Gain: "),
              AllOf(HasSubstr(shown(after) + " instead of " + shown(before)),
                    HasSubstr("in the currency of --price"), HasSubstr(" % less ")));
  EXPECT_THAT(line_with(text, "tokens/s"), HasSubstr("cost/1M tokens"));
  EXPECT_THAT(row_of(text, "chosen"), HasSubstr(shown(after)));
  EXPECT_THAT(row_of(text, "yours"), AllOf(HasSubstr(shown(before)), HasSubstr("gpus 4")));
  EXPECT_THAT(text, AllOf(Not(HasSubstr("fastest")), Not(HasSubstr("less time")),
                          HasSubstr("cost against chosen"), HasSubstr("accumulation ")));
  // Runners-up have the same number of tokens, but not of GPUs.
  for (const json& one : said["runners_up"]) {
    const std::string gpus = "gpus " + one["setting"]["gpus"].dump();
    EXPECT_THAT(text, HasSubstr(gpus));
    EXPECT_NEAR(one["difference"].get<double>(), cost(one) / after - 1, 1e-6);
  }
  // What they share is not said, nor what the micro-batch says already.
  const auto& [plain, other] = tuned_small({"--vary", "micro_batch_size_per_gpu=2,4"});
  for (const char* row : {"yours", "chosen"}) {
    EXPECT_THAT(row_of(plain, row), AllOf(HasSubstr("micro-batch 4"), Not(HasSubstr("gpus")),
                                          Not(HasSubstr("accumulation"))));
  }
  EXPECT_THAT(plain, Not(HasSubstr("cost/1M")));
}

TEST_F(TuneSummary, SpeaksOfTokensWhereTheyAreTheObjective) {
  const auto& [text, said] = tuned_small({"--objective", "tokens_per_second"});
  const auto shown = [&said = said](const char* of) {
    return std::to_string(std::llround(said[of]["result"]["tokens_per_second"].get<double>()));
  };
  EXPECT_THAT(line_with(text, "Gain: "),
              HasSubstr(shown("chosen") + " tokens/s instead of " + shown("baseline")));
  EXPECT_THAT(text, Not(HasSubstr("less time")));
}

// DeepSpeed would train in fp32, whatever the scenario says.
TEST_F(TuneSummary, RefusesABaseFileOfAnotherPrecision) {
  const std::string enabled = "\"enabled\": true";
  write_base(enabled, "\"enabled\": false");
  const std::vector<std::string> job = {kScenario, "--base", "base.json", "-o", "out"};
  expect_refused(
      job, 2,
      AllOf(HasSubstr("base.json:"), HasSubstr("neither bf16 nor fp16"),
            HasSubstr("training.dtype is bf16"), HasSubstr("\"bf16\": {\"enabled\": true}"),
            HasSubstr("training.dtype=fp32")));
  for (const std::vector<std::string>& right :
       {std::vector<std::string>{"--set", "training.dtype=fp32"},
        {"--schedule", "zenflow"}}) {  // zenflow-train reads no DeepSpeed file
    std::vector<std::string> arguments = {"--base", "base.json", "--front-within", "0"};
    arguments.insert(arguments.end(), right.begin(), right.end());
    const Outcome outcome = run_small(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  for (const std::string target : {"hf", "accelerate"}) {
    expect_refused({kScenario, "--base", "base.json", "--target", target, "-o", "out"}, 2,
                   HasSubstr("neither bf16 nor fp16"));
  }
}

// Both fill in "auto" and add a block that is not there; the command says which.
TEST_F(TuneSummary, LeavesThePrecisionToALauncherThatDecidesIt) {
  for (const std::string block :
       {"\"bf16\": {\"enabled\": \"auto\"},", "\"fp16\": {\"enabled\": false},", ""}) {
    write_base("\"bf16\": {\n    \"enabled\": true\n  },", block);
    for (const std::string target : {"hf", "accelerate"}) {
      const Outcome outcome = run_small(
          {"--base", "base.json", "--target", target, "--front-within", "0", "-o", "out", "-f"});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_THAT(content("out/cmd_optimal.txt"),
                  HasSubstr(target == "hf" ? " --bf16\n" : " --mixed_precision bf16 "));
      std::filesystem::remove_all(folder_ / "out");
    }
  }
  expect_refused({kScenario, "--base", "base.json", "-o", "out"}, 2,
                 HasSubstr("neither bf16 nor fp16"));
}

TEST_F(TuneSummary, LeavesThePrecisionToAFileThatSaysIt) {
  ASSERT_EQ(run_small({"--target", "accelerate", "--front-within", "0", "-o", "out"}).code, 0);
  EXPECT_THAT(content("out/cmd_optimal.txt"), Not(HasSubstr("--mixed_precision")));
}

// accelerate and Trainer fill in hidden_size squared, not DeepSpeed's default.
TEST_F(TuneSummary, KnowsWhatLaunchersPutInThePlaceOfAuto) {
  write_base("\"reduce_bucket_size\": 200000000", "\"reduce_bucket_size\": \"auto\"");
  std::string base = content("base.json");
  folder_.write("base.json", base.replace(base.find("\"stage\": 2"), 10, "\"stage\": \"auto\""));
  for (const std::string target : {"hf", "accelerate"}) {
    const std::vector<std::string> arguments = {"--base",         "base.json", "--target", target,
                                                "--front-within", "0",         "--vary"};
    const auto with_bucket = [&](const std::string& size) {
      std::vector<std::string> all = arguments;
      all.push_back("reduce_bucket_size=" + size);
      return tuned_small(all).second;
    };
    const json summary = with_bucket("500000000");
    EXPECT_EQ(summary["baseline"]["setting"]["reduce_bucket_size"], 4096 * 4096);
    EXPECT_EQ(summary["baseline"]["setting"]["stage"], 2);
    json zero = json::parse(content("out/ds_config_optimal.json"))["zero_optimization"];
    EXPECT_EQ(zero["reduce_bucket_size"], 500000000);
    EXPECT_EQ(zero["stage"], summary["chosen"]["setting"]["stage"]);
    // What is filled in anyway need not be written.
    with_bucket("16777216");
    zero = json::parse(content("out/ds_config_optimal.json"))["zero_optimization"];
    EXPECT_EQ(zero["reduce_bucket_size"], "auto");
  }
}

TEST_F(TuneSummary, ComparesAMeasuredStepWithOneOfItsBatchAlone) {
  expect_refused({kScenario, "--measured-step", "2 s", "--global-batch", "32", "-o", "out"}, 2,
                 HasSubstr("--measured-step: is of your own setting, whose step has 16 sequences, "
                           "but --global-batch says 32"));
  const auto& [text, said] =
      tuned_small({"--measured-step", "2 s", "--global-batch", "16", "--front-within", "0"});
  EXPECT_THAT(text, HasSubstr("Measured today: 2.00 s"));
}

TEST_F(TuneSummary, SaysWhatOfAMeasuredStepIsOffAndNeverAnErrorBelowIt) {
  const json alone = tuned_small({"--front-within", "0"}).second;
  const double own = alone["baseline"]["result"]["step_time_ms"].get<double>();
  const auto [text, said] =
      tuned_small({"--measured-step", std::to_string(1.5 * own) + " ms", "--front-within", "0"});
  EXPECT_THAT(text, HasSubstr("First to look at: "));
  EXPECT_NEAR(said["speedup_relative_error"].get<double>(), 0.5, 1e-3);
  EXPECT_NEAR(said["chosen"]["relative_error"].get<double>(), 0.5, 1e-3);
  const json& part = said["baseline"]["first_to_look_at"];
  EXPECT_NEAR(part["needed_ms"].get<double>() - part["predicted_ms"].get<double>(), 0.5 * own,
              1e-3 * own);
  EXPECT_EQ(said["baseline"]["reliable"], true);
}

TEST_F(TuneSummary, WritesNothingToLaunchThatIsNotToBeReliedOn) {
  const double own = tuned_small({"--front-within", "0"})
                         .second["baseline"]["result"]["step_time_ms"]
                         .get<double>();
  std::vector<std::string> asked = {kScenario, "--measured-step", std::to_string(2.1 * own) + " ms",
                                    "-o", "far"};
  asked.insert(asked.end(), kSmall.begin(), kSmall.end());
  const Outcome refused = run(asked);
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, HasSubstr("off by a factor of 2.1"));
  EXPECT_THAT(refused.out, HasSubstr("do not rely on what was chosen"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "far/summary.txt"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "far/ds_config_optimal.json"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "far/cmd_optimal.txt"));
  EXPECT_THAT(content("far/summary.txt"), Not(HasSubstr("Command: ")));
  EXPECT_EQ(json::parse(content("far/summary.json"))["written"], false);
  asked.emplace_back("-f");
  std::vector<std::string> anyway = asked;
  anyway.emplace_back("--anyway");
  EXPECT_EQ(run(anyway).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "far/ds_config_optimal.json"));
  EXPECT_EQ(json::parse(content("far/summary.json"))["written"], true);
  // Those are not left beside another summary.
  EXPECT_EQ(run(asked).code, 4);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "far/ds_config_optimal.json"));
  EXPECT_EQ(run(anyway).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "far/ds_config_optimal.json"));
}

TEST_F(TuneSummary, ListsWhatSetChangesAmongTheChanges) {
  const auto& [text, said] = tuned_small(
      {"--set", "full_warm_up_rounds=8", "--set", "deepspeed.gradient_clipping=0.5", "--vary",
       "placement=zenflow", "--vary", "full_warm_up_rounds=8", "--front-within", "0"});
  const std::string changes = text.substr(text.find("Changes to the DeepSpeed file"));
  EXPECT_THAT(changes, AllOf(HasSubstr("\n  zero_optimization.zenflow.full_warm_up_rounds = 8\n"),
                             HasSubstr("\n  gradient_clipping = 0.5\n")));
  EXPECT_THAT(said["changes"].get<std::vector<std::string>>(),
              ::testing::Contains("gradient_clipping = 0.5"));
}

// What says the same stays.
TEST_F(TuneSummary, RemovesOnlyWhatIsInForce) {
  json base = json::parse(file_content(kSource + "/scenarios/ds/zero2_offload.json"));
  json& zero = base["zero_optimization"];
  zero["stage"] = 2;
  zero["offload_optimizer"] = {{"device", "none"}, {"pin_memory", true}};
  zero["offload_param"] = {{"device", "none"}};
  zero["zenflow"] = nullptr;
  folder_.write("base.json", base.dump(2));
  const auto& [text, said] =
      tuned({kScenario, "--base", "base.json", "--vary", "placement=gpu", "--vary", "stage=2",
             "--vary", "reduce_bucket_size=200000000", "--vary", "micro_batch_size_per_gpu=4"});
  EXPECT_EQ(said["changes"], json::array());
  EXPECT_EQ(content("out/ds_config_optimal.json"), content("base.json"));
}

// A file of DeepSpeed is one whatever its name is, and a scenario is none.
TEST_F(TuneSummary, ChangesTheFileThatTheScenarioNames) {
  const std::string base = "// ours\n" + file_content(kBase);
  folder_.write("ds_config.conf", base);
  const std::string settings =
      "\"name\": \"job\", \"model\": \"" + kSource +
      "/scenarios/models/llama2_7b.json\", \"hardware\": \"zenflow_a100x4\", \"gpus\": 4, "
      "\"training\": {\"micro_batch_size_per_gpu\": 4, \"sequence_length\": 512, \"dtype\": "
      "\"bf16\"}, \"schedules\": [\"zenflow\"], \"deepspeed\": ";
  const auto tuned_from = [&](const std::string& name, const std::string& deepspeed) {
    folder_.write(name, "{" + settings + deepspeed + "}");
    std::vector<std::string> arguments = {name, "--front-within", "0"};
    arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
    return tuned(arguments).first;
  };
  EXPECT_THAT(tuned_from("job.yaml", "\"ds_config.conf\""),
              HasSubstr("Changes to the DeepSpeed file ds_config.conf:\n"));
  EXPECT_THAT(content("out/ds_config_optimal.json"), ::testing::StartsWith("// ours\n{"));
  EXPECT_THAT(tuned_from("job.json", file_content(kBase)),
              HasSubstr("Changes to the DeepSpeed file (the scenario has no file of its own):\n"));
  EXPECT_FALSE(json::parse(content("out/ds_config_optimal.json")).contains("model"));
}

// DeepSpeed divides the batch by what is stated.
TEST_F(TuneSummary, DerivesTheStepsThatTheFileLeavesOpen) {
  json base = json::parse(file_content(kSource + "/scenarios/ds/zero2_offload.json"));
  base.erase("gradient_accumulation_steps");
  base["train_batch_size"] = 64;
  base["train_micro_batch_size_per_gpu"] = 4;
  folder_.write("base.json", base.dump());
  const auto& [text, said] = tuned_small({"--base", "base.json", "--front-within", "0"});
  EXPECT_EQ(said["global_batch"], 64);
  EXPECT_EQ(said["baseline"]["setting"]["gradient_accumulation_steps"], 4);
  EXPECT_FALSE(said["baseline"].contains("not_proposed"));
  EXPECT_FALSE(
      json::parse(content("out/ds_config_optimal.json")).contains("gradient_accumulation_steps"));
  base["train_batch_size"] = 50;
  folder_.write("base.json", base.dump());
  expect_refused({kScenario, "--base", "base.json", "-o", "uneven"}, 2,
                 HasSubstr("50 is not micro batch 4 x gradient_accumulation_steps 3 x 4 GPUs"));
}

TEST_F(TuneSummary, SaysOfSelectionsOnlyWhatIsTrueOfTheUsersOwn) {
  const std::string not_proposed = "not among what is proposed";
  for (const std::string scenario : {"zero_offload_10b_1xv100", "llama2_70b_8xh100"}) {
    const auto& [text, said] = tuned({kSource + "/scenarios/" + scenario + ".yaml", "--vary",
                                      "topk_ratio=0.1", "--front-within", "0"});
    EXPECT_THAT(text, Not(HasSubstr(not_proposed))) << scenario;
    EXPECT_FALSE(said["baseline"].contains("not_proposed"));
  }
  std::string base = file_content(kBase);
  const auto& [text, said] = tuned_small(
      {"--set", "select_strategy=step", "--set", "select_interval=0", "--front-within", "0"});
  EXPECT_THAT(line_with(text, not_proposed), HasSubstr("it selects columns once and never again"));
  const auto& [searched, none] =
      tuned_small({"--set", "select_strategy=step", "--set", "select_interval=0", "--vary",
                   "select_interval=0", "--front-within", "0"});
  EXPECT_THAT(searched, Not(HasSubstr(not_proposed)));
  const auto& [silent, unsaid] = tuned({kSource + "/scenarios/qwen2_5_3b_2xa100_40g.yaml",
                                        "--schedule", "zenflow", "--front-within", "0"});
  EXPECT_THAT(line_with(silent, not_proposed),
              HasSubstr("it does not say after how many steps columns are selected again"));
}

TEST_F(TuneSummary, CountsInfeasibleSimulationsAmongSimulations) {
  const auto& [text, said] =
      tuned({kScenario, "--objective", "cost_per_token", "--price", "2", "--vary", "gpus=1,2,3,4",
             "--vary", "topk_ratio=0.1", "--max-gpu-memory", "40 GiB"});
  const json& search = said["search"];
  const std::uint64_t simulated = search["infeasible_when_simulated"];
  const std::uint64_t equal = search["equal_to_infeasible_when_simulated"];
  ASSERT_GT(simulated, 0U);
  ASSERT_GT(equal, simulated);
  EXPECT_LE(simulated, search["simulated"].get<std::uint64_t>());
  EXPECT_LE(equal, search["equal_to_simulated"].get<std::uint64_t>());
  std::uint64_t reasons = 0;
  for (const auto& [why, count] : search["infeasible_by_reason"].items()) {
    reasons += count.get<std::uint64_t>();
  }
  EXPECT_EQ(reasons, search["infeasible"].get<std::uint64_t>() + simulated + equal);
  EXPECT_THAT(text, HasSubstr("Found infeasible when simulated: " + std::to_string(simulated) +
                              ", and " + std::to_string(equal) + " equal to "));
}

TEST_F(TuneSummary, RefusesAStepThatTakesNoTime) {
  for (const char* none : {"0 s", "0 ms"}) {
    expect_refused({kScenario, "--measured-step", none}, 2,
                   AllOf(HasSubstr("--measured-step"), HasSubstr("above zero")));
  }
}

/// Settings by what the summary calls them; the same name may only be the same setting.
TEST_F(TuneSummary, TellsShownSettingsApart) {
  // Without offloading buckets differ in memory alone, as far as can be seen.
  const auto& [text, said] = tuned({kScenario, "--vary", "stage=1,2", "--vary", "topk_ratio=0.1"});
  std::map<std::string, json> known;
  const auto note = [&, &text = text](const std::string& row, const json& of) {
    const std::string line = row_of(text, row);
    ASSERT_NE(line, "") << row;
    const std::size_t from = line.find_first_not_of(' ', row.size());
    const std::string name = line.substr(from, line.find("  ", from) - from);
    const auto& [at, is_new] = known.emplace(name, of["setting"]);
    EXPECT_TRUE(is_new || at->second == of["setting"]) << name << "\n" << of["setting"];
  };
  note("chosen", said["chosen"]);
  if (said["fastest"]["setting"] != said["chosen"]["setting"]) note("fastest", said["fastest"]);
  if (said["best_by_placement"]["gpu"]["setting"] != said["chosen"]["setting"]) {
    note("best gpu", said["best_by_placement"]["gpu"]);
  }
  note("yours", said["baseline"]);
  note("published", said["published"]);
  EXPECT_THAT(text, AllOf(Not(HasSubstr(" 0.0 % less")), Not(HasSubstr(" 0.0 % more")),
                          Not(HasSubstr("-0.0 %")), Not(HasSubstr("+0.0 %"))));
}

TEST_F(TuneSummary, NamesNoFlagThatItDoesNotHave) {
  const auto& [text, said] = tuned_small({"--vary", "placement=zenflow", "--front-within", "0"});
  EXPECT_THAT(line_with(text, "ZF082"),
              AllOf(HasSubstr("PyTorch 2.1 or newer"), Not(HasSubstr("--"))));
}

// Each row's effect is that of one standard error, and all are independent.
TEST_F(TuneSummary, TheErrorIsTheRootOfTheSumOfSquaresOfWhatIsShown) {
  const auto& [text, said] = tuned_small({"--vary", "placement=zenflow", "--front-within", "0"});
  double sum = 0;
  for (const json& one : said["numbers"]) {
    const double effect = one["elasticity"].get<double>() * one["relative_error"].get<double>();
    sum += effect * effect;
  }
  ASSERT_GT(sum, 0);
  EXPECT_NEAR(said["chosen"]["relative_error"].get<double>(), std::sqrt(sum), 1e-6);
}

// For eyes: a file has no colours, and neither has a pipe unless told.
TEST_F(TuneSummary, HasColoursOnlyWhereTheyAreAskedFor) {
  const std::string bold = "\033[1m";
  std::vector<std::string> arguments = {kScenario, "-o", "out", "-f"};
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  const auto of = [&](std::vector<std::string> more) {
    more.insert(more.begin(), arguments.begin(), arguments.end());
    return run(more);
  };
  const Outcome plain = of({"-v"});
  ASSERT_EQ(plain.code, 0) << plain.err;
  EXPECT_EQ(plain.out, content("out/summary.txt"));
  EXPECT_THAT(plain.out, Not(HasSubstr(bold)));
  EXPECT_THAT(plain.err, HasSubstr("Searched "));
  const Outcome coloured = of({"--color", "always"});
  EXPECT_THAT(coloured.out, HasSubstr(bold));
  EXPECT_EQ(content("out/summary.txt"), plain.out);
  EXPECT_THAT(coloured.err, Not(HasSubstr("Searched ")));
  EXPECT_EQ(of({"--color", "never"}).out, plain.out);
  EXPECT_EQ(of({"--color", "mauve"}).code, 2);
}

// No slower than the user's own or the published setting is a limit of its own within the slack.
TEST_F(TuneSummary, SaysWhichSettingsNoChoiceMayBeSlowerThan) {
  const auto& [own, said] =
      tuned({kSource + "/scenarios/opt_125m_this_host.yaml", "--front-within", "0"});
  const auto step_of = [](const json& summary, const char* which) {
    return summary[which]["result"]["step_time_ms"].get<double>();
  };
  ASSERT_LT(step_of(said, "baseline"), 1.02 * step_of(said, "fastest")) << "else it limits nothing";
  EXPECT_THAT(line_with(own, "Chosen over"),
              HasSubstr("within 2 %, and no slower than yours, the one of least risk"));
  const auto& [loose, more] = tuned_small({});
  ASSERT_GT(step_of(more, "baseline"), 1.02 * step_of(more, "fastest"));
  EXPECT_THAT(loose, Not(HasSubstr("no slower than yours")));
  // Faster than anything that may be chosen, it limits nothing.
  const auto& [slower, last] =
      tuned({kScenario, "--schedule", "zenflow", "--offload-when", "faster", "--vary",
             "placement=zenflow", "--vary", "topk_ratio=0.1", "--vary", "update_interval=1,2,3",
             "--vary", "overlap_step=true", "--slack", "0.5", "--front-within", "0"});
  ASSERT_LT(step_of(last, "baseline"), step_of(last, "chosen"));
  EXPECT_THAT(slower, Not(HasSubstr("no slower than yours")));
}

// What nobody fills in is named, and where to read of the others.
TEST_F(TuneSummary, NamesTheKeyThatNoCandidateGetsOver) {
  write_base("\"gradient_clipping\": 1.0", "\"gradient_clipping\": \"auto\"");
  std::vector<std::string> arguments = {kScenario, "--base", "base.json"};
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 3) << outcome.out;
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("lint ZF101: \"auto\" that nobody fills in (gradient_clipping)"),
                    HasSubstr("; of the base file zenflow-sim lint --target deepspeed says more")));
}

TEST_F(TuneSummary, CountsOneAsOne) {
  const auto& [text, said] =
      tuned({kScenario, "--set", "gpus=1", "--set", "training.micro_batch_size_per_gpu=1", "--set",
             "model=" + kSource + "/scenarios/models/qwen2_5_1_5b.json", "--vary", "placement=gpu",
             "--vary", "stage=2", "--vary", "overlap_comm=true", "--vary",
             "bind_cores_to_rank=false", "--vary", "reduce_bucket_size=50000000"});
  EXPECT_THAT(text, AllOf(HasSubstr("1 sequence of 512 tokens"), HasSubstr(" a step of 1 sequence"),
                          HasSubstr("than the best: 1 setting\n")));
  for (const char* wrong : {" 1 sequences", " 1 settings", " 1 steps"}) {
    EXPECT_THAT(text, Not(HasSubstr(wrong)));
  }
}

TEST_F(TuneSummary, NamesTheFolderThatIsMissing) {
  for (const char* folder : {"a/b/c", "a/b/c/"}) {
    expect_refused({kScenario, "-o", folder}, 2, HasSubstr("there is no folder a/b\n"));
  }
  expect_refused({kScenario, "-o", ""}, 2, HasSubstr("-o: expected the name of a folder"));
}

}  // namespace
}  // namespace zenflow::testing
