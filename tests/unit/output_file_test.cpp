// That files appear whole or not at all.
#include "sim/base/output_file.h"

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"

namespace zenflow {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::string content(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::string unzipped(const fs::path& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  std::string text(1 << 20, '\0');
  const int read = gzread(file, text.data(), static_cast<unsigned>(text.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  text.resize(static_cast<std::size_t>(std::max(read, 0)));
  return text;
}

std::size_t files_in(const fs::path& folder) {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

std::pair<ErrorKind, std::string> error_of(const fs::path& path, bool overwrite = false) {
  try {
    write_output(path, "text", overwrite);
  } catch (const Error& error) {
    return {error.kind(), error.what()};
  }
  ADD_FAILURE() << path << " was written";
  return {ErrorKind::kTolerance, ""};
}

TEST(OutputFile, HoldsTheContentAndNothingElseIsLeft) {
  const TemporaryFolder folder;
  write_output(folder / "x.json", "{}\n", false);
  EXPECT_EQ(content(folder / "x.json"), "{}\n");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, IsNotOverwrittenUnlessAsked) {
  const TemporaryFolder folder;
  write_output(folder / "x", "first", false);
  const auto [kind, what] = error_of(folder / "x");
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("exists already; give -f"));
  EXPECT_EQ(content(folder / "x"), "first");
  write_output(folder / "x", "second", true);
  EXPECT_EQ(content(folder / "x"), "second");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, IsGzippedByItsNameAndAlwaysTheSame) {
  const TemporaryFolder folder;
  const std::string text(100'000, 'z');
  write_output(folder / "a.json.gz", text, false);
  write_output(folder / "b.json.gz", text, false);
  EXPECT_EQ(unzipped(folder / "a.json.gz"), text);
  EXPECT_LT(fs::file_size(folder / "a.json.gz"), 1000U);
  EXPECT_EQ(content(folder / "a.json.gz"), content(folder / "b.json.gz"));
}

TEST(OutputFile, OfNothingIsEmpty) {
  const TemporaryFolder folder;
  write_output(folder / "x", "", false);
  EXPECT_EQ(fs::file_size(folder / "x"), 0U);
  write_output(folder / "x.gz", "", false);
  EXPECT_EQ(unzipped(folder / "x.gz"), "");
}

TEST(OutputFile, NeedsAFolderAndIsNone) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder / "none/x").second, HasSubstr("no such directory"));
  EXPECT_EQ(error_of(folder / "none/x").first, ErrorKind::kInput);
  EXPECT_THAT(error_of(folder.path(), true).second, HasSubstr("is a directory"));
  EXPECT_EQ(files_in(folder.path()), 0U);
}

TEST(OutputFile, IsCheckedBeforeTheWork) {
  const TemporaryFolder folder;
  EXPECT_NO_THROW(check_output(folder / "x", false));
  EXPECT_EQ(files_in(folder.path()), 0U);
  EXPECT_THROW(check_output(folder / "none/x", false), Error);
  folder.write("x", "");
  EXPECT_THROW(check_output(folder / "x", false), Error);
  EXPECT_NO_THROW(check_output(folder / "x", true));
  // Such a name can be had, but not with what it is called until it is whole.
  EXPECT_THAT(error_of(folder / std::string(250, 'a')).second, HasSubstr("name too long"));
  EXPECT_EQ(error_of(folder / std::string(250, 'a')).first, ErrorKind::kInput);
}

TEST(OutputFile, InPiecesAppearsWhenCommitted) {
  const TemporaryFolder folder;
  OutputFile file(folder / "x", false);
  file.write("ab");
  file.write("");
  EXPECT_FALSE(fs::exists(folder / "x"));
  file.write("c");
  file.commit(OutputFile::Durable::kYes);
  EXPECT_EQ(content(folder / "x"), "abc");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, NotCommittedLeavesWhatWasThere) {
  const TemporaryFolder folder;
  folder.write("x", "before");
  { OutputFile(folder / "x", true).write("after"); }
  EXPECT_EQ(content(folder / "x"), "before");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFile, DoesNotReplaceWhatAppearedMeanwhile) {
  const TemporaryFolder folder;
  OutputFile file(folder / "x", false);
  file.write("mine");
  folder.write("x", "theirs");
  try {
    file.commit(OutputFile::Durable::kNo);
    ADD_FAILURE() << "it was replaced";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("exists already; give -f"));
  }
  EXPECT_EQ(content(folder / "x"), "theirs");
}

TEST(OutputFiles, AppearTogetherAndLeaveNothingElse) {
  const TemporaryFolder folder;
  folder.write("x", "before");
  OutputFiles files(true);
  files.write(folder / "x", "1");
  files.write(folder / "y", "2");
  EXPECT_EQ(content(folder / "x"), "before");
  EXPECT_FALSE(fs::exists(folder / "y"));
  files.commit();
  EXPECT_EQ(content(folder / "x"), "1");
  EXPECT_EQ(content(folder / "y"), "2");
  EXPECT_EQ(files_in(folder.path()), 2U);
}

TEST(OutputFiles, NoneAppearsIfTheNameOfASecondIsTakenMeanwhile) {
  const TemporaryFolder folder;
  {
    OutputFiles files(false);
    for (const char* name : {"x", "y", "z"}) files.write(folder / name, "mine");
    folder.write("y", "theirs");
    EXPECT_THROW(files.commit(), Error);
  }
  EXPECT_EQ(content(folder / "y"), "theirs");
  EXPECT_EQ(files_in(folder.path()), 1U);
}

TEST(OutputFiles, AllKeepWhatTheyHeldIfASecondCannotBeReplaced) {
  const TemporaryFolder folder;
  for (const char* name : {"x", "y"}) folder.write(name, "before");
  {
    OutputFiles files(true);
    for (const char* name : {"new", "x", "in_the_way", "y"}) files.write(folder / name, "after");
    fs::create_directory(folder / "in_the_way");
    EXPECT_THROW(files.commit(), Error);
  }
  EXPECT_EQ(content(folder / "x"), "before");
  EXPECT_EQ(content(folder / "y"), "before");
  EXPECT_TRUE(fs::is_empty(folder / "in_the_way"));
  EXPECT_EQ(files_in(folder.path()), 3U);
}

TEST(OutputFile, ReportsAFullDisk) {
  const TemporaryFolder folder;
  const rlimit unlimited = [] {
    rlimit limit{};
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    return limit;
  }();
  auto* const previous = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small = {2, unlimited.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto [kind, what] = error_of(folder / "x");
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &unlimited), 0);
  ::signal(SIGXFSZ, previous);
  EXPECT_EQ(kind, ErrorKind::kRuntime);
  EXPECT_THAT(what, HasSubstr("x: cannot write: File too large"));
  EXPECT_EQ(files_in(folder.path()), 0U);
}

}  // namespace
}  // namespace zenflow
