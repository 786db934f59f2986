// Which checkpoints a directory keeps, finds and refuses.
#include "runtime/checkpoint/checkpoint_directory.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/checkpoint_files.h"
#include "tests/support/error_of.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::names_in;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using testing::ToyState;

void save(CheckpointDirectory& directory, std::uint64_t step) {
  directory.save(step, [step](CheckpointWriter& writer) { ToyState(step, 20).write(writer); });
}

void save_each(CheckpointDirectory& directory, std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t step = first; step <= last; ++step) save(directory, step);
}

void flip_a_bit(const fs::path& path, std::size_t position) {
  std::string bytes = testing::file_content(path);
  bytes[position] = static_cast<char>(bytes[position] ^ 1);
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(CheckpointDirectory, IsCreatedAndHoldsWhatWasSaved) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder / "run", 2, std::nullopt);
  EXPECT_FALSE(latest_valid(folder / "run").valid);
  save(directory, 10);
  const LatestCheckpoint latest = latest_valid(folder / "run");
  ASSERT_TRUE(latest.valid);
  EXPECT_EQ(latest.valid->step, 10U);
  EXPECT_EQ(latest.valid->path, folder / "run/checkpoint-10");
  EXPECT_THAT(latest.rejected, IsEmpty());
  EXPECT_EQ(ToyState::read(latest.valid->path), ToyState(10, 20));
  EXPECT_THAT(names_in(folder / "run"), ElementsAre(".lock", "checkpoint-10"));
}

TEST(CheckpointDirectory, KeepsTheNewestByNumber) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 2, std::nullopt);
  save_each(directory, 8, 11);
  EXPECT_THAT(names_in(folder.path()), ElementsAre(".lock", "checkpoint-10", "checkpoint-11"));
  EXPECT_EQ(latest_valid(folder.path()).valid->step, 11U);
}

TEST(CheckpointDirectory, LeavesOtherFilesAlone) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint-", "checkpoint-07", "checkpoint-7.old", "checkpoint-x",
                           "checkpoint-99999999999999999999", "notes", "x.partial-1"}) {
    folder.write(name, "mine");
  }
  CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  save(directory, 1);
  save(directory, 2);
  EXPECT_THAT(names_in(folder.path()), SizeIs(7 + 2));
  EXPECT_THAT(list_checkpoints(folder.path()), SizeIs(1));
}

TEST(CheckpointDirectory, GoesBackToTheNewestThatIsWholeAndSaysWhy) {
  const TemporaryFolder folder;
  {
    CheckpointDirectory directory(folder.path(), 4, std::nullopt);
    save_each(directory, 1, 4);
  }
  flip_a_bit(folder / "checkpoint-4", 60);  // in a payload
  fs::resize_file(folder / "checkpoint-3", 50);
  const LatestCheckpoint latest = latest_valid(folder.path());
  ASSERT_TRUE(latest.valid);
  EXPECT_EQ(latest.valid->step, 2U);
  ASSERT_THAT(latest.rejected, SizeIs(2));
  EXPECT_THAT(latest.rejected[0].reason, HasSubstr("checkpoint-4: damaged checkpoint: section"));
  EXPECT_THAT(latest.rejected[1].reason,
              HasSubstr("checkpoint-3: damaged checkpoint: 50 bytes are fewer"));
}

TEST(CheckpointDirectory, PassesOverDirectories) {
  const TemporaryFolder folder;
  for (const char* name : {"checkpoint-1", "checkpoint-2.rank-1", "checkpoint-9",
                           "checkpoint-7.partial-1", "checkpoint-8.rank-1"}) {
    fs::create_directory(folder / name);
  }
  {
    CheckpointDirectory directory(folder.path(), 1, 1);
    EXPECT_THAT(directory.removed_remains(), IsEmpty());
    save_each(directory, 2, 4);
  }
  const LatestCheckpoint latest = latest_valid(folder.path());
  ASSERT_TRUE(latest.valid);
  EXPECT_EQ(latest.valid->step, 4U);
  ASSERT_THAT(latest.rejected, SizeIs(1));
  EXPECT_THAT(latest.rejected[0].reason, HasSubstr("checkpoint-9: is not a regular file"));
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre(".lock", "checkpoint-1", "checkpoint-2.rank-1", "checkpoint-4",
                          "checkpoint-7.partial-1", "checkpoint-8.rank-1", "checkpoint-9"));
}

