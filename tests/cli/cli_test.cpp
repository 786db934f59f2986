// zenflow-sim as its user meets it: output, exit codes, messages and files.
#include <algorithm>
#include <cmath>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "tests/support/program.h"
#include "tests/support/scenario_files.h"

namespace zenflow::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const char* const kCommands[] = {"run", "compare", "sweep", "explain",
                                 "fit", "list",    "lint",  "steps"};

class Cli : public ::testing::Test {
 protected:
  Cli() { write_scenario(folder_); }

  Outcome run(std::vector<std::string> arguments) const { return run_in(around(), arguments); }
  Outcome run_in(const Surroundings& surroundings, std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), ZENFLOW_SIM);
    return run_program(arguments, surroundings);
  }
  [[nodiscard]] Surroundings around() const { return {.folder = folder_.path()}; }

  /// Names of all files below the folder.
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.is_regular_file()) {
        names.insert(fs::relative(entry.path(), folder_.path()).generic_string());
      }
    }
    return names;
  }

  json run_json(std::vector<std::string> arguments) const {
    arguments.emplace_back("--json");
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return json::parse(outcome.out);
  }

  /// Runs with bad input and a trace to write: exit 2, nothing on stdout, no file left.
  void expect_refused(std::vector<std::string> arguments,
                      const ::testing::Matcher<std::string>& message) {
    const std::set<std::string> before = files();
    if (arguments[0] == "run") arguments.insert(arguments.end(), {"--trace", "trace.json"});
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_THAT(outcome.err, AllOf(StartsWith("zenflow-sim: "), message));
    EXPECT_EQ(files(), before);
  }
  void expect_refused_scenario(const std::string& from, const std::string& to,
                               const ::testing::Matcher<std::string>& message) {
    expect_refused({"run", changed("scenarios/one.yaml", kScenario, from, to)}, message);
  }
  /// A copy of `text` with `from` replaced, written to "changed" beside `name`.
  std::string changed(const std::string& name, const std::string& text, const std::string& from,
                      const std::string& to) {
    std::string other = text;
    const std::size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    other.replace(at, from.size(), to);
    const fs::path path =
        fs::path(name).parent_path() / ("changed" + fs::path(name).extension().string());
    folder_.write(path.string(), other);
    return path.generic_string();
  }

  TemporaryFolder folder_;
};

// ---- help, version, usage ----

