// TensorBoard's event files, read back.
#include "runtime/train/event_file.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "tests/support/error_of.h"
#include "tests/support/event_reader.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using zenflow::testing::EventsRead;
using zenflow::testing::read_events;

TEST(EventFile, HasTheChecksumOfItsFormat) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
}

TEST(EventFile, IsReadAsItWasWritten) {
  const zenflow::testing::TemporaryFolder folder;
  EventFile file(folder / "runs" / "a", 0);
  const std::vector<Scalar> first = {{"train/loss", 1.5}, {"train/grad_norm", -2e-3}};
  file.add(1, first);
  file.add(300, std::vector<Scalar>{{std::string(200, 't'), 4}});
  file.flush();
  EXPECT_THAT(file.path().filename().string(), ::testing::StartsWith("events.out.tfevents."));
  const EventsRead read = read_events(zenflow::testing::file_content(file.path()));
  EXPECT_EQ(read.version, "brain.Event:2");
  EXPECT_THAT(read.starts, ElementsAre());
  ASSERT_EQ(read.scalars.size(), 3U);
  EXPECT_EQ(read.scalars[0].tag, "train/loss");
  EXPECT_EQ(read.scalars[0].step, 1U);
  EXPECT_EQ(read.scalars[0].value, 1.5F);
  EXPECT_EQ(read.scalars[1].value, -2e-3F);
  EXPECT_EQ(read.scalars[2].tag, std::string(200, 't'));
  EXPECT_EQ(read.scalars[2].step, 300U);
}

/// What a killed run had written of later steps is not shown beside what they are now.
TEST(EventFile, OfAResumedRunSaysWhereItGoesOn) {
  const zenflow::testing::TemporaryFolder folder;
  const EventFile file(folder.path(), 12);
  EXPECT_THAT(read_events(zenflow::testing::file_content(file.path())).starts, ElementsAre(13));
}

/// TensorBoard reads a folder's files in the order of their names.
TEST(EventFile, OfALaterRunHasALaterName) {
  const zenflow::testing::TemporaryFolder folder;
  std::string before;
  for (int i = 0; i < 3; ++i) {
    const std::string name = EventFile(folder.path(), 0).path().filename().string();
    EXPECT_LT(before, name);
    before = name;
  }
}

TEST(EventFile, SaysWhyItCannotBeMade) {
  const zenflow::testing::TemporaryFolder folder;
  folder.write("taken", "");
  const auto [kind, text] = zenflow::testing::error_of([&] { EventFile(folder / "taken", 0); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(text, HasSubstr("taken: cannot write: "));
}

}  // namespace
}  // namespace zenflow::runtime