TEST(CheckpointDirectory, RejectsARenamedCheckpoint) {
  const TemporaryFolder folder;
  {
    CheckpointDirectory directory(folder.path(), 2, std::nullopt);
    save(directory, 1);
  }
  fs::rename(folder / "checkpoint-1", folder / "checkpoint-5");
  const LatestCheckpoint latest = latest_valid(folder.path());
  EXPECT_FALSE(latest.valid);
  ASSERT_THAT(latest.rejected, SizeIs(1));
  EXPECT_THAT(latest.rejected[0].reason, HasSubstr("holds step 1, which is not what its name"));
}

// The damaged ones do not count: the only valid one stays however old it is.
TEST(CheckpointDirectory, NeverRemovesTheOnlyValidOne) {
  const TemporaryFolder folder;
  {
    CheckpointDirectory directory(folder.path(), 3, std::nullopt);
    save_each(directory, 1, 3);
  }
  for (const char* name : {"checkpoint-2", "checkpoint-3"}) flip_a_bit(folder / name, 60);
  CheckpointDirectory directory(folder.path(), 2, 1);
  save(directory, 2);  // over a damaged one
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre(".lock", "checkpoint-1", "checkpoint-2", "checkpoint-3"));
  save(directory, 3);
  EXPECT_THAT(names_in(folder.path()), ElementsAre(".lock", "checkpoint-2", "checkpoint-3"));
}

TEST(CheckpointDirectory, SaysWhatItRemoved) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  save(directory, 1);
  const auto saved =
      directory.save(2, [](CheckpointWriter& writer) { writer.add_value("a", 1.0F); });
  EXPECT_EQ(saved.path, folder / "checkpoint-2");
  EXPECT_THAT(saved.removed, ElementsAre(folder / "checkpoint-1"));
}

TEST(CheckpointDirectory, RemovesWhatKilledWritersLeft) {
  const TemporaryFolder folder;
  folder.write("checkpoint-12.partial-4711", "half");
  const CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  EXPECT_THAT(directory.removed_remains(), ElementsAre(folder / "checkpoint-12.partial-4711"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre(".lock"));
}

void save_second(const fs::path& path, std::uint64_t step, std::uint64_t writing) {
  save_shard(path, step, 1, [&](CheckpointWriter& writer) {
    ToyState(step, 9).write(writer);
    writer.add_value(kWriting, writing);
  });
}

/// Of two ranks.
void save_both(CheckpointDirectory& directory, const fs::path& path, std::uint64_t step) {
  save_second(path, step, 7);
  directory.save(step, [step](CheckpointWriter& writer) {
    ToyState(step, 20).write(writer);
    writer.add_value(kRanks, std::int32_t{2});
    writer.add_value(kWriting, std::uint64_t{7});
  });
}

TEST(CheckpointDirectory, OfSeveralRanksIsAsValidAsEachShard) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  CheckpointDirectory directory(run, 3, std::nullopt);
  for (std::uint64_t step = 1; step <= 3; ++step) save_both(directory, run, step);
  EXPECT_EQ(latest_valid(run).valid->step, 3U);
  EXPECT_THAT(shard_paths({run / "checkpoint-3", 3}),
              ElementsAre(run / "checkpoint-3", run / "checkpoint-3.rank-1"));
  fs::remove(run / "checkpoint-3.rank-1");
  flip_a_bit(run / "checkpoint-2.rank-1", 40);
  const LatestCheckpoint latest = latest_valid(run);
  EXPECT_EQ(latest.valid->step, 1U);
  ASSERT_THAT(latest.rejected, SizeIs(2));
  EXPECT_THAT(latest.rejected[0].reason, HasSubstr("checkpoint-3.rank-1: "));
  EXPECT_THAT(latest.rejected[1].reason, HasSubstr("checkpoint-2.rank-1: "));
}

// A step that is written again, because one of its shards was damaged, and not to the end.
TEST(CheckpointDirectory, RejectsShardsOfTwoWritings) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  CheckpointDirectory directory(run, 2, std::nullopt);
  for (std::uint64_t step = 1; step <= 2; ++step) save_both(directory, run, step);
  save_second(run, 2, 8);
  const LatestCheckpoint latest = latest_valid(run);
  EXPECT_EQ(latest.valid->step, 1U);
  ASSERT_THAT(latest.rejected, SizeIs(1));
  EXPECT_THAT(latest.rejected[0].reason,
              HasSubstr("checkpoint-2.rank-1: was not written with checkpoint-2"));
}