TEST_F(Cli, HelpsOnStandardOutput) {
  const Outcome outcome = run({"--help"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.err, "");
  for (const char* command : kCommands) EXPECT_THAT(outcome.out, HasSubstr(command));
  EXPECT_THAT(outcome.out, HasSubstr("Exit codes"));
  for (const char* command : kCommands) {
    const Outcome one = run({command, "--help"});
    EXPECT_EQ(one.code, 0) << command;
    EXPECT_THAT(one.out, HasSubstr("--json")) << command;
  }
}

TEST_F(Cli, SaysItsVersion) {
  const Outcome outcome = run({"--version"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(
      std::regex_match(outcome.out, std::regex("(zenflow-sim )?[0-9]+\\.[0-9]+\\.[0-9]+\n")))
      << outcome.out;
}

TEST_F(Cli, RefusesWrongUsageWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {
      {},
      {"simulate"},
      {"run"},
      {"run", "--no-such-flag", "scenarios/one.yaml"},
      {"run", "scenarios/one.yaml", "scenarios/one.yaml"},
      {"run", "scenarios/one.yaml", "--set"},
      {"run", "scenarios/one.yaml", "--set", "topk_ratio"},
      {"run", "scenarios/one.yaml", "--set", "=1"},
      {"run", "scenarios/one.yaml", "--color", "sometimes"},
      {"sweep", "scenarios/one.yaml"},
      {"sweep", "scenarios/one.yaml", "--vary", "gpus"},
      {"sweep", "scenarios/one.yaml", "--vary", "gpus=1:2"},
      {"sweep", "scenarios/one.yaml", "--vary", "gpus=1", "--format", "xml"},
      {"list", "everything"},
      {"list", "rules", "--deepspeed-version", "0.17.0"},
      {"run", "scenarios/one.yaml", "--schedule", "zenflw"},
  };
  for (const auto& arguments : wrong) {
    const Outcome outcome = run(arguments);
    std::string shown;
    for (const std::string& one : arguments) shown += one + " ";
    EXPECT_EQ(outcome.code, 2) << shown;
    EXPECT_EQ(outcome.out, "") << shown;
    EXPECT_THAT(outcome.err, Not(IsEmpty())) << shown;
  }
  EXPECT_THAT(run({"run", "scenarios/one.yaml", "--schedule", "zenflw"}).err,
              HasSubstr("did you mean \"zenflow\"?"));
}

TEST_F(Cli, RefusesTheSameThingTwice) {
  // As a scenario's own list does; a result of each is no more than one, and files collide.
  expect_refused({"run", "scenarios/one.yaml", "--schedule", "zenflow", "--schedule", "zenflow"},
                 HasSubstr("zenflow"));
  expect_refused({"sweep", "scenarios/one.yaml", "--vary", "topk_ratio=0.1", "--vary",
                  "deepspeed.zero_optimization.zenflow.topk_ratio=0.5"},
                 HasSubstr("topk_ratio"));
}

// ---- run ----

TEST_F(Cli, RunsTheScenariosSchedules) {
  const Outcome outcome = run({"run", "scenarios/one.yaml"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("zero-offload"), HasSubstr("zenflow"),
                                 Not(HasSubstr("gpu-only")), Not(HasSubstr("\033"))));
}

/// The micro steps of a window, the update marked; published schedules have no such line.
TEST_F(Cli, ShowsTheMicroStepsOfDeepSpeedsZenFlow) {
  const Outcome outcome = run({"run", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow"});
  EXPECT_THAT(outcome.out,
              ContainsRegex("deepspeed-zenflow, micro steps \\(ms\\): [0-9.]+ [0-9.]+ [0-9.]+ "
                            "[0-9.]+\\*   \\* updates"));
  EXPECT_THAT(run({"run", "scenarios/one.yaml"}).out, Not(HasSubstr("micro steps")));
}

TEST_F(Cli, TakesReleaseAndLauncherFromFlagBeforeSetBeforeScenario) {
  const std::string with_launch = changed("scenarios/one.yaml", kScenario, "schedules: [",
                                          "launch: {deepspeed_version: 0.17.6, target: hf}\n"
                                          "schedules: [deepspeed-zenflow, ");
  const auto launch = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "-q", with_launch});
    const json result = run_json(arguments)["results"][0];
    return result["deepspeed_version"].get<std::string>() + " " +
           result["target"].get<std::string>();
  };
  EXPECT_EQ(launch({}), "0.17.6 hf");
  EXPECT_EQ(launch({"--set", "launch.deepspeed_version=0.18.2"}), "0.18.2 hf");
  EXPECT_EQ(launch({"--set", "launch.deepspeed_version=0.18.2", "--deepspeed-version", "0.19.6",
                    "--target", "accelerate"}),
            "0.19.6 accelerate");
  const json defaults =
      run_json({"run", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow"})["results"][0];
  EXPECT_EQ(defaults["deepspeed_version"], "0.19.8");
  EXPECT_EQ(defaults["target"], "deepspeed");
  EXPECT_FALSE(run_json({"run", "scenarios/one.yaml"})["results"][0].contains("target"));
}

TEST_F(Cli, EveryCommandOnScenariosTakesReleaseAndLauncher) {
  for (const char* command : {"run", "compare", "explain", "fit"}) {
    EXPECT_EQ(run({command, "-q", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow",
                   "--deepspeed-version", "0.19.2", "--target", "accelerate"})
                  .code,
              0)
        << command;
  }
  EXPECT_EQ(run({"sweep", "-q", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow",
                 "--deepspeed-version", "0.19.2", "--target", "hf", "--vary", "topk_ratio=0.1"})
                .code,
            0);
  expect_refused({"run", "scenarios/one.yaml", "--deepspeed-version", "0.12.5"},
                 AllOf(HasSubstr("--deepspeed-version: "), HasSubstr("known: 0.12.6, ")));
  expect_refused({"run", "scenarios/one.yaml", "--target", "hugging"},
                 HasSubstr("--target: expected deepspeed, hf or accelerate"));
  expect_refused({"run", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow",
                  "--deepspeed-version", "0.18.5"},
                 HasSubstr("#7759"));
}

TEST_F(Cli, GivesTheSameBytesAgain) {
  for (const char* flag : {"--json", "--color=never"}) {
    EXPECT_EQ(run({"run", "scenarios/one.yaml", flag}).out,
              run({"run", "scenarios/one.yaml", flag}).out);
  }
}

TEST_F(Cli, WritesOneJsonDocument) {
  const json found = run_json({"run", "scenarios/one.yaml"});
  EXPECT_EQ(found.at("schema_version"), 1);
  EXPECT_EQ(found.at("tool"), "zenflow-sim");
  EXPECT_TRUE(found.at("version").is_string());
  EXPECT_EQ(found.at("scenario"), "one");
  EXPECT_EQ(found.at("model").at("name"), "tiny");
  EXPECT_TRUE(found.at("model").at("parameters").is_number_integer());
  EXPECT_TRUE(found.at("model").at("bytes").is_number_integer());
  EXPECT_EQ(found.at("hardware").at("name"), "node");
  EXPECT_EQ(found.at("hardware").at("gpus"), 2);
  ASSERT_EQ(found.at("results").size(), 2U);
  const json& zenflow = found["results"][1];
  EXPECT_EQ(zenflow.at("schedule"), "zenflow");
  EXPECT_EQ(zenflow.at("topk_ratio"), 0.1);
  EXPECT_EQ(zenflow.at("update_interval"), 4);
  EXPECT_EQ(zenflow.at("step_times_ms").size(), 4U);
  for (const char* key : {"step_time_ms", "gpu_compute_ms", "gpu_stall_ms", "gpu_utilization",
                          "tokens_per_second", "mfu", "critical_path_ms", "tasks"}) {
    EXPECT_TRUE(zenflow.at(key).is_number()) << key;
    EXPECT_GT(zenflow[key].get<double>(), 0.0) << key;
  }
  for (const char* cause :
       {"cpu_update", "d2h", "h2d", "collective", "nvme", "selection", "launch"}) {
    EXPECT_TRUE(zenflow.at("stall_by_cause_ms").at(cause).is_number()) << cause;
  }
  EXPECT_TRUE(zenflow.at("pcie").at("d2h_bytes_per_step").is_number_integer());
  EXPECT_TRUE(zenflow.at("pcie").at("h2d_bytes_per_step").is_number_integer());
  EXPECT_TRUE(zenflow.at("pcie").at("model_sizes_per_step").is_number());
  EXPECT_EQ(zenflow.at("staleness_steps").at("min"), 0);
  EXPECT_EQ(zenflow.at("staleness_steps").at("max"), 3);
  for (const char* key :
       {"gpu_peak_bytes", "gpu_capacity_bytes", "host_peak_bytes", "host_capacity_bytes"}) {
    EXPECT_TRUE(zenflow.at("memory").at(key).is_number_integer()) << key;
  }
  EXPECT_EQ(zenflow["memory"].at("fits"), true);
  EXPECT_TRUE(zenflow["memory"].at("gpu").at("weights").is_number_integer());
  EXPECT_TRUE(zenflow["memory"].at("host").at("optimizer_state").is_number_integer());
}

TEST_F(Cli, SetsByPathAndByShortName) {
  const json by_name = run_json({"run", "scenarios/one.yaml", "--set", "topk_ratio=0.25", "--set",
                                 "update_interval=2", "--set=training.sequence_length=16"});
  EXPECT_EQ(by_name["results"][1]["topk_ratio"], 0.25);
  EXPECT_EQ(by_name["results"][1]["update_interval"], 2);
  const json by_path = run_json({"run", "scenarios/one.yaml", "--set",
                                 "deepspeed.zero_optimization.zenflow.topk_ratio=0.25", "--set",
                                 "deepspeed.zero_optimization.zenflow.update_interval=2", "--set",
                                 "training.sequence_length=16"});
  EXPECT_EQ(by_name, by_path);
  const json slower =
      run_json({"run", "scenarios/one.yaml", "--set", "hardware.host_link.d2h.value=1 GB/s"});
  EXPECT_GT(slower["results"][0]["step_time_ms"],
            run_json({"run", "scenarios/one.yaml"})["results"][0]["step_time_ms"]);
}

TEST_F(Cli, TakesSeveralSchedulesInsteadOfTheScenarios) {
  const json found = run_json(
      {"run", "scenarios/one.yaml", "--schedule", "gpu-only", "--schedule", "zero-infinity"});
  ASSERT_EQ(found["results"].size(), 2U);
  EXPECT_EQ(found["results"][0]["schedule"], "gpu-only");
  EXPECT_EQ(found["results"][1]["schedule"], "zero-infinity");
}

TEST_F(Cli, OptionsMayStandBeforeTheScenario) {
  EXPECT_EQ(run({"run", "--schedule", "gpu-only", "scenarios/one.yaml"}).code, 0);
  EXPECT_EQ(run({"run", "--set", "gpus=1", "--json", "scenarios/one.yaml"}).code, 0);
}

TEST_F(Cli, FailsIfStandardOutputCannotBeWritten) {
  Surroundings full = around();
  full.standard_output = "/dev/full";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"run", "scenarios/one.yaml"},
        {"run", "scenarios/one.yaml", "--json"},
        {"sweep", "scenarios/one.yaml", "--vary", "gpus=1,2"},
        {"fit", "scenarios/one.yaml"},
        {"list"}}) {
    const Outcome outcome = run_in(full, arguments);
    EXPECT_EQ(outcome.code, 1) << arguments[0];
    EXPECT_THAT(outcome.err, HasSubstr("cannot write to standard output"));
  }
  for (const char* flag : {"--help", "--version"}) {
    EXPECT_EQ(run_in(full, {flag}).code, 1) << flag;
  }
}

// ---- files ----

TEST_F(Cli, WritesATracePerSchedule) {
  const Outcome outcome = run({"run", "scenarios/one.yaml", "--trace", "out.json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("wrote out.zenflow.json"));
  for (const char* name : {"out.zero-offload.json", "out.zenflow.json"}) {
    const json trace = json::parse(file_content(folder_ / name));
    EXPECT_GT(trace.at("traceEvents").size(), 100U);
  }
  EXPECT_FALSE(files().contains("out.json"));
}

TEST_F(Cli, WritesOneTraceUnderItsOwnName) {
  EXPECT_EQ(
      run({"run", "-q", "scenarios/one.yaml", "--schedule", "zenflow", "--trace", "t.json"}).err,
      "");
  EXPECT_TRUE(json::accept(file_content(folder_ / "t.json")));
}

TEST_F(Cli, CompressesATraceWhoseNameEndsInGz) {
  EXPECT_EQ(run({"run", "scenarios/one.yaml", "--trace", "t.json.gz"}).code, 0);
  const gzFile file = gzopen((folder_ / "t.zenflow.json.gz").c_str(), "rb");
  ASSERT_NE(file, nullptr);
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (int read = 0; (read = gzread(file, buffer.data(), 1 << 16)) > 0;) {
    text.append(buffer.data(), static_cast<std::size_t>(read));
  }
  EXPECT_EQ(gzdirect(file), 0) << "not gzip";
  EXPECT_EQ(gzclose(file), Z_OK);
  EXPECT_TRUE(json::accept(text));
}

TEST_F(Cli, NeverOverwritesWithoutBeingTold) {
  folder_.write("t.json", "mine");
  const std::vector<std::string> arguments = {
      "run", "scenarios/one.yaml", "--schedule", "zenflow", "--trace", "t.json"};
  const Outcome outcome = run(arguments);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("t.json"), HasSubstr("-f")));
  EXPECT_EQ(file_content(folder_ / "t.json"), "mine");
  std::vector<std::string> forced = arguments;
  forced.emplace_back("-f");
  EXPECT_EQ(run(forced).code, 0);
  EXPECT_TRUE(json::accept(file_content(folder_ / "t.json")));
}

TEST_F(Cli, RefusesPathsItCannotWriteTo) {
  const std::set<std::string> before = files();
  for (const char* path : {"none/t.json", "scenarios", "one.yaml/t.json", "/dev/null/t.json"}) {
    const Outcome outcome =
        run({"run", "scenarios/one.yaml", "--schedule", "zenflow", "--trace", path, "-f"});
    EXPECT_EQ(outcome.code, 2) << path;
    EXPECT_EQ(outcome.out, "") << path;
  }
  EXPECT_EQ(files(), before);
}

TEST_F(Cli, LeavesNoPartOfAFileThatCannotBeWritten) {
  const std::set<std::string> before = files();
  Surroundings small = around();
  small.largest_file = 1 << 15;  // enough for the table, not for the trace
  const Outcome outcome =
      run_in(small, {"run", "scenarios/one.yaml", "--schedule", "zenflow", "--trace", "t.json"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("t.json: cannot write"), HasSubstr("too large")));
  EXPECT_EQ(files(), before);
}

TEST_F(Cli, RefusesTwoOutputsOfTheSameName) {
  // --trace and --dot that would be the same file: the second must not replace the first.
  const Outcome outcome = run({"run", "scenarios/one.yaml", "--schedule", "zenflow", "--trace",
                               "same", "--dot", "same", "-f"});
  EXPECT_EQ(outcome.code, 2);
}

TEST_F(Cli, WritesAGraphThatGraphvizReads) {
  ASSERT_EQ(run({"run", "scenarios/one.yaml", "--dot", "g.dot"}).code, 0);
  for (const char* name : {"g.zero-offload.dot", "g.zenflow.dot"}) {
    const std::string text = file_content(folder_ / name);
    EXPECT_THAT(
        text, AllOf(StartsWith("digraph"), HasSubstr("forward embedding"), HasSubstr("subgraph")));
    EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
  }
  if (!fs::exists("/usr/bin/dot")) GTEST_SKIP() << "no dot (graphviz) here to read it";
  const Outcome dot = run_program({"/usr/bin/dot", "-Tsvg", "g.zenflow.dot"}, around());
  EXPECT_EQ(dot.code, 0) << dot.err;
  EXPECT_THAT(dot.out, HasSubstr("<svg"));
}

// ---- sweep ----

TEST_F(Cli, SweepsEveryCombinationInEveryFormat) {
  const std::vector<std::string> sweep = {
      "sweep",  "scenarios/one.yaml",    "--vary",     "topk_ratio=0.05,0.5",
      "--vary", "update_interval=1:3:1", "--schedule", "zenflow"};
  const json found = run_json(sweep);
  EXPECT_EQ(found.at("schema_version"), 1);
  EXPECT_EQ(found.at("scenario"), "one");
  ASSERT_EQ(found.at("points").size(), 6U);
  EXPECT_EQ(found["points"][4]["set"], (json{{"topk_ratio", "0.5"}, {"update_interval", "2"}}));

  std::vector<std::string> csv_arguments = sweep;
  csv_arguments.insert(csv_arguments.end(), {"--format", "csv"});
  const std::string csv = run(csv_arguments).out;
  EXPECT_THAT(csv, StartsWith("topk_ratio,update_interval,schedule,step_time_ms,"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  EXPECT_THAT(csv, HasSubstr("\n0.5,2,zenflow," +
                             found["points"][4]["results"][0]["step_time_ms"].dump() + ","));

  const std::string table = run(sweep).out;
  EXPECT_THAT(table, StartsWith("topk_ratio"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 7);
}

TEST_F(Cli, SweepsPointsThatEqualSingleRuns) {
  const json found = run_json({"sweep", "scenarios/one.yaml", "--vary", "topk_ratio=0.05,0.5",
                               "--vary", "gpus=1,2", "--vary", "training.sequence_length=8,64"});
  ASSERT_EQ(found["points"].size(), 8U);
  for (const json& point : found["points"]) {
    std::vector<std::string> arguments = {"run", "scenarios/one.yaml"};
    for (const auto& [key, value] : point["set"].items()) {
      arguments.insert(arguments.end(), {"--set", key + "=" + value.get<std::string>()});
    }
    EXPECT_EQ(run_json(arguments)["results"], point["results"]);
  }
}

TEST_F(Cli, SweepsWhatTheCommandLineSetToo) {
  const json found = run_json({"sweep", "scenarios/one.yaml", "--vary", "topk_ratio=0.05,0.5",
                               "--set", "update_interval=2", "--set", "topk_ratio=0.9"});
  EXPECT_EQ(found["points"][0]["results"][1]["update_interval"], 2);
  EXPECT_EQ(found["points"][0]["results"][1]["topk_ratio"], 0.05);
  const Outcome replaced = run({"sweep", "scenarios/one.yaml", "--vary", "topk_ratio=0.05,0.5",
                                "--set", "update_interval=2", "--set", "topk_ratio=0.9"});
  EXPECT_THAT(replaced.err, HasSubstr("=0.9 has no effect: --vary topk_ratio replaces it"));
  EXPECT_THAT(replaced.err, Not(HasSubstr("update_interval")));
}

/// What only zenflow-train has: read by its schedule, and said of the others.
TEST_F(Cli, SaysThatOurRuntimeHasItsOwnKernels) {
  const auto simulate = [&](const std::string& schedule) {
    return run({"run", "scenarios/one.yaml", "--set", "gpus=1", "--set", "framework=fused",
                "--schedule", schedule});
  };
  EXPECT_THAT(simulate("live-zenflow").err,
              HasSubstr("live-zenflow: training.framework has no effect"));
  EXPECT_EQ(simulate("zenflow").err, "");
}

TEST_F(Cli, SaysWhichSchedulesDoNotKnowWhereSumsAre) {
  const auto simulate = [&](const std::string& schedule) {
    return run({"run", "scenarios/one.yaml", "--set", "accumulate_on=device", "--set", "gpus=1",
                "--schedule", schedule});
  };
  for (const char* schedule : {"gpu-only", "zero-offload", "zenflow", "deepspeed-zenflow"}) {
    EXPECT_THAT(simulate(schedule).err,
                HasSubstr(std::string(schedule) + ": zenflow_train.accumulate_on has no effect; "
                                                  "live-zenflow reads it"));
  }
  EXPECT_THAT(simulate("live-zero-offload-dpu").err,
              HasSubstr("live-zero-offload-dpu: zenflow_train.accumulate_on has no effect: it "
                        "belongs to --schedule zenflow"));
  EXPECT_EQ(simulate("live-zenflow").err, "");
  const Outcome none =
      run({"run", "scenarios/one.yaml", "--set", "accumulate_on=device", "--set", "gpus=1", "--set",
           "update_interval=1", "--set", "overlap_step=false", "--schedule", "live-zenflow"});
  EXPECT_THAT(none.err, HasSubstr("a window of one step that nothing overlaps has no sums"));

  const std::vector<std::string> sweep = {"sweep",      "scenarios/one.yaml",
                                          "--set",      "gpus=1",
                                          "--vary",     "accumulate_on=host,device",
                                          "--schedule", "zenflow",
                                          "--schedule", "live-zenflow"};
  const Outcome swept = run(sweep);
  EXPECT_EQ(swept.code, 0);
  EXPECT_EQ(swept.err,
            "zenflow-sim: warning: zenflow: zenflow_train.accumulate_on has no effect; "
            "live-zenflow reads it\n");
  const json points = run_json(sweep).at("points");
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0]["results"][0], points[1]["results"][0]);
  // 2 bytes in each of four steps, or 4 once.
  const double steps = points[0]["results"][1]["pcie"]["d2h_bytes_per_step"];
  EXPECT_NEAR(points[1]["results"][1]["pcie"]["d2h_bytes_per_step"], steps / 2, 1);
  expect_refused(
      {"run", "scenarios/one.yaml", "--set", "accumulate_on=disk"},
      AllOf(HasSubstr("zenflow_train.accumulate_on"), HasSubstr("host"), HasSubstr("disk")));
}

TEST_F(Cli, SweepsFiles) {
  std::string slow = kProfile;
  slow.replace(slow.find("name: node"), 10, "name: slow");
  folder_.write("profiles/slow.yaml", slow);
  const json found = run_json({"sweep", "scenarios/one.yaml", "--vary", "hardware=node,slow",
                               "--schedule", "zero-offload"});
  ASSERT_EQ(found["points"].size(), 2U);
  EXPECT_EQ(found["points"][0]["results"], found["points"][1]["results"]);
}

TEST_F(Cli, SweepRefusesBadPointsByName) {
  expect_refused({"sweep", "scenarios/one.yaml", "--vary", "topk_ratio=0.5,1.5"},
                 AllOf(HasSubstr("topk_ratio"), HasSubstr("1.5")));
  expect_refused({"sweep", "scenarios/one.yaml", "--vary", "topk_ration=0.5"},
                 HasSubstr("topk_ration"));
  expect_refused(
      {"sweep", "scenarios/one.yaml", "--vary", "topk_ratio=0.5", "--json", "--format", "csv"},
      HasSubstr("--json or --format csv, not both"));
}

TEST_F(Cli, GivesWhatItHasWhenInterrupted) {
  // Millions of points take far longer than any of the waits; a signal before the program has
  // begun its work (or before its first point) shows nothing, so wait longer.
  Surroundings interrupted = around();
  for (unsigned wait = 100; wait <= 12'800; wait *= 2) {
    interrupted.interrupt_after_ms = wait;
    const Outcome outcome =
        run_in(interrupted,
               {"sweep", "scenarios/one.yaml", "--json", "--vary", "topk_ratio=0.001:0.9:0.001",
                "--vary", "update_interval=1:900:1", "--schedule", "zenflow"});
    if (outcome.code == -1) continue;
    EXPECT_EQ(outcome.code, 130);
    const json found = json::parse(outcome.out);
    if (found.at("points").empty()) continue;
    EXPECT_EQ(found["points"][0]["results"][0]["update_interval"], 1);
    return;
  }
  FAIL() << "never interrupted at work";
}

// ---- the other commands ----

TEST_F(Cli, ComparesScenariosAgainstZeroOffload) {
  const json found = run_json({"compare", "scenarios/one.yaml", "scenarios/one.yaml"});
  ASSERT_EQ(found.at("scenarios").size(), 2U);
  const json& results = found["scenarios"][0]["results"];
  EXPECT_EQ(results[0]["speedup_vs_zero_offload"], 1.0);
  EXPECT_NEAR(results[1]["speedup_vs_zero_offload"].get<double>(),
              results[0]["step_time_ms"].get<double>() / results[1]["step_time_ms"].get<double>(),
              1e-6);
  const Outcome table = run({"compare", "scenarios/one.yaml"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("vs zero-offload"), HasSubstr("1.00x")));
}

TEST_F(Cli, ExplainsASchedule) {
  const json found = run_json({"explain", "scenarios/one.yaml"});
  for (const json& one : found.at("explanations")) {
    double sum = 0;
    for (const auto& [what, time] : one.at("path_ms").items()) sum += time.get<double>();
    EXPECT_NEAR(sum, one.at("step_time_ms").get<double>(), 1e-6);
    EXPECT_FALSE(one.at("bound").get<std::string>().empty());
    EXPECT_TRUE(one.at("step_time_ms_if_twice_as_fast").contains("GPU"));
  }
  EXPECT_THAT(run({"explain", "scenarios/one.yaml"}).out,
              AllOf(HasSubstr("twice as fast"), HasSubstr("what decides the step")));
}

TEST_F(Cli, FitsOrSaysThatItDoesNotWithThree) {
  EXPECT_EQ(run({"fit", "scenarios/one.yaml"}).code, 0);
  const std::vector<std::string> small = {"fit", "scenarios/one.yaml", "--set",
                                          "hardware.gpu.memory.value=1 GiB"};
  const Outcome outcome = run(small);
  EXPECT_EQ(outcome.code, 3);
  EXPECT_THAT(outcome.out, HasSubstr("DOES NOT FIT"));
  std::vector<std::string> as_json = small;
  as_json.emplace_back("--json");
  const Outcome document = run(as_json);
  EXPECT_EQ(document.code, 3);
  EXPECT_EQ(json::parse(document.out)["results"][0]["fits"], false);
}

/// A job of DeepSpeed's ZenFlow with overlap_step, on one.yaml's machine.
const std::vector<std::string> kOverlapped = {
    "fit", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow", "--set", "overlap_step=true"};

std::vector<std::string> with(std::vector<std::string> arguments,
                              const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_F(Cli, FitNamesBuffersFormulasAndLimits) {
  const Outcome outcome = run(kOverlapped);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("stale snapshot of the master"), HasSubstr("4 g p"),
                    HasSubstr("/dev/shm of the node"), HasSubstr("not stated"),
                    HasSubstr("DeepSpeed's estimate: P max(4 T, 16) f"), HasSubstr("p = ")));
  EXPECT_THAT(outcome.out, Not(HasSubstr("GPU peak")));
  EXPECT_THAT(run(with(kOverlapped, {"--over-time"})).out, HasSubstr("GPU peak"));
}

TEST_F(Cli, FitChecksEachLimitThatIsSet) {
  const std::vector<std::pair<const char*, const char*>> limits = {
      {"hardware.gpu.memory.value=1 GiB", "gpu_memory"},
      {"hardware.host.memory.value=1 MiB", "host_memory"},
      {"hardware.host.shared_memory.value=64 KiB", "shared_memory"},
      {"hardware.host.locked_memory_limit={value: 64 KiB, source: ulimit -l}", "locked_memory"}};
  for (const auto& [set, name] : limits) {
    const Outcome outcome = run(with(kOverlapped, {"--set", set, "--json"}));
    EXPECT_EQ(outcome.code, 3) << set;
    const json found = json::parse(outcome.out).at("results").at(0);
    EXPECT_EQ(found.at("fits"), false);
    for (const auto& [limit, check] : found.at("limits").items()) {
      EXPECT_EQ(check.at("verdict") == "exceeded", limit == name) << set << ": " << limit;
    }
  }
  const json unlimited = run_json(
      with(kOverlapped,
           {"--set", "hardware.host.locked_memory_limit={value: unlimited, source: ulimit -l}"}));
  const json& locked = unlimited.at("results").at(0).at("limits").at("locked_memory");
  EXPECT_EQ(locked.at("verdict"), "holds");
  EXPECT_TRUE(locked.at("capacity_bytes").is_null());
}

// What fit proposes is what the user types, and it does what was said.
TEST_F(Cli, FitProposesSettingsThatDoAsPromised) {
  const std::vector<std::string> tight =
      with(kOverlapped, {"--set", "hardware.host.shared_memory.value=64 KiB", "--set",
                         "hardware.host.locked_memory_limit={value: 64 KiB, source: s}", "--json"});
  const json before = json::parse(run(tight).out).at("results").at(0);
  ASSERT_GT(before.at("changes").size(), 1U);
  for (const json& change : before.at("changes")) {
    const Outcome outcome = run(with(tight, {"--set", change.at("set")}));
    const json after = json::parse(outcome.out).at("results").at(0);
    const std::string limit = change.at("limit");
    const auto need = [&limit](const json& result) {
      return result.at("limits").at(limit).at("need_bytes").get<double>();
    };
    EXPECT_NEAR(need(before) - need(after), change.at("saves_bytes").get<double>(), 2) << change;
    EXPECT_EQ(after.at("limits").at(limit).at("verdict") == "holds", change.at("limit_holds"));
    EXPECT_EQ(after.at("fits"), change.at("fits"));
  }
  std::vector<std::string> all = tight;
  for (const json& set : before.at("together").at("set")) all = with(all, {"--set", set});
  EXPECT_EQ(before.at("together").at("fits"), true);
  EXPECT_EQ(run(all).code, 0);
}

TEST_F(Cli, ListsTheTensorsOfAModel) {
  const std::string models = std::string(ZENFLOW_SOURCE_DIR) + "/scenarios/models/";
  const Outcome one = run({"list", models + "qwen3_30b_a3b.json"});
  EXPECT_EQ(one.code, 0);
  EXPECT_THAT(one.out, HasSubstr("model.layers.{}.mlp.experts.gate_up_proj"));
  EXPECT_THAT(one.out, HasSubstr("128 x 1536 x 2048"));
  EXPECT_THAT(one.out, HasSubstr("0-47"));
  EXPECT_THAT(one.out, HasSubstr("30532122624"));
}

TEST_F(Cli, TakesAModelByItsFolderOrItsName) {
  fs::create_directories(folder_ / "hub/my-gpt2");
  fs::copy_file(fs::path(ZENFLOW_SOURCE_DIR) / "scenarios/models/gpt2.json",
                folder_ / "hub/my-gpt2/config.json");
  for (const char* model : {"hub/my-gpt2", "hub/my-gpt2/config.json"}) {
    const Outcome by_folder =
        run({"run", "scenarios/one.yaml", "-q", "--set", std::string("model=") + model, "--set",
             "training.sequence_length=16"});
    EXPECT_EQ(by_folder.code, 0) << by_folder.err;
    EXPECT_THAT(by_folder.out, HasSubstr("my-gpt2 (0.12 B parameters)"));
  }
  expect_refused({"run", "scenarios/one.yaml", "--set", "model=no_such_model"},
                 HasSubstr("no such file, directory or listed model \"no_such_model\""));
}

TEST_F(Cli, ListsWhatIsKnown) {
  const json found = run_json({"list", "schedules,profiles,models"});
  EXPECT_GE(found.at("schedules").size(), 5U);
  EXPECT_GE(found.at("profiles").size(), 1U);
  EXPECT_GE(found.at("models").size(), 1U);
  const Outcome table = run({"list", "schedules"});
  EXPECT_EQ(table.code, 0);
  EXPECT_THAT(table.out, AllOf(HasSubstr("zenflow"), HasSubstr("zero-infinity")));
  EXPECT_THAT(run({"list", "shedules"}).err, HasSubstr("did you mean \"schedules\"?"));
}

TEST_F(Cli, ListsGpusAndTheNumbersOfANode) {
  const json gpus = run_json({"list", "gpus"}).at("gpus");
  EXPECT_GE(gpus.size(), 25U);
  const auto t4 =
      std::find_if(gpus.begin(), gpus.end(), [](const json& one) { return one.at("gpu") == "t4"; });
  ASSERT_NE(t4, gpus.end());
  EXPECT_EQ(t4->at("name"), "Tesla T4");
  // Of an A30 nobody published the rate of large products, of an A100 they did.
  for (const json& one : gpus) {
    const std::string share = one.at("GEMM share");
    if (one.at("gpu") == "a30" || one.at("gpu") == "a100_sxm_80g") {
      EXPECT_EQ(share.starts_with('~'), one.at("gpu") == "a30");
    }
  }
  for (const char* file : {"scenarios/one.yaml", "profiles/node.yaml"}) {
    const json numbers = run_json({"list", file}).at(file);
    EXPECT_EQ(numbers[0].at("number"), "gpu.count");
    EXPECT_EQ(numbers[0].at("value"), "2");
    EXPECT_EQ(numbers[0].at("source"), "s");
  }
  folder_.write("scenarios/parts.yaml",
                std::regex_replace(std::string(kScenario), std::regex("hardware: node"),
                                   "hardware: {gpu: l4, gpus_per_node: 2, host: {sockets: 1, "
                                   "cores: 8, memory: 64 GiB, dram_bandwidth: 50 GB/s}}"));
  folder_.write("profiles/derived.yaml", "base: node.yaml\nname: derived\n");
  EXPECT_EQ(run_json({"list", "profiles/derived.yaml"}).at("profiles/derived.yaml"),
            run_json({"list", "profiles/node.yaml"}).at("profiles/node.yaml"));
  EXPECT_THAT(run({"list", "scenarios/parts.yaml"}).out,
              AllOf(HasSubstr("stated in scenarios/parts.yaml:3:"), HasSubstr("half of the memory"),
                    HasSubstr("the usual link of l4, since gpu_link is not stated")));
}

// ---- surroundings ----

constexpr const char* kClean = R"({
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 1,
  "bf16": {"enabled": true},
  "gradient_clipping": 1.0,
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}},
  "zero_optimization": {
    "stage": 2,
    "overlap_comm": true,
    "offload_optimizer": {"device": "cpu", "pin_memory": true}
  },
  "my_own_block": {"kept": [1, 2, 3]}
})";

