// Every truncation, extension and flipped bit of a checkpoint is found, and what was written is
// read back, whatever it was.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/checkpoint_files.h"
#include "tests/support/error_of.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using testing::error_of;
using testing::file_content;
using testing::TemporaryFolder;
using testing::ToyState;

std::string small_checkpoint(const TemporaryFolder& folder) {
  CheckpointWriter writer(folder / "written", 3);
  ToyState(3, 9).write(writer);
  writer.commit();
  return file_content(folder / "written");
}

/// The message with which a file of these bytes is refused; empty if it is not.
std::string refusal(const TemporaryFolder& folder, const std::string& bytes) {
  const fs::path path = folder / "checkpoint-3";
  if (!fs::exists(path)) folder.write("checkpoint-3", "");
  // In place: some file systems wait for the disk when a file is truncated and written again.
  std::fstream(path, std::ios::binary | std::ios::in | std::ios::out) << bytes;
  if (fs::file_size(path) != bytes.size()) fs::resize_file(path, bytes.size());
  const auto [kind, what] = error_of([&] { CheckpointReader(path).verify(); });
  if (!what.empty()) {
    EXPECT_EQ(kind, ErrorKind::kInput) << what;
    EXPECT_TRUE(what.starts_with(path.generic_string() + ": ")) << what;
  }
  return what;
}

TEST(CheckpointDamage, OfAnyBitIsFound) {
  const TemporaryFolder folder;
  const std::string whole = small_checkpoint(folder);
  ASSERT_EQ(refusal(folder, whole), "");
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(refusal(folder, damaged), "") << "bit " << bit << " of byte " << bit / 8;
  }
}

TEST(CheckpointDamage, ByTruncationToAnyLengthIsFound) {
  const TemporaryFolder folder;
  const std::string whole = small_checkpoint(folder);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_NE(refusal(folder, whole.substr(0, length)), "") << length << " bytes";
  }
}

// A file system that lost data after a power failure fills up with zeros.
TEST(CheckpointDamage, ByZerosFromAnyPlaceOnIsFound) {
  const TemporaryFolder folder;
  const std::string whole = small_checkpoint(folder);
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const std::string zeros(whole.size() - length, '\0');
    EXPECT_NE(refusal(folder, whole.substr(0, length) + zeros), "") << length << " bytes";
  }
}

TEST(CheckpointDamage, ByExtensionIsFound) {
  const TemporaryFolder folder;
  const std::string whole = small_checkpoint(folder);
  for (const std::string& tail :
       {std::string(1, '\0'), std::string(32, '\0'), whole, whole.substr(whole.size() - 32)}) {
    EXPECT_NE(refusal(folder, whole + tail), "") << tail.size() << " bytes more";
  }
}

class CheckpointRoundTrip : public ::testing::TestWithParam<unsigned> {};

TEST_P(CheckpointRoundTrip, GivesBackRandomSections) {
  const TemporaryFolder folder;
  std::mt19937_64 random(GetParam());
  std::vector<std::vector<std::uint32_t>> payloads(random() % 20);
  constexpr unsigned kNoStep = 11;  // bits: a step is at most 2^53
  CheckpointWriter writer(folder / "x", random() >> kNoStep);
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    payloads[i].resize(random() % 5000);
    for (std::uint32_t& value : payloads[i]) value = static_cast<std::uint32_t>(random());
    const auto bytes = std::as_bytes(std::span(payloads[i]));
    writer.begin("section " + std::to_string(i), SectionType::kU32, {payloads[i].size()});
    const std::size_t cut = bytes.empty() ? 0 : random() % bytes.size();
    writer.append(bytes.first(cut));
    writer.append(bytes.subspan(cut));
    writer.end();
  }
  writer.commit();

  CheckpointReader reader(folder / "x");
  ASSERT_EQ(reader.sections().size(), payloads.size());
  for (std::size_t i = payloads.size(); i-- > 0;) {
    EXPECT_EQ(reader.read<std::uint32_t>("section " + std::to_string(i)), payloads[i]);
  }
  reader.verify();
  reader.reject_unread();
}

INSTANTIATE_TEST_SUITE_P(Seeds, CheckpointRoundTrip, ::testing::Range(0U, 20U));

}  // namespace
}  // namespace zenflow::runtime
