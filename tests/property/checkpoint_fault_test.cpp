// Whatever system call of a save fails, or is the last one before the process is killed: the
// directory holds a valid newest checkpoint, complete, and no save is reported that is not there.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/checkpoint/checkpoint_directory.h"
#include "tests/support/checkpoint_files.h"
#include "tests/support/error_of.h"
#include "tests/support/failing_system.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::end_of_plan;
using testing::error_of;
using testing::Failure;
using testing::has_failed;
using ::testing::HasSubstr;
using testing::names_in;
using testing::plan_failure;
using testing::TemporaryFolder;
using testing::ToyState;

constexpr std::size_t kWeights = 20;

void save(CheckpointDirectory& directory, std::uint64_t step) {
  directory.save(step,
                 [step](CheckpointWriter& writer) { ToyState(step, kWeights).write(writer); });
}

/// The step of the newest valid checkpoint, whose content must be whole.
std::uint64_t newest_step(const fs::path& folder) {
  const LatestCheckpoint latest = latest_valid(folder);
  if (!latest.valid) return 0;
  EXPECT_EQ(ToyState::read(latest.valid->path), ToyState(latest.valid->step, kWeights));
  return latest.valid->step;
}

bool has_partial(const fs::path& folder) {
  return std::ranges::any_of(names_in(folder), [](const std::string& name) {
    return name.find(".partial-") != std::string::npos;
  });
}

/// Step 1 saved, then step 2 saved under a plan. The calls that a save makes if nothing fails.
std::vector<std::string> undisturbed_calls() {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  save(directory, 1);
  plan_failure(0, Failure::kError, 0);
  save(directory, 2);
  return end_of_plan();
}

// A power failure right after the rename must not find the name without the data.
TEST(CheckpointFaults, DataIsOnTheDiskBeforeItHasTheNameAndTheNameBeforeAnythingIsRemoved) {
  std::vector<std::string> order;
  for (const std::string& call : undisturbed_calls()) {
    if (order.empty() || order.back() != call) order.push_back(call);
  }
  EXPECT_THAT(order, ElementsAre("open", "write", "fsync", "close", "rename",  // the file
                                 "open", "fsync", "close",                     // its directory
                                 "open", "close", "unlink"));  // read back, then the old one
}

class CheckpointFault : public ::testing::TestWithParam<int> {};

TEST_P(CheckpointFault, OfAnyCallIsReportedAndThePreviousCheckpointStays) {
  const std::vector<std::string> calls = undisturbed_calls();
  for (int nth = 1; nth <= static_cast<int>(calls.size()); ++nth) {
    SCOPED_TRACE(calls[static_cast<std::size_t>(nth - 1)] + ", call " + std::to_string(nth));
    const TemporaryFolder folder;
    CheckpointDirectory directory(folder.path(), 1, std::nullopt);
    save(directory, 1);
    plan_failure(nth, Failure::kError, GetParam());
    const auto [kind, what] = error_of([&] { save(directory, 2); });
    end_of_plan();
    ASSERT_TRUE(has_failed());
    const auto planned = calls.begin() + nth - 1;
    // The first close is that of the written file; closing what was read cannot lose anything.
    if (*planned == "close" && std::find(calls.begin(), planned, "close") != planned) {
      EXPECT_EQ(what, "");
      EXPECT_EQ(newest_step(folder.path()), 2U);
    } else {
      EXPECT_EQ(kind, ErrorKind::kRuntime);
      EXPECT_THAT(what, HasSubstr(std::strerror(GetParam())));
      const bool is_renamed = std::find(calls.begin(), planned, "rename") != planned;
      EXPECT_EQ(newest_step(folder.path()), is_renamed ? 2U : 1U);
      EXPECT_TRUE(fs::exists(folder / "checkpoint-1"));
    }
    EXPECT_FALSE(has_partial(folder.path()));
    // The run may try again.
    save(directory, 3);
    EXPECT_EQ(newest_step(folder.path()), 3U);
  }
}