TEST_F(Cli, LintsWithZeroOneOrTwo) {
  folder_.write("clean.json", kClean);
  EXPECT_EQ(run({"lint", "clean.json"}).code, 0);
  folder_.write("broken.json", R"({"train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {"stage": 5}})");
  const Outcome broken = run({"lint", "broken.json"});
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.out, HasSubstr("broken.json:2:34: error: ZF"));
  EXPECT_EQ(run({"lint", "missing.json"}).code, 2);
  folder_.write("cut.json", R"({"zero_optimization": {"stage": )");
  EXPECT_EQ(run({"lint", "cut.json"}).code, 2);
  EXPECT_EQ(run({"lint", "clean.json", "--deepspeed-version", "9.9.9"}).code, 2);
}

TEST_F(Cli, LintJudgesTheBlockOfAnAccelerateConfiguration) {
  folder_.write("accelerate.yaml", R"(compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
deepspeed_config:
  gradient_accumulation_steps: 8
  offload_optimizer_device: cpu
  offload_param_device: cpu
  zero3_init_flag: false
  zero_stage: 2
mixed_precision: bf16
num_machines: 1
num_processes: 8
)");
  const Outcome judged = run({"lint", "accelerate.yaml"});
  EXPECT_EQ(judged.code, 0);
  EXPECT_THAT(
      judged.out,
      AllOf(HasSubstr("accelerate.yaml:6:3: warning: ZF066 zero_optimization.offload_param"),
            HasSubstr("accelerate.yaml: 0 errors, 2 warnings (DeepSpeed 0.19.8, target "
                      "accelerate)")));
  expect_refused({"lint", "accelerate.yaml", "--fix", "fixed.json"},
                 HasSubstr("accelerate.yaml is one of accelerate that names none"));
  folder_.write("ds.json",
                R"({"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 5}})");
  folder_.write("with_file.yaml", "deepspeed_config: {deepspeed_config_file: ds.json}\n");
  EXPECT_THAT(run({"lint", "with_file.yaml"}).out, HasSubstr("ds.json:1:70: error: ZF007"));
  // What the command line says holds, if it is the default, too.
  EXPECT_THAT(run({"lint", "accelerate.yaml", "--target", "deepspeed"}).out,
              HasSubstr("target deepspeed)"));
  EXPECT_EQ(judged.err, "");
  const Outcome other = run({"lint", "accelerate.yaml", "--world-size", "4"});
  EXPECT_EQ(other.err,
            "zenflow-sim: accelerate.yaml: starts 8 processes; judged for the 4 of --world-size\n");
  EXPECT_EQ(run({"lint", "accelerate.yaml", "--world-size", "8"}).err, "");
  EXPECT_EQ(json::parse(
                run({"lint", "accelerate.yaml", "--world-size", "4", "--json"}).out)["assumptions"]
                .size(),
            1U);
  folder_.write("clean.json", kClean);
  folder_.write("refused.yaml",
                "deepspeed_config: {deepspeed_config_file: clean.json, zero_stage: 2}\n"
                "distributed_type: DEEPSPEED\nmixed_precision: bf16\n");
  const Outcome refused = run({"lint", "refused.yaml"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out,
              AllOf(HasSubstr("refused.yaml:1:55: error: ZF107 deepspeed_config.zero_stage: "),
                    HasSubstr("refused.yaml:3:1: error: ZF107 mixed_precision: "),
                    HasSubstr("clean.json: 2 errors")));
  const json findings = json::parse(run({"lint", "refused.yaml", "--json"}).out)["findings"];
  EXPECT_EQ(findings[0]["file"], "refused.yaml");
  EXPECT_EQ(run({"lint", "refused.yaml", "--target", "hf"}).code, 1);
  folder_.write("hjson.yaml", "# ours\n{\n  train_batch_size: 8 // of all\n}\n");
  EXPECT_EQ(run({"lint", "hjson.yaml"}).code, 0);
  expect_refused({"lint", "scenarios/one.yaml"}, HasSubstr("found a scenario"));
}

