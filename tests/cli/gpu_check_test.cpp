// script/gpu-check as its user meets it: limits, results, exit codes. With phases made for the
// test; none of them measures.
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::testing {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class GpuCheck : public ::testing::Test {
 protected:
  std::vector<std::string> command(std::vector<std::string> arguments) const {
    const std::vector<std::string> always = {ZENFLOW_SOURCE_DIR "/script/gpu-check", "--work",
                                             "work"};
    arguments.insert(arguments.begin(), always.begin(), always.end());
    return arguments;
  }
  Outcome run(const std::vector<std::string>& arguments) const {
    return run_program(command(arguments), {.folder = folder_.path()});
  }
  /// Runs the phases of the test on the CPU into the folder "out".
  Outcome rehearse(std::vector<std::string> arguments = {}) const {
    for (const char* argument : {"--device", "cpu", "--phases", "phases", "--out", "out"}) {
      arguments.emplace_back(argument);
    }
    return run(arguments);
  }
  void phase(const std::string& name, const std::string& body, const std::string& limit = "100") {
    folder_.write("phases/" + name, "#!/bin/bash\n# what: " + name + "\n# limit: " + limit +
                                        "\n. \"$GPU_CHECK_ROOT/script/gpu_check/phase.sh\"\n" +
                                        body + "\n");
    fs::permissions(folder_ / ("phases/" + name), fs::perms::owner_all);
  }
  json summary() const { return json::parse(file_content(folder_ / "out/summary.json")); }
  json entry(const std::string& name) const {
    const json document = summary();
    for (const json& one : document["phases"]) {
      if (one["name"] == name) return one;
    }
    ADD_FAILURE() << "no phase " << name << " in the summary";
    return {};
  }
  std::set<std::string> results() const {
    std::set<std::string> names;
    for (const auto& file : fs::directory_iterator(folder_ / "out")) {
      names.insert(file.path().filename());
    }
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(GpuCheck, HelpsAndListsItsPhases) {
  const Outcome help = run({"--help"});
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.out, AllOf(HasSubstr("--only"), HasSubstr("--limit"), HasSubstr("Exit codes")));
  const Outcome list = run({"--list"});
  EXPECT_EQ(list.code, 0) << list.err;
  for (const char* name : {"build", "probe", "kernels", "memcheck", "recorder", "deepspeed"}) {
    EXPECT_THAT(list.out, HasSubstr(name));
  }
}

TEST_F(GpuCheck, RefusesWrongUsageWithTwo) {
  const std::vector<std::vector<std::string>> wrong = {{},
                                                       {"--frobnicate"},
                                                       {"--out"},
                                                       {"--out", "out", "--device", "tpu"},
                                                       {"--out", "out", "--only", "nothing"},
                                                       {"--out", "out", "--limit", "0"},
                                                       {"--out", "out", "--deps", "missing"},
                                                       {"--out", "out", "--wheels", "missing"},
                                                       {"--out", "out", "--python", "missing"},
                                                       {"--out", "out", "--phases", "missing"}};
  for (const auto& arguments : wrong) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.code, 2) << outcome.out << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("gpu-check: "));
    EXPECT_FALSE(fs::exists(folder_ / "out"));
  }
}

TEST_F(GpuCheck, AGpuThatIsMissingIsFiveAndSaysWhy) {
  if (fs::exists("/dev/nvidiactl")) GTEST_SKIP() << "this machine may have a GPU";
  phase("10-never", "fail 'it ran'");
  const Outcome outcome = run({"--phases", "phases", "--out", "out"});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  EXPECT_THAT(outcome.err, AllOf(StartsWith("gpu-check: --device cuda: no usable GPU: "),
                                 HasSubstr("--device cpu")));
  EXPECT_EQ(entry("never")["state"], "skipped");
  EXPECT_THAT(outcome.err, HasSubstr(summary()["no_gpu"].get<std::string>()));
}