TEST(CheckpointDirectory, RemovesShardsWithAndWithoutRankZeros) {
  const TemporaryFolder folder;
  const fs::path run = folder / "run";
  {
    CheckpointDirectory directory(run, 1, std::nullopt);
    for (std::uint64_t step = 1; step <= 2; ++step) save_both(directory, run, step);
    EXPECT_THAT(names_in(run), ElementsAre(".lock", "checkpoint-2", "checkpoint-2.rank-1"));
  }
  // What is left if the job is killed before rank 0 has saved, or while rank 2 writes.
  fs::copy(run / "checkpoint-2.rank-1", run / "checkpoint-4.rank-1");
  fs::copy(run / "checkpoint-2.rank-1", run / "checkpoint-4.rank-2.partial-77");
  fs::copy(run / "checkpoint-2.rank-1", run / "checkpoint-4.rank-01");  // nobody's
  const CheckpointDirectory directory(run, 1, 2);
  EXPECT_THAT(directory.removed_remains(), SizeIs(2));
  EXPECT_THAT(names_in(run),
              ElementsAre(".lock", "checkpoint-2", "checkpoint-2.rank-1", "checkpoint-4.rank-01"));
}

TEST(CheckpointDirectory, DoesNotMixRuns) {
  const TemporaryFolder folder;
  {
    CheckpointDirectory directory(folder.path(), 3, std::nullopt);
    save_each(directory, 1, 2);
  }
  const auto [kind, what] = error_of([&] { CheckpointDirectory(folder.path(), 3, std::nullopt); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("checkpoint-2: is a checkpoint of another run: go on from it with"));
  EXPECT_THAT(error_of([&] { CheckpointDirectory(folder.path(), 3, 1); }).second,
              HasSubstr("checkpoint-2: is newer than step 1"));
  EXPECT_EQ(error_of([&] { CheckpointDirectory(folder.path(), 3, 2); }).second, "");
}

TEST(CheckpointDirectory, IsLockedForOtherProcesses) {
  const TemporaryFolder folder;
  const CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto [kind, what] =
        error_of([&] { CheckpointDirectory(folder.path(), 1, std::nullopt); });
    ::_exit(kind == ErrorKind::kInput &&
                    what.ends_with("another process writes its checkpoints there")
                ? 0
                : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(CheckpointDirectory, WantsStepsInOrder) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  save(directory, 5);
  EXPECT_THAT(error_of([&] { save(directory, 4); }).second, HasSubstr("comes after step 5"));
  save(directory, 5);
}

TEST(CheckpointDirectory, KeepsNothingOfASaveThatThrows) {
  const TemporaryFolder folder;
  CheckpointDirectory directory(folder.path(), 1, std::nullopt);
  save(directory, 1);
  EXPECT_THROW(directory.save(2,
                              [](CheckpointWriter& writer) {
                                writer.add_value("a", 1.0F);
                                throw std::runtime_error("the device is gone");
                              }),
               std::runtime_error);
  EXPECT_THAT(names_in(folder.path()), ElementsAre(".lock", "checkpoint-1"));
}

TEST(CheckpointDirectory, ThatIsNoneIsAnErrorOfTheUser) {
  const TemporaryFolder folder;
  const fs::path file = folder.write("file", "");
  const auto message = [](const auto& action) {
    const auto [kind, what] = error_of(action);
    EXPECT_EQ(kind, ErrorKind::kInput) << what;
    return what;
  };
  EXPECT_THAT(message([&] { CheckpointDirectory(folder / "no/such", 1, std::nullopt); }),
              HasSubstr("no/such: cannot create the directory: No such file"));
  EXPECT_THAT(message([&] { CheckpointDirectory(file, 1, std::nullopt); }),
              EndsWith("file: is not a directory"));
  EXPECT_THAT(message([&] { CheckpointDirectory(file / "x", 1, std::nullopt); }),
              HasSubstr("file/x: cannot create the directory: Not a directory"));
  EXPECT_THAT(message([&] { CheckpointDirectory(folder / "x", 0, std::nullopt); }),
              HasSubstr("at least one checkpoint"));
  EXPECT_THAT(message([&] { static_cast<void>(latest_valid(folder / "none")); }),
              EndsWith("none: no such directory"));
  EXPECT_THAT(message([&] { static_cast<void>(latest_valid(file)); }),
              HasSubstr("file: cannot read: Not a directory"));
}

}  // namespace
}  // namespace zenflow::runtime