TEST_F(Cli, LintJudgesWhatATrainingFileNames) {
  folder_.write("clean.json", kClean);
  const std::string train = R"(model_name_or_path: meta-llama/Llama-2-7b-hf
stage: sft
finetuning_type: full
per_device_train_batch_size: 4
gradient_accumulation_steps: 1
bf16: true
)";
  folder_.write("train.yaml", train + "deepspeed: clean.json\n");
  const Outcome clean = run({"lint", "train.yaml"});
  EXPECT_EQ(clean.code, 0);
  EXPECT_THAT(clean.out,
              AllOf(HasSubstr("train.yaml: a file of LLaMA-Factory, which names clean.json: "
                              "judged is that\n"),
                    HasSubstr("clean.json: 0 errors, 1 warning (DeepSpeed 0.19.8, target hf)\n")));
  const json document = json::parse(run({"lint", "train.yaml", "--json"}).out);
  EXPECT_EQ(document["read_as"], json::parse(R"([{"file": "train.yaml",
    "program": "LLaMA-Factory", "judged": "clean.json"}])"));
  EXPECT_EQ(document["files"], json{"clean.json"});

  folder_.write("alone.yaml", train);
  const Outcome alone = run({"lint", "alone.yaml"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_EQ(alone.out,
            "alone.yaml: a file of LLaMA-Factory without deepspeed: nothing of DeepSpeed's to "
            "check\n");
  expect_refused({"lint", "alone.yaml", "--fix", "fixed.json"}, HasSubstr("names none"));
  folder_.write("gone.yaml", train + "deepspeed: gone.json\n");
  expect_refused({"lint", "gone.yaml"}, HasSubstr("deepspeed: no such file \"gone.json\""));

  // TrainingArguments that Trainer would not run with this file, and its correction.
  folder_.write("hf.json",
                R"({"output_dir": "o", "per_device_train_batch_size": 2, "bf16": true,
                    "deepspeed": "clean.json"})");
  const Outcome differs = run({"lint", "hf.json"});
  EXPECT_EQ(differs.code, 1);
  EXPECT_THAT(differs.out, HasSubstr("error: ZF106 train_micro_batch_size_per_gpu: ValueError of "
                                     "Trainer: hf.json:1:52 says per_device_train_batch_size 2"));
  EXPECT_EQ(run({"lint", "hf.json", "--fix", "fixed.json"}).code, 0);
  EXPECT_THAT(file_content(folder_ / "fixed.json"),
              HasSubstr(R"("train_micro_batch_size_per_gpu": "auto")"));
  folder_.write("model.json",
                R"({"architectures": ["GPT2LMHeadModel"], "gradient_checkpointing": false})");
  expect_refused({"lint", "model.json"}, HasSubstr("found the config.json of a model"));
}

