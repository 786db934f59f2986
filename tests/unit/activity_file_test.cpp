// That recordings are read back as they were written, also those of processes that were killed.
#include "runtime/trace/cupti/activity_file.h"

#include <cstring>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/error_of.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using testing::error_of;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TemporaryFolder;

ActivityLog sample() {
  ActivityLog log;
  log.process = 4711;
  log.program = "python \xff train.py";  // a command line is bytes
  log.cupti_version = 130001;
  log.low_overhead = true;
  log.session_start = 123'456'789'012'345;
  log.session_end = 123'456'789'099'999;
  log.notes = {"cannot record overhead"};
  log.strings = {"", "gemm", "copy"};
  log.losses = {.dropped_by_cupti = 1,
                .refused_buffers = 2,
                .emergency_buffers = 3,
                .unknown_kinds = 4,
                .cut_records = 5};
  for (std::uint32_t i = 0; i < 3; ++i) {
    Activity& activity = log.activities.emplace_back();
    activity.correlation = i;
    activity.start = 1000 + i;
    activity.name = i;
    activity.kind = ActivityKind::kCopy;
  }
  return log;
}

void write(const std::filesystem::path& path, const ActivityLog& log, bool finished = true) {
  ActivityFileWriter file(path);
  file.begin(log);
  const std::span<const Activity> all(log.activities);
  file.append(all.first(1), {"", "gemm"}, 77);
  file.append(all.subspan(1), log.strings, 88);
  if (finished) file.finish(log);
}

TEST(ActivityFile, ReadsWhatWasWritten) {
  const TemporaryFolder folder;
  const ActivityLog log = sample();
  write(folder / "a", log);
  const ActivityLog read = read_activity_file(folder / "a");
  EXPECT_EQ(read.process, log.process);
  EXPECT_THAT(read.program, HasSubstr("train.py"));
  EXPECT_EQ(read.cupti_version, log.cupti_version);
  EXPECT_TRUE(read.low_overhead);
  EXPECT_EQ(read.session_start, log.session_start);
  EXPECT_EQ(read.session_end, log.session_end);
  EXPECT_TRUE(read.complete);
  EXPECT_EQ(read.notes, log.notes);
  EXPECT_EQ(read.strings, log.strings);
  EXPECT_EQ(read.losses, log.losses);
  ASSERT_THAT(read.activities, SizeIs(3));
  EXPECT_EQ(std::memcmp(read.activities.data(), log.activities.data(), 3 * sizeof(Activity)), 0);
}

TEST(ActivityFile, OfAKilledProcessWhatIsThereIsRead) {
  const TemporaryFolder folder;
  write(folder / "a", sample(), false);
  const ActivityLog read = read_activity_file(folder / "a");
  EXPECT_FALSE(read.complete);
  EXPECT_EQ(read.session_end, 88U) << "when the last buffer was written";
  EXPECT_THAT(read.activities, SizeIs(3));
}

TEST(ActivityFile, CutAnywhereItIsAFileWithLessOrAnError) {
  const TemporaryFolder folder;
  write(folder / "a", sample());
  const std::string whole = testing::file_content(folder / "a");
  std::size_t most = 0;
  for (std::size_t length = 0; length < whole.size(); ++length) {
    folder.write("cut", whole.substr(0, length));
    ActivityLog read;
    const auto [kind, message] = error_of([&] { read = read_activity_file(folder / "cut"); });
    if (!message.empty()) {
      EXPECT_EQ(kind, ErrorKind::kInput);
      EXPECT_EQ(most, 0U) << "an error after less of the file was readable";
      continue;
    }
    EXPECT_FALSE(read.complete);
    EXPECT_GE(read.activities.size(), most);
    most = read.activities.size();
  }
  EXPECT_EQ(most, 3U);
}

TEST(ActivityFile, ContradictionsAreErrors) {
  const TemporaryFolder folder;
  folder.write("no", "something else");
  EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "no"); }).second,
              HasSubstr("expected a recording"));
  ActivityLog log = sample();
  log.activities[2].name = 3;  // no such string
  write(folder / "name", log);
  EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "name"); }).second,
              HasSubstr("name is missing"));
  log = sample();
  log.activities[2].kind = static_cast<ActivityKind>(99);
  write(folder / "kind", log);
  EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "kind"); }).second,
              HasSubstr("no known kind"));
  log = sample();
  log.activities[2].device = 1U << 30U;  // a timeline would have a billion names
  write(folder / "device", log);
  EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "device"); }).second,
              HasSubstr("expected a device below 4096, found an activity of 1073741824"));
  log = sample();
  log.activities[2].bytes = std::uint64_t{1} << 63U;
  write(folder / "bytes", log);
  EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "bytes"); }).second,
              HasSubstr("an activity of 9223372036854775808 bytes"));
  log = sample();
  log.session_end = std::uint64_t{1} << 63U;  // more picoseconds than can be counted
  write(folder / "long", log);
  EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "long"); }).second,
              HasSubstr("expected a session of at most 50 days"));
}

// The JSON library takes -711 for a number without sign, whatever comes of it.
TEST(ActivityFile, NumbersHaveToFit) {
  const TemporaryFolder folder;
  write(folder / "a", sample());
  std::string text = testing::file_content(folder / "a");
  const std::size_t at = text.find("4711");
  ASSERT_NE(at, std::string::npos);
  for (const char* number : {"-711", "47.1", "47e9"}) {
    text.replace(at, 4, number);
    folder.write("b", text);
    EXPECT_THAT(error_of([&] { (void)read_activity_file(folder / "b"); }).second,
                HasSubstr("process: expected a whole number from 0 to 4294967295"))
        << number;
  }
}

TEST(ActivityFile, DoesNotReplaceAFile) {
  const TemporaryFolder folder;
  folder.write("there", "precious");
  EXPECT_THAT(error_of([&] { ActivityFileWriter file(folder / "there"); }).second,
              HasSubstr("cannot create: File exists"));
  EXPECT_EQ(testing::file_content(folder / "there"), "precious");
}

}  // namespace
}  // namespace zenflow::runtime
