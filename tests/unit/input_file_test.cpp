// Files read at given places, and the checksum of what they hold.
#include "sim/base/input_file.h"

#include <array>
#include <cstddef>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "sim/base/crc32.h"
#include "sim/base/error.h"
#include "tests/support/temporary_folder.h"

namespace zenflow {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

std::uint32_t crc_of(const std::string& text) {
  return crc32(0, std::as_bytes(std::span(text)));
}

template <class Action>
std::string input_error(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "";
}

// The check value of the algorithm in the catalogue of parametrised CRCs.
TEST(Crc32, HasTheCheckValueAndContinues) {
  EXPECT_EQ(crc_of("123456789"), 0xCBF43926U);
  EXPECT_EQ(crc_of(""), 0U);
  const std::string rest = "6789";
  EXPECT_EQ(crc32(crc_of("12345"), std::as_bytes(std::span(rest))), 0xCBF43926U);
  EXPECT_EQ(crc32(crc_of("12345"), {}), crc_of("12345"));
}

TEST(InputFile, ReadsAtAnyPlace) {
  const TemporaryFolder folder;
  InputFile opened(folder.write("x", "0123456789"));
  const InputFile file = std::move(opened);
  EXPECT_EQ(file.size(), 10U);
  std::array<std::byte, 3> bytes{};
  file.read_at(7, bytes);
  EXPECT_EQ(bytes[0], std::byte{'7'});
  EXPECT_EQ(bytes[2], std::byte{'9'});
  EXPECT_EQ(read_file(folder / "x"), "0123456789");
}

TEST(InputFile, SaysWhereItEndsTooEarly) {
  const TemporaryFolder folder;
  const InputFile file(folder.write("x", "0123456789"));
  std::array<std::byte, 4> bytes{};
  EXPECT_THAT(input_error([&] { file.read_at(7, bytes); }),
              EndsWith("x: ends at byte 10, 1 more were expected"));
  std::filesystem::resize_file(folder / "x", 2);
  EXPECT_THAT(input_error([&] { file.read_at(0, bytes); }),
              EndsWith("x: ends at byte 2, 2 more were expected"));
}

TEST(InputFile, IsScannedInPieces) {
  const TemporaryFolder folder;
  std::string text(2'500'000, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i >> 3U);
  const InputFile file(folder.write("x", text));
  std::string seen;
  std::uint64_t expected_offset = 5;
  file.scan(5, text.size() - 1, [&](std::uint64_t offset, std::span<const std::byte> piece) {
    EXPECT_EQ(offset, expected_offset);
    EXPECT_LE(piece.size(), 1U << 20U);
    expected_offset += piece.size();
    seen.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  });
  EXPECT_TRUE(seen == text.substr(5, text.size() - 6));
  file.scan(7, 7, [](std::uint64_t, std::span<const std::byte>) { FAIL() << "nothing to see"; });
}

TEST(InputFile, IsARegularFile) {
  const TemporaryFolder folder;
  EXPECT_THAT(input_error([&] { InputFile(folder / "none"); }),
              EndsWith("none: cannot read: No such file or directory"));
  EXPECT_THAT(input_error([&] { InputFile(folder.path()); }), HasSubstr("is not a regular file"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(input_error([&] { InputFile(folder / "pipe"); }),
              EndsWith("pipe: is not a regular file"));
}

}  // namespace
}  // namespace zenflow