// People read them in a warning, programs in the JSON; what had to be assumed is said likewise.
TEST_F(Cli, EveryResultNamesKeysThatAreNotModelled) {
  folder_.write("scenarios/ds/zenflow.json", R"({"gradient_accumulation_steps": "auto",
  "zero_optimization": {"stage": 2, "round_robin_gradients": true,
  "offload_optimizer": {"device": "cpu"}}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-5}}})");
  const std::string schedule = "--schedule=deepspeed-zero-offload";
  for (const char* command : {"run", "fit", "explain", "compare"}) {
    const Outcome outcome = run({command, "scenarios/one.yaml", schedule, "--target", "hf"});
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("not modelled, as if not written: "
                                             "zero_optimization.round_robin_gradients\n"),
                                   HasSubstr("\"auto\": taken as 1")))
        << command;
    if (std::string_view(command) == "compare") continue;
    const json found = run_json({command, "scenarios/one.yaml", schedule, "--target", "hf"});
    EXPECT_EQ(found["not_modelled"], json{"zero_optimization.round_robin_gradients"}) << command;
    EXPECT_EQ(found["assumptions"].size(), 1U) << command;
  }
  EXPECT_THAT(
      run({"lint", "scenarios/ds/zenflow.json"}).out,
      HasSubstr("not modelled, as if not written: zero_optimization.round_robin_gradients"));
}

