// A program that saves checkpoints is killed at 100 random moments. After each kill the newest
// checkpoint is valid, complete, and not older than the last save that the program reported.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <random>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using testing::ToyState;

constexpr std::size_t kWeights = 50'000;  // as in checkpoint_loop.cpp
constexpr int kKills = 100;

/// A running checkpoint_loop whose output is read here.
class Loop {
 public:
  explicit Loop(const fs::path& directory) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    std::string program = ZENFLOW_CHECKPOINT_LOOP;
    std::string argument = directory.string();
    char* arguments[] = {program.data(), argument.data(), nullptr};
    EXPECT_EQ(::posix_spawn(&child_, program.c_str(), &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    ::close(ends[1]);
    output_ = ends[0];
  }
  ~Loop() { ::close(output_); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  /// Waits for the next save; 0 if the program has ended.
  std::uint64_t next_save() {
    std::uint64_t step = 0;
    // Writes of 8 bytes to a pipe are atomic, so a killed writer leaves no part of a number.
    return ::read(output_, &step, sizeof step) == sizeof step ? step : 0;
  }
  /// Kills it; the last save that it reported, or 0.
  std::uint64_t kill() {
    EXPECT_EQ(::kill(child_, SIGKILL), 0);
    int status = 0;
    EXPECT_EQ(::waitpid(child_, &status, 0), child_);
    EXPECT_TRUE(WIFSIGNALED(status)) << "ended by itself with status " << status;
    std::uint64_t last = 0;
    while (const std::uint64_t step = next_save()) last = step;
    return last;
  }

 private:
  pid_t child_ = 0;
  int output_ = -1;
};

TEST(CheckpointKill, AtRandomMomentsLosesNothing) {
  const TemporaryFolder folder;
  const fs::path directory = folder / "run";
  std::mt19937_64 random(2024);
  std::uint64_t newest = 0;
  int within_a_write = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    Loop loop(directory);
    // The first time, wait for a checkpoint; afterwards the program may not even have started.
    std::uint64_t reported = kill == 0 ? loop.next_save() : newest;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    reported = std::max(reported, loop.kill());

    const LatestCheckpoint latest = latest_valid(directory);
    ASSERT_TRUE(latest.valid) << "after kill " << kill;
    ASSERT_TRUE(latest.rejected.empty()) << latest.rejected.front().reason;
    ASSERT_GE(latest.valid->step, reported);
    ASSERT_EQ(ToyState::read(latest.valid->path), ToyState(latest.valid->step, kWeights));
    newest = latest.valid->step;
    int partial = 0;
    for (const std::string& name : testing::names_in(directory)) {
      if (name.find(".partial-") != std::string::npos) ++partial;
    }
    ASSERT_LE(partial, 1);  // each start removes what the one before left
    within_a_write += partial;
  }
  RecordProperty("checkpoints", static_cast<int>(newest));
  RecordProperty("kills_within_a_write", within_a_write);
}

}  // namespace
}  // namespace zenflow::runtime
