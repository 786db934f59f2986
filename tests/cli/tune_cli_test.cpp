// zenflow-tune as its user meets it: files, exit codes, messages, interruption.
#include <algorithm>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <sqlite3.h>
#include <sys/stat.h>

#include "tests/support/tune_program.h"

namespace zenflow::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(Tune, WritesConfigurationCommandAndSummaries) {
  const Outcome outcome = run_small({"-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(outcome.out, content("out/summary.txt"));
  EXPECT_EQ(files(),
            (std::set<std::string>{"out", "out/cmd_optimal.txt", "out/ds_config_optimal.json",
                                   "out/study.sqlite", "out/summary.json", "out/summary.txt"}));
  const json summary = json::parse(content("out/summary.json"));
  EXPECT_EQ(summary["schema_version"], 1);
  EXPECT_EQ(summary["tool"], "zenflow-tune");
  const json config = json::parse(content("out/ds_config_optimal.json"));
  // Four A100 hold Llama-2-7B without offloading.
  EXPECT_EQ(summary["chosen"]["setting"]["placement"], "gpu");
  EXPECT_FALSE(config["zero_optimization"].contains("offload_optimizer"));
  EXPECT_FALSE(config["zero_optimization"].contains("zenflow"));
  EXPECT_EQ(config["optimizer"], json::parse(file_content(kBase))["optimizer"]);
  EXPECT_THAT(content("out/cmd_optimal.txt"),
              StartsWith("deepspeed --num_gpus 4 train.py --deepspeed --deepspeed_config "));
  const json& search = summary["search"];
  EXPECT_EQ(search["points"].get<int>(),
            search["simulated"].get<int>() + search["equal_to_simulated"].get<int>() +
                search["excluded_by_bound"].get<int>() + search["infeasible"].get<int>());
}

void write_large(const fs::path& path) {
  std::ofstream(path) << "name: large\nmodel: " ZENFLOW_SOURCE_DIR
                         "/scenarios/models/llama2_13b.json\n"
                         R"(hardware: rtx4090_desktop
gpus: 1
nodes: 1
training: {micro_batch_size_per_gpu: 1, sequence_length: 1024, dtype: bf16, activation_checkpointing: true}
deepspeed:
  train_micro_batch_size_per_gpu: 1
  bf16: {enabled: true}
  optimizer: {type: AdamW, params: {lr: 1.0e-5}}
  zero_optimization: {stage: 3, offload_optimizer: {device: cpu, pin_memory: true}}
schedules: [deepspeed-zero-offload]
)";
}

TEST_F(Tune, TakesAJobInPlaceOfAScenario) {
  const Arguments job = {
      "--ds", kBase,   "--model", "Qwen/Qwen2.5-1.5B", "--gpu", "A100-SXM4-80GB",    "--gpus",
      "2",    "--ram", "512GB",   "--cores",           "64",    "--sequence-length", "512"};
  ASSERT_EQ(run_program(Arguments{ZENFLOW_SIM, "check", "-q", "--save", "job.yaml"} + job,
                        {.folder = folder_.path()})
                .code,
            0);
  const Outcome by_flags = run(job + kSmall + Arguments{"--json"});
  EXPECT_EQ(by_flags.code, 0) << by_flags.err;
  EXPECT_THAT(by_flags.err, HasSubstr("estimated: "));
  EXPECT_EQ(by_flags.out, run(Arguments{"job.yaml", "--json"} + kSmall).out);
  const Arguments no_card = {"--model", "Qwen/Qwen2.5-1.5B"};
  expect_refused(no_card, 2, HasSubstr("--gpu: required"));
  // Without a DeepSpeed file the precision is that of the job.
  EXPECT_EQ(run(no_card + Arguments{"--gpu", "A100-80GB", "-q"} + kSmall).code, 0);
  expect_refused(job + Arguments{kScenario}, 2, HasSubstr("to change a scenario: --set"));
  expect_refused(job + Arguments{"--base", kBase}, 2, HasSubstr("that of --ds"));
  expect_refused({}, 2, HasSubstr("expected SCENARIO"));
}

/// The table `counts` of a study.
std::map<std::string, std::uint64_t> counts_of(const fs::path& study) {
  std::map<std::string, std::uint64_t> counts;
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open_v2(study.c_str(), &database, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  const auto note = [](void* to, int, char** cells, char**) {
    static_cast<std::map<std::string, std::uint64_t>*>(to)->emplace(cells[0],
                                                                    std::stoull(cells[1]));
    return 0;
  };
  EXPECT_EQ(sqlite3_exec(database, "SELECT ending, settings FROM counts", note, &counts, nullptr),
            SQLITE_OK);
  sqlite3_close(database);
  return counts;
}

TEST_F(Tune, TheStudySaysHowManySettingsMetWhichEnd) {
  ASSERT_EQ(run_small({"-o", "out"}).code, 0);
  const json search = json::parse(content("out/summary.json"))["search"];
  std::map<std::string, std::uint64_t> counts = counts_of(folder_ / "out/study.sqlite");
  EXPECT_EQ(counts["points"], search["points"]);
  EXPECT_EQ(counts["simulated"], search["simulated"]);
  EXPECT_EQ(counts["points"], counts["simulated"] + counts["equal to one simulated"] +
                                  counts["excluded by a bound"] + counts["infeasible"]);
  for (const auto& [why, settings] : search["infeasible_by_reason"].items()) {
    EXPECT_EQ(counts["infeasible: " + why], settings) << why;
  }
  // The study has the counts of the last search, even of one without an answer.
  ASSERT_EQ(run_small({"-o", "out", "-f", "--max-gpu-memory", "2 GiB"}).code, 3);
  counts = counts_of(folder_ / "out/study.sqlite");
  EXPECT_EQ(counts["infeasible"], counts["points"]);
  EXPECT_GT(counts["infeasible: limit: --max-gpu-memory"], 0U);
}

TEST_F(Tune, WritesTheSameBytesAgainAndForAnyNumberOfThreads) {
  ASSERT_EQ(run_small({"-o", "a", "--threads", "1"}).code, 0);
  ASSERT_EQ(run_small({"-o", "b", "--threads", "3"}).code, 0);
  ASSERT_EQ(run_small({"-o", "a", "-f"}).code, 0);  // from the study
  for (const char* name : {"/ds_config_optimal.json", "/summary.txt", "/summary.json"}) {
    EXPECT_EQ(content("a" + std::string(name)), content("b" + std::string(name))) << name;
  }
}

TEST_F(Tune, PrintsTheSummaryAsJson) {
  const Outcome outcome = run_small({"--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(json::parse(outcome.out)["scenario"], "llama2_7b_4xa100");
  EXPECT_EQ(files(), std::set<std::string>{});
}

TEST_F(Tune, OverwritesOnlyWhenTold) {
  ASSERT_EQ(run_small({"-o", "out"}).code, 0);
  const std::string before = content("out/summary.json");
  std::vector<std::string> again = {kScenario, "-o", "out", "--slack", "0.5"};
  again.insert(again.end(), kSmall.begin(), kSmall.end());
  expect_refused(again, 2, HasSubstr("out/ds_config_optimal.json"));
  EXPECT_EQ(content("out/summary.json"), before);
  again.emplace_back("-f");
  EXPECT_EQ(run(again).code, 0);
  EXPECT_NE(content("out/summary.json"), before);
}

TEST_F(Tune, KeepsTheBaseFileBesideWhatItTunes) {
  std::string base = file_content(kBase);
  const std::string clipping = "\"gradient_clipping\": 1.0,";
  base.replace(base.find(clipping), clipping.size(),
               "\"gradient_clipping\":   1.00, // ours\n  \"my_own\": {\"x\": [1,2]},");
  folder_.write("base.json", base);
  const Outcome outcome = run_small(
      {"--base", "base.json", "--vary", "placement=zenflow", "--front-within", "0", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const std::string written = content("out/ds_config_optimal.json");
  EXPECT_THAT(written,
              HasSubstr("\"gradient_clipping\":   1.00, // ours\n  \"my_own\": {\"x\": [1,2]},"));
  // Up to ZeRO's block nothing differs.
  const std::size_t same = base.find("\"zero_optimization\"");
  EXPECT_EQ(written.substr(0, same), base.substr(0, same));
}

TEST_F(Tune, WritesWhatTheLinterAcceptsForEveryTarget) {
  for (const std::string target : {"deepspeed", "hf", "accelerate"}) {
    for (const std::string version : {"0.18.2", "0.19.8"}) {
      const std::string out = target + version;
      const Outcome outcome = run_small(
          {"--target", target, "--deepspeed-version", version, "--front-within", "0", "-o", out});
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const Outcome lint =
          run_program({ZENFLOW_SIM, "lint", out + "/ds_config_optimal.json", "--target", target,
                       "--deepspeed-version", version, "--world-size", "4"},
                      {.folder = folder_.path()});
      EXPECT_EQ(lint.code, 0) << lint.out;
    }
  }
  // Trainer raises unless it is told what the file says.
  EXPECT_THAT(content("hf0.19.8/cmd_optimal.txt"),
              HasSubstr("--deepspeed ds_config_optimal.json --per_device_train_batch_size 4 "
                        "--gradient_accumulation_steps 1 --max_grad_norm 1.0 --learning_rate 1e-05 "
                        "--adam_beta1 0.9 --adam_beta2 0.95 --adam_epsilon 1e-08 "
                        "--weight_decay 0.1 --bf16\n"));
  EXPECT_THAT(content("accelerate0.19.8/cmd_optimal.txt"), StartsWith("accelerate launch "));
}

TEST_F(Tune, ProposesNoZenFlowToReleasesWithoutIt) {
  const Outcome outcome = run_small({"--deepspeed-version", "0.16.0", "-o", "old"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("release: ZenFlow is in DeepSpeed from 0.17.5, the job's "
                                     "release is 0.16.0"));
  EXPECT_THAT(content("old/ds_config_optimal.json"), Not(HasSubstr("zenflow")));
  const Outcome lint = run_program({ZENFLOW_SIM, "lint", "old/ds_config_optimal.json",
                                    "--deepspeed-version", "0.16.0", "--world-size", "4"},
                                   {.folder = folder_.path()});
  EXPECT_EQ(lint.code, 0) << lint.out;
}

// Their own warm-up, 4, is no multiple of most intervals, and columns are selected every 64 steps.
TEST_F(Tune, PredictsTheFileThatItWrites) {
  for (const char* name : {"mistral_7b_1xrtx4090", "opt_1_3b_1xrtx3090", "qwen2_5_7b_4xl40s"}) {
    const std::string scenario = kSource + "/scenarios/" + name + ".yaml";
    ASSERT_EQ(run({scenario, "-o", name}).code, 0);
    const json chosen = json::parse(content(std::string(name) + "/summary.json"))["chosen"];
    const double said = chosen["result"]["step_time_ms"];
    const std::map<std::string, std::string> schedules = {{"zenflow", "deepspeed-zenflow"},
                                                          {"cpu", "deepspeed-zero-offload"},
                                                          {"gpu", "deepspeed-zero"}};
    // Whether ranks are bound is in the command, not in the file.
    const std::string command = content(std::string(name) + "/cmd_optimal.txt");
    const bool binds = command.find("--bind_cores_to_rank") != std::string::npos;
    const Outcome simulated = run_program(
        {ZENFLOW_SIM, "run", scenario, "--schedule", schedules.at(chosen["setting"]["placement"]),
         "--json", "--set", std::string("launch.bind_cores_to_rank=") + (binds ? "true" : "false"),
         "--set", "deepspeed=" + (folder_ / name / "ds_config_optimal.json").string(), "--set",
         "run.warmup_steps=96", "--set", "run.steps=192"},
        {.folder = folder_.path()});
    ASSERT_EQ(simulated.code, 0) << simulated.err;
    EXPECT_NEAR(double(json::parse(simulated.out)["results"][0]["step_time_ms"]) / said, 1, 1e-4)
        << name;
  }
}

TEST_F(Tune, TellsTrainerThePrecisionThatTheFileLeavesOpen) {
  std::string base = file_content(kBase);
  for (const auto& [from, to] : std::map<std::string, std::string>{
           {"\"enabled\": true", "\"enabled\": \"auto\""},
           {"\"lr\": 1e-05", "\"lr\": \"auto\""},
           {"\"gradient_accumulation_steps\": 1", "\"gradient_accumulation_steps\": \"auto\""}}) {
    base.replace(base.find(from), from.size(), to);
  }
  folder_.write("base.json", base);
  ASSERT_EQ(
      run_small({"--base", "base.json", "--target", "hf", "--front-within", "0", "-o", "out"}).code,
      0);
  const std::string command = content("out/cmd_optimal.txt");
  EXPECT_THAT(command, AllOf(HasSubstr("--gradient_accumulation_steps 1 "), HasSubstr(" --bf16\n"),
                             Not(HasSubstr("--learning_rate")), Not(HasSubstr("auto"))));
}

// accelerate launch would start one thread for each of four ranks, on 128 cores, and cannot bind.
TEST_F(Tune, WritesOptimizerThreadsIntoTheCommand) {
  ASSERT_EQ(run_small({"--target", "accelerate", "--max-gpu-memory", "24 GiB", "-o", "out"}).code,
            0);
  EXPECT_THAT(content("out/cmd_optimal.txt"),
              StartsWith("OMP_NUM_THREADS=32 accelerate launch --use_deepspeed --num_processes 4"));
  EXPECT_THAT(content("out/summary.txt"), Not(HasSubstr("one optimizer thread")));
}

// It can be run, and is shown; but nobody would be told to run it.
TEST_F(Tune, SaysWhyTheUsersOwnSettingIsNotProposed) {
  const Outcome outcome =
      run_small({"--set", "full_warm_up_rounds=0", "--front-within", "0", "--json", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json baseline = json::parse(outcome.out)["baseline"];
  EXPECT_TRUE(baseline.contains("result"));
  EXPECT_THAT(baseline["not_proposed"].get<std::string>(), HasSubstr("lint ZF043"));
  EXPECT_THAT(content("out/summary.txt"),
              HasSubstr("Yours is not among what is proposed: lint ZF043"));
  EXPECT_THAT(run_small({}).out, Not(HasSubstr("not among what is proposed")));
}

TEST_F(Tune, StaysWithinItsLimits) {
  const Outcome outcome =
      run_small({"--vary", "placement=zenflow", "--max-staleness", "7", "--max-gpu-memory",
                 "40 GiB", "--front-within", "0", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json chosen = json::parse(outcome.out)["chosen"]["result"];
  EXPECT_LE(chosen["staleness_steps_max"].get<int>(), 7);
  EXPECT_LE(chosen["gpu_peak_bytes"].get<double>(), 40 * 0x1p30);
}

TEST_F(Tune, SaysWhyThereIsNoCandidate) {
  const Outcome outcome = run_small({"--max-gpu-memory", "2 GiB", "-o", "out"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("limit: --max-gpu-memory"), HasSubstr("no candidate"),
                                 Not(HasSubstr("says more"))));
  EXPECT_FALSE(fs::exists(folder_ / "out/ds_config_optimal.json"));
}

// 13 billion bf16 weights alone are 24 GiB: on one RTX 4090 stage 3 trains them from RAM or not at
// all, and the file that did not fit says nothing of offload_param.
TEST_F(Tune, OffloadsParametersWhereNothingElseFits) {
  const std::string scenario = (folder_ / "large.yaml").string();
  write_large(scenario);
  const Outcome outcome = run({scenario, "--set", "hardware.host.memory=512 GiB", "--front-within",
                               "0", "--json", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json summary = json::parse(outcome.out);
  EXPECT_EQ(summary["baseline"]["setting"]["offload_param"], "none");
  EXPECT_FALSE(summary["baseline"]["result"]["feasible"]);
  EXPECT_EQ(summary["chosen"]["setting"]["offload_param"], "cpu");
  const json zero = json::parse(content("out/ds_config_optimal.json"))["zero_optimization"];
  EXPECT_EQ(zero["offload_param"], (json{{"device", "cpu"}, {"pin_memory", true}}));
  const Outcome without =
      run({scenario, "--vary", "offload_param=none", "--set", "hardware.host.memory=512 GiB"});
  EXPECT_EQ(without.code, 3) << without.out;
}

TEST_F(Tune, NamesWhatWouldHelpAndIsNotSearched) {
  const std::string scenario = (folder_ / "large.yaml").string();
  write_large(scenario);
  const Outcome outcome =
      run({scenario, "--set", "training.activation_checkpointing=false", "--set",
           "training.sequence_length=4096", "--set", "hardware.host.memory=512 GiB"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("--set training.activation_checkpointing=true"),
                    HasSubstr("It fits with all of"), Not(HasSubstr("offload_param.device=cpu "))));
  // The user's limits count as the machine's do.
  const Outcome limited = run({scenario, "--set", "training.activation_checkpointing=false",
                               "--set", "hardware.gpu.memory=80 GiB", "--set",
                               "hardware.host.memory=512 GiB", "--max-gpu-memory", "6 GiB"});
  EXPECT_EQ(limited.code, 3);
  EXPECT_THAT(limited.err, HasSubstr("--set training.activation_checkpointing=true"));
  const Outcome fits = run_small({"--json"});
  EXPECT_THAT(fits.out, Not(HasSubstr("not_searched")));
}

TEST_F(Tune, NamesReleasesInWhichZenFlowFails) {
  const Outcome outcome =
      run_small({"--vary", "placement=zenflow", "--deepspeed-version", "0.18.9"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.err, HasSubstr("lint ZF020"));
}

TEST_F(Tune, RefusesWhatItDoesNotKnow) {
  expect_refused({kScenario, "--vary", "topk_rati=0.1"}, 2,
                 HasSubstr("did you mean \"topk_ratio\"?"));
  expect_refused({kScenario, "--vary", "stage=2,9"}, 2, HasSubstr("from 0 to 3"));
  expect_refused({kScenario, "--objective", "speed"}, 2, HasSubstr("expected step_time"));
  expect_refused({kScenario, "--objective", "cost_per_token"}, 2, HasSubstr("--price"));
  expect_refused({kScenario, "--train-command", ""}, 2, HasSubstr("expected a line of words"));
  expect_refused({kScenario, "--price", "2"}, 2, HasSubstr("--objective cost_per_token alone"));
  expect_refused({kScenario, "--schedule", "zenflwo"}, 2, HasSubstr("did you mean \"zenflow\"?"));
  expect_refused({kScenario, "--max-deferred-share", "0.5"}, 2, HasSubstr("--importance"));
  for (const char* flag : {"--slack", "--front-within", "--relative-error", "--price"}) {
    expect_refused({kScenario, flag, "nan"}, 2,
                   AllOf(HasSubstr(flag), HasSubstr("expected a number from"), HasSubstr("nan")));
  }
  expect_refused({kScenario, "--max-gpu-memory", "40"}, 2, HasSubstr("--max-gpu-memory"));
  expect_refused({kScenario, "--global-batch", "1099511627776"}, 2,
                 AllOf(HasSubstr("--global-batch"), HasSubstr("2147483648")));
  expect_refused({kScenario, "--max-staleness", "-1"}, 2,
                 AllOf(HasSubstr("--max-staleness"), HasSubstr("1099511627776")));
  expect_refused({kScenario, "--no-such"}, 2, HasSubstr("--no-such"));
  expect_refused({"missing.yaml"}, 2, HasSubstr("missing.yaml"));
}

TEST_F(Tune, RefusesABaseFileThatDoesNotParse) {
  folder_.write("base.json", "{\"zero_optimization\": {\"stage\": 2,,}");
  expect_refused({kScenario, "--base", "base.json", "-o", "out"}, 2, HasSubstr("base.json:1"));
}

TEST_F(Tune, RefusesAStudyOfAnotherScenario) {
  ASSERT_EQ(run_small({"-o", "out"}).code, 0);
  const std::string before = content("out/summary.json");
  const std::vector<std::string> other = {kSource + "/scenarios/qwen2_5_3b_4xa100.yaml", "-o",
                                          "out", "-f"};
  expect_refused(other, 2, HasSubstr("study of another scenario"));
  EXPECT_EQ(content("out/summary.json"), before);
  EXPECT_EQ(run_small({"-o", "out", "-f"}).code, 0);  // the study is still its own
}

// Its staleness is no number, which no whole number can stand for.
TEST_F(Tune, RefusesAStudyWithImpossibleNumbers) {
  ASSERT_EQ(run_small({"-o", "out", "--front-within", "0"}).code, 0);
  sqlite3* study = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ / "out/study.sqlite").c_str(), &study), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(study,
                         "UPDATE evaluations SET numbers = CAST(substr(numbers, 1, 64) || "
                         "x'FFFFFFFFFFFFFFFF' || substr(numbers, 73) AS BLOB)",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(study);
  const Outcome outcome = run_small({"-o", "out", "-f", "--front-within", "0"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("is damaged (an evaluation with impossible numbers)"));
}

// Another build may simulate otherwise, whatever its version.
TEST_F(Tune, RefusesAStudyOfAnotherBuild) {
  ASSERT_EQ(run_small({"-o", "out", "--front-within", "0"}).code, 0);
  sqlite3* study = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ / "out/study.sqlite").c_str(), &study), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(study,
                         "UPDATE study SET value = replace(value, ' build ', ' build 0') "
                         "WHERE key = 'identity'",
                         nullptr, nullptr, nullptr),
            SQLITE_OK);
  sqlite3_close(study);
  const Outcome outcome = run_small({"-o", "out", "-f", "--front-within", "0"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("or build of the program"));
}

TEST_F(Tune, RefusesAStudyThatAnotherProgramWrites) {
  ASSERT_EQ(run_small({"-o", "out", "--front-within", "0"}).code, 0);
  const std::string before = content("out/summary.json");
  sqlite3* other = nullptr;
  ASSERT_EQ(sqlite3_open((folder_ / "out/study.sqlite").c_str(), &other), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(other, "BEGIN IMMEDIATE", nullptr, nullptr, nullptr), SQLITE_OK);
  const Outcome outcome = run_small({"-o", "out", "-f", "--slack", "0.5"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("study.sqlite: is in use by another program"));
  EXPECT_EQ(content("out/summary.json"), before);
  sqlite3_close(other);
}

/// A pipe that takes nothing more: a program whose standard output it is cannot end.
class FullPipe {
 public:
  explicit FullPipe(fs::path path) : path_(std::move(path)) {
    EXPECT_EQ(::mkfifo(path_.c_str(), 0600), 0);
    pipe_ = ::open(path_.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    const std::string filling(4096, 'x');
    while (::write(pipe_, filling.data(), filling.size()) > 0) {
    }
  }
  ~FullPipe() { ::close(pipe_); }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;

  [[nodiscard]] std::string path() const { return path_.string(); }
  /// Empties it until the program has ended.
  void drain(const RunningProgram& program) const {
    std::string read(4096, 0);
    static_cast<void>(
        program.wait_until([&] { return ::read(pipe_, read.data(), read.size()) == 0; }));
  }

 private:
  fs::path path_;
  int pipe_ = -1;
};

/// Whether another process has the database to itself. Asks the kernel, and disturbs nobody.
bool is_held(const fs::path& study) {
  const int file = ::open(study.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return false;
  // Where SQLite's shared locks are; to write is to have them all.
  struct flock all {
    .l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0x40000002, .l_len = 510, .l_pid = 0
  };
  const bool asked = ::fcntl(file, F_GETLK, &all) == 0;
  ::close(file);
  return asked && all.l_type == F_WRLCK;
}

/// Runs of one output folder, each with streams of its own. None can end before it is released.
class TuneTogether : public Tune {
 protected:
  [[nodiscard]] std::vector<std::string> small(std::vector<std::string> more) const {
    more.insert(more.begin(), kScenario);
    more.insert(more.end(), kSmall.begin(), kSmall.end());
    more.insert(more.end(), {"-o", (folder_ / "out").string()});
    return command(more);
  }
  [[nodiscard]] Surroundings own(const std::string& name) const {
    fs::create_directory(folder_ / name);
    return {.folder = folder_ / name};
  }
  [[nodiscard]] Surroundings own(const std::string& name, const FullPipe& pipe) const {
    Surroundings around = own(name);
    around.standard_output = pipe.path();
    return around;
  }
};

TEST_F(TuneTogether, ASecondRunEndsAtOnceAndDisturbsNothing) {
  ASSERT_EQ(run_small({"-o", "alone"}).code, 0);
  const FullPipe pipe(folder_ / "pipe");
  RunningProgram first(small({}), own("first", pipe));
  ASSERT_TRUE(first.wait_until([&] { return is_held(folder_ / "out/study.sqlite"); }));
  first.send(SIGSTOP);
  for (const bool forced : {false, true}) {
    const Outcome second = run_program(
        small(forced ? std::vector<std::string>{"-f", "--slack", "1"} : std::vector<std::string>{}),
        own("second"));
    EXPECT_EQ(second.code, 2) << second.err;
    EXPECT_EQ(second.out, "");
    // Without -f it may also be told that results are there by now.
    if (forced) {
      EXPECT_THAT(second.err, HasSubstr("study.sqlite: is in use by another program"));
    }
  }
  EXPECT_FALSE(first.has_ended());
  first.send(SIGCONT);
  // To its last byte of results: it has the study until it ends.
  ASSERT_TRUE(first.wait_until([&] { return fs::exists(folder_ / "out/summary.json"); }));
  EXPECT_THAT(run_program(small({"-f"}), own("second")).err, HasSubstr("is in use"));
  pipe.drain(first);
  EXPECT_EQ(first.wait().code, 0);
  for (const char* name : {"ds_config_optimal.json", "summary.txt", "summary.json"}) {
    EXPECT_EQ(content("out/" + std::string(name)), content("alone/" + std::string(name))) << name;
  }
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder_ / "out")) {
    left.insert(entry.path().filename());
  }
  EXPECT_EQ(left, (std::set<std::string>{"cmd_optimal.txt", "ds_config_optimal.json",
                                         "study.sqlite", "summary.json", "summary.txt"}));
}

TEST_F(TuneTogether, OfThoseThatBeginTogetherOneGetsTheStudy) {
  constexpr std::size_t kRuns = 4;
  for (const std::string round : {"new", "there"}) {
    const FullPipe pipe(folder_ / ("pipe." + round));
    std::vector<std::unique_ptr<RunningProgram>> runs;
    for (std::size_t i = 0; i < kRuns; ++i) {
      runs.push_back(
          std::make_unique<RunningProgram>(small({"-f"}), own(round + std::to_string(i), pipe)));
    }
    const auto ended = [&] {
      return std::count_if(runs.begin(), runs.end(), [](const auto& r) { return r->has_ended(); });
    };
    // The winner waits for the pipe, so the others cannot but meet it.
    for (int waited = 0; ended() < static_cast<std::ptrdiff_t>(kRuns) - 1; ++waited) {
      ASSERT_LT(waited, 60'000) << "more than one has the study";
      ::usleep(1000);
    }
    for (const auto& one : runs) {
      if (!one->has_ended()) pipe.drain(*one);
    }
    int done = 0;
    for (const auto& one : runs) {
      const Outcome outcome = one->wait();
      if (outcome.code == 0) {
        ++done;
        continue;
      }
      EXPECT_EQ(outcome.code, 2) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("study.sqlite: is in use by another program"));
    }
    EXPECT_EQ(done, 1);
  }
}

TEST_F(TuneTogether, AKilledRunHoldsNothing) {
  const FullPipe pipe(folder_ / "pipe");
  RunningProgram first(small({}), own("first", pipe));
  ASSERT_TRUE(first.wait_until([&] { return fs::exists(folder_ / "out/summary.json"); }));
  first.send(SIGKILL);
  EXPECT_EQ(first.wait().code, -1);
  const Outcome second = run_program(small({"-f"}), own("second"));
  EXPECT_EQ(second.code, 0) << second.err;
}

// What was killed between the file's name and its tables.
TEST_F(Tune, TakesAnEmptyStudyForANewOne) {
  folder_.write("out/study.sqlite", "");
  const Outcome outcome = run_small({"-o", "out"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Tune, RefusesADamagedStudy) {
  ASSERT_EQ(run_small({"-o", "out"}).code, 0);
  const fs::path study = folder_ / "out/study.sqlite";
  const std::string whole = content("out/study.sqlite");
  std::vector<std::string> again = {kScenario, "-o", "out", "-f"};
  again.insert(again.end(), kSmall.begin(), kSmall.end());
  // In its header, behind it, in its middle, short of its end.
  for (const std::size_t size :
       {std::size_t{60}, std::size_t{600}, whole.size() / 2, whole.size() - 1}) {
    folder_.write("out/study.sqlite", whole.substr(0, size));
    expect_refused(
        again, 2,
        AllOf(HasSubstr("out/study.sqlite: is"), HasSubstr("remove it"), Not(HasSubstr("in use"))));
  }
  fs::remove(study);
  EXPECT_EQ(run(again).code, 0);
}

TEST_F(Tune, RefusesAFileThatIsNoStudy) {
  folder_.write("out/study.sqlite",
                "not a database, whatever its name says, and long enough for a header");
  expect_refused({kScenario, "-o", "out"}, 2, HasSubstr("study.sqlite"));
  EXPECT_THAT(content("out/study.sqlite"), StartsWith("not a database"));
}

TEST_F(Tune, RefusesAFolderThatItCannotWriteTo) {
  folder_.write("file", "in the way");
  expect_refused({kScenario, "-o", "file"}, 2, HasSubstr("file: is no folder"));
  expect_refused({kScenario, "-o", "missing/out"}, 2, HasSubstr("cannot be created"));
  expect_refused({kScenario, "-o", "/proc/out"}, 2, HasSubstr("cannot be created"));
}

// A limit on the size of files stands for a full disk.
TEST_F(Tune, LeavesNothingBehindIfTheDiskIsFull) {
  std::vector<std::string> arguments = {ZENFLOW_TUNE, kScenario,        "-o",
                                        "out",        "--front-within", "0"};
  arguments.insert(arguments.end(), kSmall.begin(), kSmall.end());
  const Outcome outcome = run_program(arguments, {.folder = folder_.path(), .largest_file = 4096});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("study.sqlite: cannot be written"));
  EXPECT_TRUE(files().empty());

  ASSERT_EQ(run_program(arguments, {.folder = folder_.path()}).code, 0);
  const std::string before = content("out/summary.txt");
  arguments.insert(arguments.end(), {"-f", "--slack", "0.5"});
  EXPECT_EQ(run_program(arguments, {.folder = folder_.path(), .largest_file = 4096}).code, 1);
  EXPECT_EQ(content("out/summary.txt"), before);
}

// DeepSpeed does not run there: what its linter has against the file is told, not obeyed.
TEST_F(Tune, TunesZenFlowForTheHostDevice) {
  const Outcome outcome = run({kSource + "/scenarios/llama_10m_this_host.yaml", "-o", "out"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json summary = json::parse(content("out/summary.json"));
  EXPECT_EQ(summary["schedule"], "live-zenflow");
  ASSERT_TRUE(summary["best_by_placement"].contains("zenflow"));
  EXPECT_LE(summary["fastest"]["result"]["step_time_ms"].get<double>(),
            summary["best_by_placement"]["zenflow"]["result"]["step_time_ms"].get<double>());
  for (const auto& [why, count] : summary["search"]["infeasible_by_reason"].items()) {
    EXPECT_THAT(why, Not(HasSubstr("lint")));
  }
  if (summary["chosen"]["setting"]["placement"] == "zenflow") {
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("zenflow-train reads no DeepSpeed file"),
                                   HasSubstr("ERROR ZF025")));
  }
}

/// "--topk-ratio 0.1 --activation-checkpointing" as {"topk-ratio": "0.1",
/// "activation-checkpointing": ""}.
std::map<std::string, std::string> flags_of(const std::string& command) {
  std::map<std::string, std::string> flags;
  std::istringstream words(command);
  std::string flag;
  for (std::string word; words >> word;) {
    if (word.starts_with("--")) {
      flag = word.substr(2);
      flags.emplace(flag, "");
    } else if (!flag.empty()) {
      flags[flag] = word;
    }
  }
  return flags;
}

TEST_F(Tune, CommandsZenFlowTrainToDoWhatWasChosen) {
  const std::string scenario = kSource + "/scenarios/llama_10m_this_host.yaml";
  for (const bool all : {false, true}) {
    for (const std::string placement : {"gpu", "cpu", "zenflow"}) {
      std::vector<std::string> arguments = {scenario, "--vary", "placement=" + placement,
                                            "-f",     "-o",     placement + (all ? "1" : "0")};
      if (all) {
        arguments.insert(arguments.end(), {"--set", "deepspeed.gradient_accumulation_steps=3",
                                           "--set", "training.activation_checkpointing=true",
                                           "--set", "zenflow_train.optimizer_threads=2", "--set",
                                           "zenflow_train.sum_threads=1"});
      }
      const Outcome outcome = run(arguments);
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const json summary = json::parse(content(arguments[5] + "/summary.json"));
      const json& setting = summary["chosen"]["setting"];
      const json config = json::parse(content(arguments[5] + "/ds_config_optimal.json"));
      auto flags = flags_of(content(arguments[5] + "/cmd_optimal.txt"));
      EXPECT_THAT(flags["model"], EndsWith("scenarios/training/llama_10m.json"));
      EXPECT_TRUE(fs::exists(flags["model"])) << flags["model"];
      EXPECT_EQ(flags["micro-batch-size"], setting["micro_batch_size_per_gpu"].dump());
      EXPECT_EQ(setting["gradient_accumulation_steps"], all ? 3 : 1);
      EXPECT_EQ(config.value("gradient_accumulation_steps", 1), all ? 3 : 1);
      EXPECT_EQ(flags.contains("gradient-accumulation-steps"), all);
      EXPECT_EQ(setting["activation_checkpointing"], all);
      EXPECT_EQ(flags.contains("activation-checkpointing"), all);
      if (all) {
        EXPECT_EQ(flags["gradient-accumulation-steps"], "3");
        EXPECT_EQ(flags.contains("optimizer-threads"), placement != "gpu");
        if (placement != "gpu") {
          EXPECT_EQ(flags["optimizer-threads"], "2");
        }
      }
      if (placement != "zenflow") continue;
      EXPECT_EQ(flags["topk-ratio"], setting["topk_ratio"].dump());
      EXPECT_EQ(flags["update-interval"], setting["update_interval"].dump());
      EXPECT_EQ(flags["select-interval"], setting["select_interval"].dump());
      EXPECT_EQ(flags["overlap-step"], setting["overlap_step"].dump());
    }
  }
}

TEST_F(Tune, SaysWhereZenFlowTrainShallSum) {
  const std::string scenario = kSource + "/scenarios/llama_10m_this_host.yaml";
  for (const std::string place : {"host", "device"}) {
    const Outcome outcome =
        run({scenario, "--vary", "placement=zenflow", "--vary", "accumulate_on=" + place, "--vary",
             "update_interval=4", "-o", place, "--front-within", "0"});
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const json summary = json::parse(content(place + "/summary.json"));
    const json& setting = summary["chosen"]["setting"];
    EXPECT_EQ(setting["accumulate_on"], place);
    auto flags = flags_of(content(place + "/cmd_optimal.txt"));
    const bool on_device = place == "device";
    EXPECT_EQ(flags.contains("accumulate-on"), on_device);
    EXPECT_EQ(outcome.out.find("accumulate_on device") != std::string::npos, on_device);
    if (!on_device) continue;
    EXPECT_EQ(flags["accumulate-on"], "device");
    EXPECT_FALSE(flags.contains("sum-threads")) << "there is nothing that they would do";
  }
  // Both are searched unless told otherwise, and shown beside each other.
  const Outcome both = run({scenario, "--vary", "placement=zenflow", "--vary", "update_interval=4",
                            "--front-within", "0", "--json"});
  ASSERT_EQ(both.code, 0) << both.err;
  bool is_varied = false;
  const json found = json::parse(both.out);
  for (const json& knob : found["knobs"]) {
    if (knob["knob"] != "accumulate_on") continue;
    is_varied = true;
    ASSERT_EQ(knob["values"].size(), 2U);
    EXPECT_EQ(knob["values"][0]["value"], "host");
    EXPECT_EQ(knob["values"][1]["value"], "device");
    EXPECT_LT(knob["values"][0]["gpu_peak_bytes"], knob["values"][1]["gpu_peak_bytes"]);
  }
  EXPECT_TRUE(is_varied);
}

// DeepSpeed has no such thing.
TEST_F(Tune, DoesNotLookForSumsOnTheDeviceInDeepSpeed) {
  expect_refused({kScenario, "--vary", "accumulate_on=host,device", "-o", "out"}, 2,
                 HasSubstr("accumulate_on: schedule deepspeed-zenflow knows no such knob; "
                           "live-zenflow does (--schedule)"));
  const Outcome outcome = run_small({"--set", "accumulate_on=device", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err,
              HasSubstr("deepspeed-zenflow: zenflow_train.accumulate_on has no effect; "
                        "live-zenflow reads it"));
  EXPECT_THAT(outcome.out, Not(HasSubstr("accumulate_on")));
  EXPECT_EQ(run_small({"--json"}).out, outcome.out);
}

TEST_F(Tune, KeepsParametersAsTheyAreUnderSchedulesThatDoNotMoveThem) {
  for (const char* schedule : {"zenflow", "live-zenflow"}) {
    expect_refused({kScenario, "--schedule", schedule, "--vary", "offload_param=none,cpu"}, 2,
                   HasSubstr("knows no such knob; deepspeed-zenflow does"));
  }
}

TEST_F(Tune, HasMorePlaceForCareWithMoreSlack) {
  const auto staleness = [&](const char* slack) {
    const Outcome outcome = run_small(
        {"--vary", "placement=cpu,zenflow", "--slack", slack, "--front-within", "0", "--json"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out)["chosen"]["result"]["staleness_steps_max"].get<int>();
  };
  EXPECT_GT(staleness("0"), 0);
  // ZeRO-Offload is several times slower, and not stale at all; but never slower than what the user
  // has.
  EXPECT_LE(staleness("10"), staleness("0"));
}

TEST_F(Tune, MindsWhatWasRecordedOfImportance) {
  folder_.write(
      "importance.csv",
      "step,parameter,columns,top_1_percent,top_5_percent,top_10_percent,same_as_before,selected\n"
      "0,w,100,0.1,0.3,0.4,,0.4\n1,w,100,0.1,0.3,0.6,0.9,0.4\n");
  const Outcome outcome =
      run_small({"--vary", "placement=zenflow", "--importance", "importance.csv",
                 "--max-deferred-share", "0.47", "--front-within", "0", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  // Half is in the top tenth; with 0.2, half + 1/9 of the other half: 0.444 is deferred.
  EXPECT_EQ(json::parse(outcome.out)["chosen"]["setting"]["topk_ratio"], 0.2);
  folder_.write("bad.csv", "step,parameter\n0,w\n");
  expect_refused({kScenario, "--importance", "bad.csv", "--max-deferred-share", "0.5"}, 2,
                 HasSubstr("bad.csv:1"));
}

// zenflow-train's ZenFlow is predicted faster there than the GPU alone, which suffices.
TEST_F(Tune, OffloadsWhatFitsOnlyWhenTold) {
  const auto tuned = [&](const std::string& when) {
    std::vector<std::string> arguments = {kSource + "/scenarios/gpt2_xl_1xh200.yaml",
                                          "--schedule",
                                          "live-zenflow",
                                          "--vary",
                                          "topk_ratio=0.1",
                                          "--vary",
                                          "update_interval=4,8",
                                          "--front-within",
                                          "0",
                                          "-f",
                                          "-o",
                                          "out"};
    if (!when.empty()) arguments.insert(arguments.end(), {"--offload-when", when});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  };
  const std::string needed = tuned("");
  json summary = json::parse(content("out/summary.json"));
  EXPECT_EQ(summary["chosen"]["setting"]["placement"], "gpu");
  EXPECT_EQ(summary["offload_when"], "needed");
  EXPECT_TRUE(summary["fits_without_offloading"].get<bool>());
  EXPECT_EQ(summary["fastest"]["setting"]["placement"], "zenflow");
  EXPECT_THAT(needed, AllOf(HasSubstr("The job fits without offloading"), HasSubstr("less time"),
                            HasSubstr("--offload-when faster")));
  EXPECT_EQ(tuned("needed"), needed);

  EXPECT_THAT(tuned("faster"), Not(HasSubstr("The job fits without offloading")));
  summary = json::parse(content("out/summary.json"));
  EXPECT_EQ(summary["chosen"]["setting"]["placement"], "zenflow");
  EXPECT_LT(summary["chosen"]["result"]["step_time_ms"].get<double>(),
            summary["best_by_placement"]["gpu"]["result"]["step_time_ms"].get<double>());
  expect_refused({kScenario, "--offload-when", "fastre"}, 2,
                 AllOf(HasSubstr("--offload-when"), HasSubstr("did you mean \"faster\"?")));
}

TEST_F(Tune, CountsMoneyPerToken) {
  const Outcome outcome =
      run_small({"--objective", "cost_per_token", "--price", "2", "--vary", "gpus=2,4", "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const json chosen = json::parse(outcome.out)["chosen"];
  const double gpus = chosen["setting"]["gpus"];
  const double tokens = chosen["result"]["tokens_per_second"];
  EXPECT_NEAR(chosen["cost_per_million_tokens"].get<double>(), 2 * gpus / 3600 / tokens * 1e6,
              1e-6);
}

/// Halts a search once what it has simulated is in its study, with most of it yet to come.
void halt_at_work(const RunningProgram& program, const fs::path& folder) {
  // Its first commit; the tables are in the database itself.
  const fs::path log = folder / "study.sqlite-wal";
  ASSERT_TRUE(program.wait_until([&] {
    std::error_code missing;
    const std::uintmax_t size = fs::file_size(log, missing);
    return !missing && size > 0;
  }));
  program.send(SIGSTOP);
  ASSERT_FALSE(fs::exists(folder / "summary.json")) << "the search was over too soon";
}

TEST_F(Tune, InterruptedWritesTheBestSoFarAndKilledResumes) {
  const std::vector<std::string> small = {"--vary", "stage=2", "--vary", "topk_ratio=0.1"};
  // Two seconds of work, of which a tenth is for the first commit.
  const std::vector<std::string> large = {"--front-within", "1000"};
  const auto in = [&](const std::string& folder, const std::vector<std::string>& more) {
    std::vector<std::string> all = {
        kScenario, "--vary", "placement=zenflow", "--threads", "1", "-q", "-f", "-o", folder};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  ASSERT_EQ(run(in("whole", small)).code, 0);
  {
    RunningProgram killed(command(in("killed", large)), {.folder = folder_.path()});
    halt_at_work(killed, folder_ / "killed");
    killed.send(SIGKILL);
    EXPECT_EQ(killed.wait().code, -1);
  }
  {
    RunningProgram stopped(command(in("stopped", large)), {.folder = folder_.path()});
    halt_at_work(stopped, folder_ / "stopped");
    stopped.send(SIGINT);
    stopped.send(SIGCONT);
    const Outcome outcome = stopped.wait();
    ASSERT_EQ(outcome.code, 130) << outcome.err;
    EXPECT_EQ(outcome.out, content("stopped/summary.txt"));
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("Stopped before the end: "),
                                   HasSubstr("(standard error not computed: the search was "
                                             "stopped)"),
                                   Not(HasSubstr("standard error of the prediction"))));
    const json summary = json::parse(content("stopped/summary.json"));
    EXPECT_FALSE(summary["complete"].get<bool>());
    EXPECT_GT(summary["search"]["not_reached"], 0);
    EXPECT_TRUE(summary["chosen"]["result"]["feasible"].get<bool>());
    EXPECT_FALSE(summary["chosen"].contains("relative_error"));
    EXPECT_TRUE(summary.contains("speedup"));
    EXPECT_FALSE(summary.contains("speedup_relative_error"));
    EXPECT_TRUE(fs::exists(folder_ / "stopped/ds_config_optimal.json"));
    EXPECT_TRUE(fs::exists(folder_ / "stopped/cmd_optimal.txt"));
  }
  for (const std::string folder : {"killed", "stopped"}) {
    ASSERT_EQ(run(in(folder, small)).code, 0);
    for (const char* name : {"/ds_config_optimal.json", "/summary.txt", "/summary.json"}) {
      EXPECT_EQ(content(folder + name), content("whole" + std::string(name))) << folder << name;
    }
  }
  EXPECT_TRUE(json::parse(content("whole/summary.json")).contains("speedup_relative_error"));
}

TEST_F(Tune, HelpsLikeAManualPage) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  for (const char* word :
       {"--base", "--max-staleness", "--slack", "Exit codes", "Example", "study.sqlite"}) {
    EXPECT_THAT(outcome.out, HasSubstr(word));
  }
}

}  // namespace
}  // namespace zenflow::testing