// What the launcher is told, and what it counts: micro steps that add up to optimizer steps.
TEST_F(Cli, PrintsBothTimesWhereMicroStepsAddUp) {
  const std::vector<std::string> arguments = {
      "run",        "scenarios/one.yaml",
      "--schedule", "zero-offload",
      "--set",      "training.gradient_accumulation_steps=4"};
  EXPECT_THAT(run(arguments).out,
              ContainsRegex("zero-offload: 4 micro steps of .* are an optimizer step of "));
  const json one = run_json(arguments)["results"][0];
  EXPECT_EQ(one["gradient_accumulation_steps"], 4);
  EXPECT_NEAR(double(one["optimizer_step_time_ms"]), 4 * double(one["step_time_ms"]), 1e-6);
}

// DeepSpeed takes both, and so does the simulation: a sub-group for each parameter, and one for
// all. Each one's page-locked gradients are rounded up by themselves.
TEST_F(Cli, RunsSubGroupsOfAnySize) {
  folder_.write("scenarios/ds/zenflow.json", R"({"zero_optimization": {"stage": 3,
  "sub_group_size": 0, "offload_optimizer": {"device": "cpu", "pin_memory": true},
  "offload_param": {"device": "cpu"}}})");
  const auto host_memory = [this](const std::string& size) {
    return run_json({"run", "scenarios/one.yaml", "--schedule", "deepspeed-zero-offload", "--set",
                     "deepspeed.zero_optimization.sub_group_size=" + size})["results"][0]["memory"]
        .at("host_peak_bytes")
        .get<double>();
  };
  EXPECT_NE(host_memory("0"), host_memory("1e14"));
}

// Under hf a window is gradient_accumulation_steps, and raising update_interval raises nothing.
TEST_F(Cli, ExplainsZenFlowUnderALauncherThatDropsItsInterval) {
  const std::string scenario = std::string(ZENFLOW_SOURCE_DIR) + "/scenarios/llama2_7b_4xa100.yaml";
  const Outcome outcome =
      run({"explain", scenario, "--schedule", "deepspeed-zenflow", "--target", "hf"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.out, HasSubstr("raise gradient_accumulation_steps"));
}

// Modules of stage 3 are gathered by the host one by one: a faster GPU waits as long.
TEST_F(Cli, ExplainsThatTheHostBoundsAStep) {
  folder_.write("ds.json", R"({"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
      "zero_optimization": {"stage": 3}})");
  const auto explain = [this](const char* gpu) {
    return run_json({"explain", "--ds", "ds.json", "--model", "meta-llama/Llama-3.2-1B", "--gpu",
                     gpu, "--gpus", "4", "--ram", "1TB", "--sequence-length", "1024"})
        .dump();
  };
  EXPECT_THAT(explain("b200"), HasSubstr("the host bounds the step"));
  EXPECT_THAT(explain("b200"), HasSubstr("stage 3's hooks"));
}

TEST_F(Cli, RunAndFitSayTheSameOfMemory) {
  int with_framework = 0;
  for (const char* name : {"llama2_7b_4xa100", "llama2_7b_2xh100", "qwen2_5_3b_2xa100_40g"}) {
    const std::string scenario = std::string(ZENFLOW_SOURCE_DIR) + "/scenarios/" + name + ".yaml";
    const json ran = run_json({"run", scenario})["results"];
    const json fitted = run_json({"fit", scenario})["results"];
    ASSERT_EQ(ran.size(), fitted.size());
    for (std::size_t i = 0; i < ran.size(); ++i) {
      SCOPED_TRACE(std::string(name) + ", " + ran[i]["schedule"].get<std::string>());
      const json& memory = ran[i]["memory"];
      for (const std::string place : {"gpu", "host"}) {
        EXPECT_EQ(fitted[i][place]["peak_bytes"], memory[place + "_peak_bytes"]);
        EXPECT_EQ(fitted[i][place]["capacity_bytes"], memory[place + "_capacity_bytes"]);
        EXPECT_EQ(fitted[i][place]["by_category"], memory[place]);
      }
      if (memory["host"].contains("framework")) ++with_framework;
    }
  }
  EXPECT_GT(with_framework, 0);
}

TEST_F(Cli, LintSpeaksJson) {
  folder_.write("broken.json", R"({"zero_optimization": {"stage": 5}})");
  const json document = json::parse(run({"lint", "broken.json", "--json"}).out);
  EXPECT_EQ(document["tool"], "zenflow-sim");
  EXPECT_GE(document["errors"].get<int>(), 1);
  EXPECT_EQ(document["findings"][0]["line"], 1);
}

TEST_F(Cli, LintReadsSeveralFilesAndStandardInput) {
  folder_.write("clean.json", kClean);
  folder_.write("broken.json", R"({"zero_optimization": {"stage": 5}})");
  const Outcome both = run({"lint", "clean.json", "broken.json"});
  EXPECT_EQ(both.code, 1);
  EXPECT_THAT(both.out, AllOf(HasSubstr("clean.json: 0 errors"), HasSubstr("broken.json: 2 errors"),
                              HasSubstr("broken.json:1:33: error: ZF007")));
  const json document = json::parse(run({"lint", "clean.json", "broken.json", "--json"}).out);
  EXPECT_EQ(document["files"], json({"clean.json", "broken.json"}));
  EXPECT_EQ(document["findings"].back()["file"], "broken.json");
  EXPECT_EQ(document["errors"], 2);
  EXPECT_EQ(run({"lint", "clean.json", "clean.json"}).code, 0);
  // One that cannot be read: no half report.
  expect_refused({"lint", "broken.json", "missing.json"}, HasSubstr("missing.json: cannot read"));
  expect_refused({"lint", "clean.json", "broken.json", "--fix", "fixed.json"},
                 HasSubstr("one file at a time"));

  folder_.write("input", R"({"zero_optimization": {"stage": 5}})");
  const Outcome piped =
      run_program({"/bin/sh", "-c", "\"$0\" lint - < input", ZENFLOW_SIM}, around());
  EXPECT_EQ(piped.code, 1);
  EXPECT_THAT(piped.out, HasSubstr("<stdin>:1:33: error: ZF007"));
}

