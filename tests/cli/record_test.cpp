// "record" as users meet it: the command always runs, and what was traced or not is said.
#include <algorithm>
#include <csignal>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/program.h"
#include "tests/support/temporary_folder.h"

namespace zenflow {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::Outcome;
using ::testing::SizeIs;
using testing::TemporaryFolder;

class Record : public ::testing::Test {
 protected:
  Outcome record(const std::vector<std::string>& arguments,
                 std::map<std::string, std::string> environment = {}) {
    std::vector<std::string> command = {RECORD_MAIN, "record"};
    command.insert(command.end(), arguments.begin(), arguments.end());
#ifdef FAKE_CUPTI_FOLDER
    environment.emplace("ZENFLOW_CUDA_LIB_DIR", FAKE_CUPTI_FOLDER);
#endif
    return testing::run_program(command, {.folder = folder_.path(), .environment = environment});
  }
  /// Files in the folder; what the program works with must be gone.
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TemporaryFolder folder_;
};

TEST_F(Record, ACommandWithoutCudaRunsUntracedAndItsExitCodeIsPassedOn) {
  const Outcome outcome = record({"--", "sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(outcome.code, 7);
  EXPECT_EQ(outcome.out, "out\n");
  EXPECT_THAT(outcome.err, HasSubstr("err\n"));
  EXPECT_THAT(outcome.err, HasSubstr("untraced: "));
  EXPECT_THAT(files(), SizeIs(0));
}

TEST_F(Record, ATraceCanBeRequired) {
  EXPECT_EQ(record({"--require-trace", "--", "true"}).code, 5);
  EXPECT_EQ(record({"--require-trace", "--", "false"}).code, 1) << "the command's failure is first";
}

TEST_F(Record, ASignalThatEndsTheCommandIsInTheExitCode) {
  EXPECT_EQ(record({"--", "sh", "-c", "kill -TERM $$"}).code, 128 + SIGTERM);
}

TEST_F(Record, SignalsArePassedOnToTheCommand) {
  // The command signals the recorder, which has to send it back.
  const Outcome outcome =
      record({"--", "sh", "-c",
              "trap 'echo told; exit 3' TERM; kill -TERM $PPID; while :; do sleep 0.05; done"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.out, "told\n");
}

TEST_F(Record, WhatCannotBeRunOrWrittenIsSaidBefore) {
  Outcome outcome = record({"--", "no-such-program"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("cannot run no-such-program: No such file or directory"));
  outcome = record({});
  EXPECT_EQ(outcome.code, 2);
  folder_.write("trace.json.gz", "precious");
  outcome = record({"--", "touch", "ran"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ran"));
  EXPECT_EQ(record({"-f", "--", "touch", "ran"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "ran"));
}

TEST_F(Record, AnotherToolsInjectionIsLeftAlone) {
  const Outcome outcome = record({"--", "sh", "-c", "echo $CUDA_INJECTION64_PATH"},
                                 {{"CUDA_INJECTION64_PATH", "/opt/other.so"}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.out, "/opt/other.so\n");
  EXPECT_THAT(outcome.err, HasSubstr("another tool traces this command"));
}

#ifdef TRACED_PROGRAM
class RecordTraced : public Record {
 protected:
  Outcome trace(const std::string& what, std::vector<std::string> options = {}) {
    options.insert(options.end(), {"-o", "t.json", "--", TRACED_PROGRAM, what});
    return record(options);
  }
  [[nodiscard]] json written(const std::string& name = "t.json") const {
    return json::parse(testing::file_content(folder_ / name));
  }
  static int count(const json& trace, const std::string& category) {
    const json& events = trace["traceEvents"];
    return static_cast<int>(std::count_if(events.begin(), events.end(), [&](const json& event) {
      return event["ph"] == "X" && event["cat"] == category;
    }));
  }
};

TEST_F(RecordTraced, ALaunchesKernelsAndCopiesAreInTheTrace) {
  const Outcome outcome = trace("train");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("100 kernels, 1 copies, 0 memsets, 100 calls"));
  EXPECT_THAT(outcome.err, HasSubstr("records lost: none"));
  const json trace = written();
  EXPECT_EQ(count(trace, "kernel"), 100);
  EXPECT_EQ(count(trace, "cuda_runtime"), 100);
  EXPECT_EQ(count(trace, "gpu_memcpy"), 1);
  EXPECT_THAT(trace["traceName"], HasSubstr("traced_program train"));
  EXPECT_EQ(trace["zenflow_recording"]["complete"], true);
  EXPECT_THAT(files(), ::testing::ElementsAre("t.json"));
}

TEST_F(RecordTraced, TheExitCodeIsTheCommands) {
  EXPECT_EQ(trace("code").code, 42);
  EXPECT_EQ(count(written(), "kernel"), 100);
}

TEST_F(RecordTraced, LowOverheadIsWithoutCalls) {
  EXPECT_EQ(trace("train", {"--low-overhead"}).code, 0);
  EXPECT_EQ(count(written(), "kernel"), 100);
  EXPECT_EQ(count(written(), "cuda_runtime"), 0);
}

TEST_F(RecordTraced, NvtxHandsItsRangesToTheCuptiThatRecords) {
  const Outcome outcome = trace("ranges");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("1 ranges"));
  EXPECT_EQ(count(written(), "user_annotation"), 1);
  std::filesystem::remove(folder_ / "t.json");
  EXPECT_EQ(trace("ranges", {"--low-overhead"}).code, 0);
  EXPECT_EQ(count(written(), "user_annotation"), 0);
}

TEST_F(RecordTraced, CuptiHeldByAnotherToolIsNotTracedAndTheCommandRuns) {
  const Outcome outcome = trace("held");
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("was not traced: cannot subscribe to CUPTI"));
  EXPECT_THAT(outcome.err, HasSubstr("another tool holds CUPTI"));
  EXPECT_THAT(files(), SizeIs(0));
}

TEST_F(RecordTraced, AProgramThatIsTerminatedIsWrittenFirst) {
  const Outcome outcome = trace("terminated");
  EXPECT_EQ(outcome.code, 128 + SIGTERM);
  EXPECT_EQ(count(written(), "kernel"), 100);
  EXPECT_EQ(written()["zenflow_recording"]["complete"], true);
}

TEST_F(RecordTraced, OfAProgramThatIsKilledIsWrittenWhatWasDelivered) {
  const Outcome outcome = trace("killed");
  EXPECT_EQ(outcome.code, 128 + SIGKILL);
  // 100 launches do not fill a buffer, so nothing had been delivered.
  EXPECT_THAT(outcome.err, HasSubstr("the process was killed"));
  EXPECT_EQ(count(written(), "kernel"), 0);
  EXPECT_EQ(written()["zenflow_recording"]["complete"], false);
}

TEST_F(RecordTraced, ForkedProcessesEndAsUsualAndAreNotRecorded) {
  const Outcome outcome = trace("forked");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(written(), "kernel"), 100);
}

TEST_F(RecordTraced, EveryGpuThatTheProgramUsesIsWaitedFor) {
  const Outcome outcome = trace("threads");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("GPU 0 is waited for\nGPU 0 is held 0 times\n"
                                     "GPU 2 is waited for\nGPU 2 is held 0 times\n"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("GPU 1")));
  EXPECT_EQ(count(written(), "kernel"), 100);
}

TEST_F(RecordTraced, EachRankHasATraceOfItsOwn) {
  const Outcome outcome = trace("ranks");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::vector<std::string> names = files();
  ASSERT_THAT(names, SizeIs(2));
  for (const std::string& name : names) {
    EXPECT_THAT(name, ::testing::MatchesRegex("t\\.[0-9]+\\.json"));
    EXPECT_EQ(count(written(name), "kernel"), 100);
  }
}

TEST_F(RecordTraced, WithoutCuptiTheReasonIsSaid) {
  folder_.write("own/libcupti.so.13", "not a library");
  const Outcome outcome =
      record({"--", TRACED_PROGRAM, "no-cupti"}, {{"ZENFLOW_CUDA_LIB_DIR", folder_ / "own"}});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("libcupti.so"));
  EXPECT_THAT(outcome.err, HasSubstr("$ZENFLOW_CUDA_LIB_DIR holds a file that does not load"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("internal error")));
}
#endif

}  // namespace
}  // namespace zenflow