INSTANTIATE_TEST_SUITE_P(Errors, CheckpointFault, ::testing::Values(ENOSPC, EIO, EDQUOT));

TEST(CheckpointFaults, AKillAtAnyCallLeavesAValidCheckpoint) {
  const auto calls = static_cast<int>(undisturbed_calls().size());
  bool has_left_partial = false;
  for (int nth = 1; nth <= calls; ++nth) {
    SCOPED_TRACE(nth);
    const TemporaryFolder folder;
    {
      CheckpointDirectory directory(folder.path(), 1, std::nullopt);
      save(directory, 1);
    }
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      CheckpointDirectory directory(folder.path(), 1, 1);
      plan_failure(nth, Failure::kKill, 0);
      save(directory, 2);
      ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

    const std::uint64_t step = newest_step(folder.path());
    EXPECT_EQ(step, fs::exists(folder / "checkpoint-2") ? 2U : 1U);
    has_left_partial = has_left_partial || has_partial(folder.path());
    CheckpointDirectory directory(folder.path(), 1, step);  // not locked by the dead
    EXPECT_FALSE(has_partial(folder.path()));
    save(directory, 3);
    EXPECT_EQ(newest_step(folder.path()), 3U);
    EXPECT_THAT(names_in(folder.path()), ElementsAre(".lock", "checkpoint-3"));
  }
  EXPECT_TRUE(has_left_partial);  // otherwise no kill was within the writing
}

TEST(CheckpointFaults, ShortWritesAndInterruptionsAreGoneOnWith) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 3, std::nullopt);
  plan_failure(1, Failure::kShortWrite, 0);
  save(directory, 1);
  EXPECT_GT(end_of_plan().size(), 100U);  // a byte each
  EXPECT_EQ(newest_step(folder.path()), 1U);
  plan_failure(2, Failure::kError, EINTR);  // the first write
  save(directory, 2);
  EXPECT_EQ(end_of_plan().at(1), "write");
  EXPECT_TRUE(has_failed());
  EXPECT_EQ(newest_step(folder.path()), 2U);
}

TEST(CheckpointFaults, AReadOnlyDirectoryIsAnErrorOfTheUser) {
  const TemporaryFolder folder;
  plan_failure(1, Failure::kError, EROFS);  // the lock is the first file opened
  const auto [kind, what] = error_of([&] { CheckpointDirectory(folder.path(), 1, std::nullopt); });
  end_of_plan();
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_EQ(what, folder.path().generic_string() + ": cannot write: Read-only file system");
}

/// A disk that is full after `bytes`, as far as this process is concerned.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : previous_(::signal(SIGXFSZ, SIG_IGN)) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit_), 0);
    const rlimit small = {bytes, limit_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit_), 0);
    ::signal(SIGXFSZ, previous_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*previous_)(int);
  rlimit limit_{};
};

TEST(CheckpointFaults, ADiskThatIsFullAfterAnyByteLeavesThePreviousCheckpoint) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  save(directory, 1);
  const std::uint64_t size = fs::file_size(folder / "checkpoint-1");
  ASSERT_GT(size, 100U);
  for (std::uint64_t bytes = 0; bytes < size; ++bytes) {
    const auto [kind, what] = [&] {
      const FileSizeLimit limit(bytes);
      return error_of([&] { save(directory, 2); });
    }();
    ASSERT_EQ(kind, ErrorKind::kRuntime) << bytes;
    ASSERT_THAT(what, HasSubstr("checkpoint-2: cannot write: File too large"));
    ASSERT_THAT(names_in(folder.path()), ElementsAre(".lock", "checkpoint-1"));
    ASSERT_EQ(newest_step(folder.path()), 1U);
  }
  const FileSizeLimit limit(size);
  save(directory, 2);
  EXPECT_EQ(newest_step(folder.path()), 2U);
}

}  // namespace
}  // namespace zenflow::runtime