TEST_F(Cli, LintRefusesWhatIsNoConfiguration) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"", "empty file"},
      {"// nothing", "empty file"},
      {"[1]", "1:1: expected a DeepSpeed configuration"},
      {"{\"a\": NaN}", "1:11: not valid JSON or Hjson"},
      {"{\"a\": 1e999}", "1:7: expected a number that Python can hold"},
      {std::string("{\"a\":\0}", 7), "control character 0x00"},
      {"{\"a\": \"\xFF\"}", "1:8: expected UTF-8 text"},
      {std::string(200, '['), "nested deeper than 100 levels"},
      {R"({"a": {"b": {"c": 1, "c": 2}}})", "1:22: duplicate key \"c\""},
      {R"({"model_type": "gpt2", "n_embd": 768})",
       "1:1: expected a DeepSpeed configuration, found"},
  };
  for (const auto& [text, message] : rows) {
    folder_.write("bad.json", text);
    expect_refused({"lint", "bad.json"}, AllOf(HasSubstr("bad.json"), HasSubstr(message)));
    expect_refused({"lint", "bad.json", "--json", "--fix", "fixed.json"}, HasSubstr(message));
  }
  expect_refused({"lint", "scenarios"}, HasSubstr("it is a directory"));
  for (const char* option : {"--target=HF", "--target=", "--deepspeed-version=0.19",
                             "--world-size=0", "--torch-version=new"}) {
    folder_.write("clean.json", kClean);
    expect_refused({"lint", "clean.json", option}, HasSubstr("--"));
  }
}