TEST_F(GpuCheck, PhasesPassFailAndSkip) {
  phase("10-passes",
        "run true here\nfigures answer 42 text 'fine'\necho a >\"$GPU_CHECK_PUBLISH/a.txt\"");
  phase("20-fails", "echo last words; echo b >\"$GPU_CHECK_PUBLISH/a.txt\"\nfail 'for a reason'");
  phase("30-skips", "skip 'nothing to do'");
  phase("40-dies", "kill -9 $$");
  const Outcome outcome = rehearse({"--commit", "0123abc"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(entry("passes")["state"], "passed");
  EXPECT_EQ(entry("passes")["figures"], json::parse(R"({"answer": 42, "text": "fine"})"));
  EXPECT_EQ(entry("passes")["commands"], json::parse(R"(["true here"])"));
  EXPECT_EQ(entry("fails")["state"], "failed");
  EXPECT_EQ(entry("fails")["why"], "for a reason");
  EXPECT_EQ(entry("skips")["state"], "skipped");
  EXPECT_EQ(entry("skips")["why"], "nothing to do");
  EXPECT_EQ(entry("dies")["why"], "signal 9");
  EXPECT_THAT(outcome.out,
              AllOf(HasSubstr("last words"), HasSubstr("1 passed, 2 failed, 1 skipped")));
  EXPECT_EQ(file_content(folder_ / "out/a.txt"), "a\nb\n");
  EXPECT_EQ(summary()["commit"]["id"], "0123abc");
  EXPECT_EQ(results(),
            (std::set<std::string>{"a.txt", "logs.tar.gz", "summary.json", "summary.txt"}));
}

TEST_F(GpuCheck, OnlyNamedPhasesRun) {
  phase("10-first", "fail 'it ran'");
  phase("20-second", "true");
  EXPECT_EQ(rehearse({"--only", "second"}).code, 0);
  EXPECT_EQ(summary()["phases"].size(), 1U);
}

// It ignores SIGTERM, and a process of it has left its process group.
TEST_F(GpuCheck, APhasePastItsLimitIsStoppedAndLeavesItsResults) {
  phase("10-hangs", R"(trap '' TERM
setsid sleep 1000 &
echo $! >"$GPU_CHECK_PUBLISH/stray.txt"
figures so_far 1
echo measured >"$GPU_CHECK_PUBLISH/half.txt"
while true; do sleep 1000; done)",
        "20");
  phase("20-after", "true");
  const Outcome outcome = rehearse({"--grace", "1"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(entry("hangs")["state"], "limit");
  EXPECT_EQ(entry("hangs")["figures"]["so_far"], 1);
  EXPECT_EQ(entry("after")["state"], "passed");
  EXPECT_EQ(file_content(folder_ / "out/half.txt"), "measured\n");
  const pid_t stray = std::stoi(file_content(folder_ / "out/stray.txt"));
  EXPECT_EQ(::kill(stray, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(GpuCheck, WhatEndsItLeavesTheResults) {
  phase("10-passes", "echo measured >\"$GPU_CHECK_PUBLISH/whole.txt\"");
  phase("20-waits", "touch \"$GPU_CHECK_WORK/waits\"; sleep 1000");
  phase("30-never", "true");
  RunningProgram program(
      command({"--device", "cpu", "--phases", "phases", "--out", "out", "--grace", "1"}),
      {.folder = folder_.path()});
  ASSERT_TRUE(program.wait_until([&] { return fs::exists(folder_ / "work/waits"); }));
  program.send(SIGTERM);
  EXPECT_EQ(program.wait().code, 128 + SIGTERM);
  EXPECT_EQ(file_content(folder_ / "out/whole.txt"), "measured\n");
  EXPECT_EQ(entry("passes")["state"], "passed");
  EXPECT_EQ(entry("waits")["state"], "failed");
  EXPECT_EQ(summary()["phases"].size(), 2U);
}

TEST_F(GpuCheck, ResultsAreFewAndSmallAndWhatIsLeftOutIsNamed) {
  phase("10-many", "for i in 1 2 3 4 5 6 7 8; do echo $i >\"$GPU_CHECK_PUBLISH/$i.txt\"; done");
  phase("20-large", "truncate -s 17M \"$GPU_CHECK_PUBLISH/0.bin\"");
  phase("30-trace", "head -c 1000 /dev/urandom >\"$GPU_CHECK_PUBLISH/traces/t.json.gz\"");
  EXPECT_EQ(rehearse().code, 0);
  const std::set<std::string> found = results();
  EXPECT_LE(found.size(), 8U);
  EXPECT_TRUE(found.contains("traces.tar"));
  for (const std::string& name : found)
    EXPECT_LE(fs::file_size(folder_ / ("out/" + name)), 16U << 20);
  std::set<std::string> accounted(found);
  const json document = summary();
  for (const json& one : document["left_out"]) accounted.insert(one["file"].get<std::string>());
  for (const char* name : {"1.txt", "8.txt", "0.bin"})
    EXPECT_TRUE(accounted.contains(name)) << name;
  EXPECT_THAT(file_content(folder_ / "out/summary.txt"), HasSubstr("left out: 0.bin"));
}

TEST_F(GpuCheck, OverwritesNothingUnasked) {
  phase("10-passes", "true");
  EXPECT_EQ(rehearse().code, 0);
  const Outcome again = rehearse();
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("holds results already"));
  EXPECT_EQ(rehearse({"-f"}).code, 0);
}

TEST_F(GpuCheck, WhatIsNoPhaseIsRefused) {
  phase("10-passes", "true");
  folder_.write("phases/notes", "");
  EXPECT_EQ(rehearse().code, 2);
}

}  // namespace
}  // namespace zenflow::testing
