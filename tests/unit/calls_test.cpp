// The C function that other languages call, over programs of this test's own.
#include "tools/python/calls.h"

#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"
#include "tools/environment.h"

namespace zenflow::tools {

/// Prints what it is given; without anything it fails.
int run_sim(int argc, char** argv) {
  return run_program("zenflow-sim", [&] {
    if (argc < 2) throw Error(ErrorKind::kInput, "job.yaml:2:1: modle: unknown key");
    for (int i = 0; i < argc; ++i) print(std::string(argv[i]) + "\n");
    complain("said\n");
    return 3;
  });
}

/// Works until it is stopped.
int run_tune(int, char**) {
  return run_program("zenflow-tune", []() -> int {
    print("begun\n");
    for (;;) throw_if_stopped();
  });
}

namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::CaptureStdout;
using ::testing::internal::GetCapturedStderr;
using ::testing::internal::GetCapturedStdout;

struct Answer {
  int code = 0;
  std::string out{};
  std::string err{};
};

Answer call(const char* program, const std::vector<const char*>& arguments) {
  char* out = nullptr;
  char* err = nullptr;
  const int code =
      zenflow_call(program, static_cast<int>(arguments.size()), arguments.data(), &out, &err);
  Answer answer{code, out, err};
  zenflow_free(out);
  zenflow_free(err);
  return answer;
}

void expect_kept_apart() {
  CaptureStdout();
  CaptureStderr();
  const Answer answer = call("zenflow-sim", {"check", "a b"});
  EXPECT_EQ(answer.code, 3);
  EXPECT_EQ(answer.out, "zenflow-sim\ncheck\na b\n");
  EXPECT_EQ(answer.err, "said\n");
  const Answer failed = call("zenflow-sim", {});
  EXPECT_EQ(failed.code, 2);
  EXPECT_EQ(failed.err, "zenflow-sim: job.yaml:2:1: modle: unknown key\n");
  EXPECT_EQ(GetCapturedStdout(), "");
  EXPECT_EQ(GetCapturedStderr(), "");
}

TEST(Calls, ReturnWhatProgramsPrint) {
  expect_kept_apart();
  // Afterwards this process prints as ever.
  CaptureStdout();
  print("printed");
  EXPECT_EQ(GetCapturedStdout(), "printed");
}

TEST(Calls, ReturnItWhereStacksAreSmall) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_STACK, &before), 0);
  const rlimit small{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_STACK, &small), 0);
  expect_kept_apart();
  ::setrlimit(RLIMIT_STACK, &before);
}

TEST(Calls, OfSeveralThreadsKeepTheirTextsApart) {
  std::vector<Answer> answers(8);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    threads.emplace_back([&answers, i] {
      const std::string own = std::to_string(i);
      for (int k = 0; k < 100; ++k) answers[i] = call("zenflow-sim", {own.c_str()});
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(answers[i].out, "zenflow-sim\n" + std::to_string(i) + "\n");
  }
}

TEST(Calls, EndWhenTheyAreStopped) {
  Answer answer;
  std::thread thread([&answer] { answer = call("zenflow-tune", {}); });
  zenflow_stop(1);
  thread.join();
  zenflow_stop(0);
  EXPECT_EQ(answer.code, 130);
  EXPECT_EQ(answer.out, "begun\n");
  EXPECT_EQ(call("zenflow-sim", {"again"}).code, 3);
}

}  // namespace
}  // namespace zenflow::tools