TEST_F(Cli, RunReadsTheHjsonThatDeepSpeedReads) {
  folder_.write("scenarios/ds/zenflow.json", kDeepSpeed);
  const std::string strict = run({"run", "scenarios/one.yaml", "--json"}).out;
  std::string text = kDeepSpeed;
  text.insert(1, " # why\n");
  text.replace(text.find("\"update_interval\""), 17, "update_interval");
  folder_.write("scenarios/ds/zenflow.json", text);
  const Outcome outcome = run({"run", "scenarios/one.yaml", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, strict);
}

TEST_F(Cli, RunWarnsOfWhatDeepSpeedWouldNotRun) {
  const std::vector<std::string> command = {"run", "scenarios/one.yaml"};
  EXPECT_EQ(run(command).err, "");
  const auto warning_of = [&](const std::string& from, const std::string& to) {
    std::string text = kDeepSpeed;
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    folder_.write("scenarios/ds/zenflow.json", text.replace(at, from.size(), to));
    const Outcome outcome = run(command);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_EQ(warning_of("\"topk_ratio\"", "\"select_interval\": 64, \"topk_ratio\""),
            "zenflow-sim: warning: scenarios/ds/zenflow.json: simulated as it is, but DeepSpeed "
            "0.19.8 would not run it as meant (ZF034); see zenflow-sim lint\n");
  EXPECT_THAT(warning_of("\"AdamW\"", "\"Lion\""), HasSubstr("(ZF026)"));
  EXPECT_EQ(run({"run", "scenarios/one.yaml", "-q"}).err, "");
  // Placeholders are right for a launcher that fills them in.
  EXPECT_EQ(warning_of("1e-5", "\"auto\""), "");
  EXPECT_THAT(run({"run", "scenarios/one.yaml", "--set", "update_interval=auto"}).err,
              HasSubstr("ZF037"));
}

TEST_F(Cli, ListsTheKeysOfARelease) {
  const auto has = [&](const std::string& key, const std::vector<std::string>& options) {
    std::vector<std::string> words = {"list", "keys"};
    words.insert(words.end(), options.begin(), options.end());
    const json keys = run_json(words).at("keys");
    return std::any_of(keys.begin(), keys.end(),
                       [&](const json& row) { return row["key"] == key; });
  };
  const std::string zenflow = "zero_optimization.zenflow";
  EXPECT_TRUE(has(zenflow, {}));
  EXPECT_FALSE(has("nebula", {}));
  EXPECT_FALSE(has(zenflow, {"--deepspeed-version", "0.17.4"}));
  EXPECT_FALSE(has(zenflow + ".topk_ratio", {"--deepspeed-version", "0.17.4"}));
  EXPECT_TRUE(has("zero_optimization.stage", {"--deepspeed-version", "0.17.4"}));
  EXPECT_THAT(run({"list", "keys", "--deepspeed-version", "0.12.5"}).err, HasSubstr("0.12.6"));
}

TEST_F(Cli, RunWarnsOfTheReleaseAndTheLauncherThatAreSimulated) {
  const auto warning_of = [&](const std::string& from, const std::string& to,
                              std::vector<std::string> options) {
    std::string text = kDeepSpeed;
    folder_.write("scenarios/ds/zenflow.json", text.replace(text.find(from), from.size(), to));
    options.insert(options.begin(), {"run", "scenarios/one.yaml"});
    const Outcome outcome = run(options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(warning_of("\"topk_ratio\"", "\"select_interval\": 64, \"topk_ratio\"",
                         {"--deepspeed-version", "0.19.5"}),
              HasSubstr("DeepSpeed 0.19.5 would not run it as meant (ZF034)"));
  // A placeholder is right for Trainer and wrong without it.
  EXPECT_EQ(warning_of("1e-5", "\"auto\"", {"--target", "hf"}), "");
  EXPECT_THAT(warning_of("1e-5", "\"auto\"", {"--target", "deepspeed"}),
              HasSubstr("under deepspeed would not run it as meant (ZF"));
}

TEST_F(Cli, ListsMicroSteps) {
  const json document =
      run_json({"steps", "scenarios/one.yaml", "--schedule", "deepspeed-zenflow", "--count", "9"});
  const json& one = document["schedules"][0];
  EXPECT_EQ(one["schedule"], "deepspeed-zenflow");
  ASSERT_EQ(one["micro_steps"].size(), 9U);
  EXPECT_EQ(one["micro_steps"][8]["step"], 8);
  EXPECT_THAT(run({"steps", "scenarios/one.yaml"}).out, HasSubstr("step  window  selects"));
  EXPECT_EQ(run({"steps", "scenarios/one.yaml", "--count", "0"}).code, 2);
}

TEST_F(Cli, LintFixesElsewhereAndKeepsTheRest) {
  std::string text = kClean;
  text.replace(text.find("\"overlap_comm\": true,"), 21,
               "\"overlap_comm\": true,\n    \"zenflow\": {\"topk_ratio\": 0.1, "
               "\"update_interval\": 4, \"select_interval\": 64},");
  folder_.write("ds.json", text);
  run({"lint", "ds.json", "--fix", "fixed.json"});
  EXPECT_EQ(file_content(folder_ / "ds.json"), text) << "the input is never changed";
  const json fixed = json::parse(file_content(folder_ / "fixed.json"));
  EXPECT_EQ(fixed["my_own_block"]["kept"], json({1, 2, 3}));
  EXPECT_EQ(fixed["zero_optimization"]["zenflow"]["select_strategy"], "step");
  EXPECT_EQ(run({"lint", "ds.json", "--fix", "fixed.json"}).code, 2) << "exists already";
}

TEST_F(Cli, ColorsOnlyWhenAskedOrOnATerminal) {
  const std::vector<std::string> plain = {"run", "scenarios/one.yaml"};
  EXPECT_THAT(run(plain).out, Not(HasSubstr("\033")));
  EXPECT_THAT(run({"run", "scenarios/one.yaml", "--color", "always"}).out, HasSubstr("\033[1m"));
  EXPECT_THAT(run({"run", "scenarios/one.yaml", "--color", "never"}).out, Not(HasSubstr("\033")));
  EXPECT_THAT(run({"run", "scenarios/one.yaml", "--color", "always", "--json"}).out,
              Not(HasSubstr("\033")));
  Surroundings forced = around();
  forced.environment = {{"ZENFLOW_COLOR", "always"}, {"NO_COLOR", "1"}};
  EXPECT_THAT(run_in(forced, plain).out, HasSubstr("\033[1m"));
  EXPECT_THAT(run_in(forced, {"run", "scenarios/one.yaml", "--color", "never"}).out,
              Not(HasSubstr("\033")));
  forced.environment = {{"ZENFLOW_COLOR", "allways"}};
  const Outcome wrong = run_in(forced, plain);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("did you mean \"always\"?"));
}

TEST_F(Cli, TakesDefaultsFromItsConfigurationFile) {
  folder_.write("conf/zenflow/config.yaml", "color: always\n");
  Surroundings configured = around();
  configured.environment = {{"XDG_CONFIG_HOME", (folder_ / "conf").string()}};
  const std::vector<std::string> plain = {"run", "scenarios/one.yaml"};
  EXPECT_THAT(run_in(configured, plain).out, HasSubstr("\033[1m"));
  configured.environment["ZENFLOW_COLOR"] = "never";
  EXPECT_THAT(run_in(configured, plain).out, Not(HasSubstr("\033")));
  folder_.write("mine.yaml", "colour: always\n");
  expect_refused(
      {"run", "scenarios/one.yaml", "--config", "mine.yaml"},
      AllOf(HasSubstr("mine.yaml:1:1: colour: unknown key"), HasSubstr("did you mean \"color\"?")));
  expect_refused({"run", "scenarios/one.yaml", "--config", "none.yaml"}, HasSubstr("none.yaml"));
}

TEST_F(Cli, TakesTheProfileOfTheFlagThenTheVariableThenTheScenario) {
  for (const char* name : {"other", "third"}) {
    std::string text = kProfile;
    text.replace(text.find("name: node"), 10, std::string("name: ") + name);
    folder_.write(std::string("profiles/") + name + ".yaml", text);
  }
  Surroundings variable = around();
  variable.environment = {{"ZENFLOW_PROFILE", "other"}};
  const auto profile = [](const Outcome& outcome) {
    return json::parse(outcome.out)["hardware"]["name"].get<std::string>();
  };
  EXPECT_EQ(profile(run_in(variable, {"run", "scenarios/one.yaml", "--json"})), "other");
  EXPECT_EQ(
      profile(run_in(variable, {"run", "scenarios/one.yaml", "--json", "--profile", "third"})),
      "third");
}

TEST_F(Cli, WarnsOnStandardErrorUnlessQuiet) {
  const std::string with_block =
      changed("scenarios/ds/zenflow.json", kDeepSpeed, "{\"zero", "{\"my_own_notes\": 1, \"zero");
  folder_.write(
      "scenarios/noted.yaml",
      std::regex_replace(std::string(kScenario), std::regex("ds/zenflow.json"), "ds/changed.json"));
  const Outcome outcome = run({"run", "scenarios/noted.yaml", "--json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(json::accept(outcome.out));
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("zenflow-sim: warning: scenarios/ds/changed.json:1:2: "),
                    HasSubstr("my_own_notes")));
  EXPECT_EQ(run({"run", "-q", "scenarios/noted.yaml"}).err, "");
}

// ---- bad input ----

TEST_F(Cli, RefusesBadScenarios) {
  const std::string file = "scenarios/changed.yaml";
  expect_refused_scenario(
      "gpus: 2", "gpuz: 2",
      AllOf(HasSubstr(file + ":4:1: gpuz: unknown key"), HasSubstr("did you mean \"gpus\"?")));
  expect_refused_scenario("gpus: 2", "gpus: 2\ngpus: 1", HasSubstr(file + ":5:1: "));
  expect_refused_scenario("gpus: 2", "gpus: -2", HasSubstr(file + ":4:7: gpus: "));
  expect_refused_scenario("gpus: 2", "gpus: .nan", HasSubstr(file + ":4:7: gpus: "));
  expect_refused_scenario("gpus: 2", "gpus: [2", HasSubstr(file + ":"));
  expect_refused_scenario("schedules: [zero-offload, zenflow]", "schedules: [zero-ofload]",
                          HasSubstr("did you mean \"zero-offload\"?"));
  expect_refused_scenario("sequence_length: 64", "sequence_length: 1e9",
                          HasSubstr("training.sequence_length: "));
  expect_refused_scenario(
      "hardware: node", "hardware: nod",
      AllOf(HasSubstr(file + ":3:11: hardware: "), HasSubstr("did you mean \"node\"?")));
  expect_refused_scenario("models/tiny.json", "models/none.json",
                          HasSubstr(file + ":2:8: model: no such file"));
  expect_refused({"run", "scenarios/none.yaml"}, HasSubstr("scenarios/none.yaml"));
  expect_refused({"run", "scenarios"}, HasSubstr("scenarios: "));
}

TEST_F(Cli, RefusesAScheduleThatIsNotKnownWhereItIsWritten) {
  expect_refused_scenario("schedules: [zero-offload, zenflow]", "schedules: [zero-offload, zenflw]",
                          HasSubstr("scenarios/changed.yaml:7:27: schedules"));
}

TEST_F(Cli, RefusesFilesThatReferToEachOther) {
  expect_refused_scenario(
      "name: one", "name: one\nbase: changed.yaml",
      AllOf(HasSubstr("scenarios/changed.yaml:2:7: base: "), HasSubstr("cycle")));
  folder_.write("scenarios/a.yaml", "base: b.yaml\n");
  folder_.write("scenarios/b.yaml", "base: a.yaml\n");
  expect_refused({"run", "scenarios/a.yaml"},
                 AllOf(HasSubstr("scenarios/b.yaml:1:7: base: "), HasSubstr("cycle")));
  expect_refused_scenario("hardware: node", "hardware: changed.yaml", HasSubstr("cycle"));
  expect_refused_scenario("deepspeed: ds/zenflow.json", "deepspeed: changed.yaml",
                          HasSubstr("cycle"));
}

TEST_F(Cli, RefusesBadProfiles) {
  const auto refuse = [this](const std::string& from, const std::string& to,
                             const ::testing::Matcher<std::string>& message) {
    const std::string path = changed("profiles/node.yaml", kProfile, from, to);
    expect_refused({"run", "scenarios/one.yaml", "--profile", "./" + path}, message);
  };
  refuse("{value: 10 GB/s, source: s}\n  adam", "{value: 10, source: s}\n  adam",
         AllOf(HasSubstr("profiles/changed.yaml:23:27: host.core_bandwidth"), HasSubstr("GB/s")));
  refuse("{value: 20 GB/s, source: s}", "{value: 20 GB/s}",
         AllOf(HasSubstr("profiles/changed.yaml:29:8: host_link.h2d.source: required")));
  refuse("{value: 20 GB/s, source: s}", "{value: -20 GB/s, source: s}",
         HasSubstr("profiles/changed.yaml:29:16: host_link.h2d"));
  refuse("{value: 20 GB/s, source: s}", "{value: 0 GB/s, source: s}",
         HasSubstr("profiles/changed.yaml:29:16: host_link.h2d"));
  refuse("{value: 20 GB/s, source: s}", "{value: nan GB/s, source: s}",
         HasSubstr("profiles/changed.yaml:29:16: host_link.h2d"));
  refuse("value: 0.5, source", "value: 1.5, source", HasSubstr("gpu.gemm_efficiency"));
  refuse("  kernel_launch", "  kernel_lunch", HasSubstr("kernel_launch"));
}

TEST_F(Cli, RefusesBadModels) {
  const auto refuse = [this](const std::string& text,
                             const ::testing::Matcher<std::string>& message) {
    folder_.write("scenarios/models/tiny.json", text);
    expect_refused({"run", "scenarios/one.yaml"}, message);
  };
  refuse(R"({"model_type": "another"})",
         AllOf(HasSubstr("models/tiny.json:1:16: "), HasSubstr("model_type")));
  refuse(R"({"model_type": "opt", "hidden_size": 32)", HasSubstr("models/tiny.json:1:"));
  refuse(R"({"model_type": "opt", "hidden_size": 32})", HasSubstr("models/tiny.json:1:1: "));
  refuse("", HasSubstr("models/tiny.json:"));
}

TEST_F(Cli, RefusesBadDeepSpeedFiles) {
  const auto refuse = [this](const std::string& from, const std::string& to,
                             const ::testing::Matcher<std::string>& message) {
    std::string text = kDeepSpeed;
    text.replace(text.find(from), from.size(), to);
    folder_.write("scenarios/ds/zenflow.json", text);
    expect_refused({"run", "scenarios/one.yaml"}, message);
  };
  for (const char* k : {"0", "1", "-0.5", "1.5"}) {
    refuse("\"topk_ratio\": 0.1", std::string("\"topk_ratio\": ") + k,
           HasSubstr("ds/zenflow.json:1:62: deepspeed.zero_optimization.zenflow.topk_ratio: "));
  }
  refuse("\"update_interval\": 4", "\"update_interval\": 0",
         HasSubstr("zenflow.update_interval: expected"));
  refuse("\"topk_ratio\": 0.1", "\"topk_ratoi\": 0.1",
         AllOf(HasSubstr("unknown key"), HasSubstr("did you mean \"topk_ratio\"?")));
  refuse("\"stage\": 2", "\"stage\": 2, \"stage\": 3", HasSubstr("ds/zenflow.json:1:"));
  refuse("\"stage\": 2", "\"stage\": NaN", HasSubstr("ds/zenflow.json:1:"));
  refuse("{\"zero", "{\"train_batch_size\": 7, \"zero",
         HasSubstr("deepspeed.train_batch_size: 7 is not"));
}

TEST_F(Cli, RefusesBadOverridesByThemselves) {
  for (const char* set : {"topk_ratio=1", "update_interval=0", "gpus=3", "gpus=x",
                          "gpus=", "training.sequence_lengt=8", "hardware=nothing", "name.x.y=1",
                          "hardware.host_link.d2h.value=10"}) {
    expect_refused({"run", "scenarios/one.yaml", "--set", set}, HasSubstr("--set "));
  }
}

}  // namespace
}  // namespace zenflow::testing
