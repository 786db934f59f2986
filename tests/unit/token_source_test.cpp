// Text files as bytes, token files by their format, and both cut into sequences.
#include "runtime/data/token_source.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/data/packed_sequences.h"
#include "runtime/data/token_file.h"
#include "sim/base/crc32.h"
#include "tests/support/error_of.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using testing::file_content;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

template <class Action>
std::string input_error(const Action& action) {
  const auto [kind, what] = testing::error_of(action);
  EXPECT_EQ(kind, ErrorKind::kInput) << what;
  return what;
}

std::vector<std::int32_t> all_tokens(const TokenSource& source) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(source.size()));
  source.read(0, tokens);
  return tokens;
}

TEST(TokenSource, OfTextIsItsBytes) {
  const TemporaryFolder folder;
  const TokenSource source(folder.write("x.txt", std::string("a\n\0\xC3\xBF", 5)), 256);
  EXPECT_EQ(source.size(), 5U);
  EXPECT_THAT(all_tokens(source), ElementsAre('a', '\n', 0, 0xC3, 0xBF));
  std::vector<std::int32_t> part(2);
  source.read(3, part);
  EXPECT_THAT(part, ElementsAre(0xC3, 0xBF));
  EXPECT_EQ(
      source.fingerprint(),
      (Fingerprint{5, crc32(0, std::as_bytes(std::span(std::string_view("a\n\0\xC3\xBF", 5))))}));
}

TEST(TokenSource, OfTextNeedsAVocabularyOfBytes) {
  const TemporaryFolder folder;
  EXPECT_THAT(input_error([&] { TokenSource(folder.write("x.txt", "a"), 255); }),
              HasSubstr("x.txt: each byte of a text file is a token, which needs a vocabulary of "
                        "256; the model has 255"));
}

//                                     version, width,  count,           crc of tokens, of header
TEST(TokenFile, HasTheBytesOfTheDocumentation) {
  const TemporaryFolder folder;
  write_token_file(folder / "x.bin", std::vector<std::int32_t>{1, 0x1234, 0xFFFF}, 2, false);
  const std::string tokens("\x01\x00\x34\x12\xFF\xFF", 6);
  const std::string head = std::string("ZFTOKEN\n\x01\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0", 24);
  const auto little_endian = [](std::uint32_t crc) {
    return std::string(reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  const auto crc_of = [](const std::string& text) {
    return crc32(0, std::as_bytes(std::span(text)));
  };
  const std::string covered = head + little_endian(crc_of(tokens));
  EXPECT_EQ(file_content(folder / "x.bin"), covered + little_endian(crc_of(covered)) + tokens);
}

TEST(TokenFile, IsReadBackInBothWidths) {
  const TemporaryFolder folder;
  const std::vector<std::int32_t> narrow = {0, 1, 0xFFFF};
  const std::vector<std::int32_t> wide = {0, 0x7FFFFFFF, 0x10000};
  write_token_file(folder / "n.bin", narrow, 2, false);
  write_token_file(folder / "w.bin", wide, 4, false);
  EXPECT_EQ(all_tokens(TokenSource(folder / "n.bin", 0x10000)), narrow);
  EXPECT_EQ(all_tokens(TokenSource(folder / "w.bin", std::int64_t{1} << 31)), wide);
  EXPECT_EQ(fs::file_size(folder / "n.bin"), 32U + 6U);
  EXPECT_EQ(fs::file_size(folder / "w.bin"), 32U + 12U);
}

TEST(TokenFile, IsNotWrittenWithIdsThatDoNotFit) {
  const TemporaryFolder folder;
  const auto write = [&](std::vector<std::int32_t> tokens, std::uint32_t width) {
    return input_error([&] { write_token_file(folder / "x.bin", tokens, width, false); });
  };
  EXPECT_THAT(write({1, 0x10000}, 2),
              EndsWith("x.bin: token 1 is 65536, which does not fit 2 bytes"));
  EXPECT_THAT(write({-1}, 4), EndsWith("token 0 is -1, which does not fit 4 bytes"));
  EXPECT_THAT(write({1}, 3), EndsWith("3 bytes per token, expected 2 or 4"));
  EXPECT_FALSE(fs::exists(folder / "x.bin"));
}

TEST(TokenFile, WithIdsBeyondTheVocabularyIsRefusedByPosition) {
  const TemporaryFolder folder;
  std::vector<std::int32_t> tokens(700'000, 3);  // more than one piece of the check
  tokens[600'001] = 500;
  write_token_file(folder / "x.bin", tokens, 2, false);
  EXPECT_EQ(TokenSource(folder / "x.bin", 501).size(), 700'000U);
  EXPECT_THAT(input_error([&] { TokenSource(folder / "x.bin", 500); }),
              EndsWith("x.bin: token 600001 is 500, the vocabulary has 500 ids"));
}

// Ids are int32 in the model, however large its vocabulary claims to be.
TEST(TokenFile, WithIdsFrom2To31OnIsRefused) {
  const TemporaryFolder folder;
  write_token_file(folder / "x.bin", std::vector<std::int32_t>{5, 6}, 4, false);
  std::string bytes = file_content(folder / "x.bin");
  bytes.back() = '\x80';
  const auto seal = [&bytes](std::size_t at, std::uint32_t crc) {
    bytes.replace(at, sizeof crc, reinterpret_cast<const char*>(&crc), sizeof crc);
  };
  const auto part = [&bytes](std::size_t first, std::size_t count) {
    return std::as_bytes(std::span(bytes)).subspan(first, count);
  };
  seal(24, crc32(0, part(32, 8)));
  seal(28, crc32(0, part(0, 28)));
  const fs::path path = folder.write("y.bin", bytes);
  EXPECT_THAT(input_error([&] { TokenSource(path, std::int64_t{1} << 40); }),
              HasSubstr("y.bin: token 1 is 2147483654, the vocabulary has"));
}

TEST(TokenFile, ThatIsTextOrOfAnotherVersionIsRefused) {
  const TemporaryFolder folder;
  EXPECT_THAT(input_error([&] { TokenSource(folder.write("x.bin", "text"), 256); }),
              HasSubstr("4 bytes are too few for a token file, whose header has 32 (text files "
                        "must not be named .bin)"));
  EXPECT_THAT(input_error([&] { TokenSource(folder.write("x.bin", std::string(99, 't')), 256); }),
              HasSubstr("x.bin: is not a token file"));
  std::string header("ZFTOKEN\n\x02\0\0\0\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 28);
  const std::uint32_t crc = crc32(0, std::as_bytes(std::span(header)));
  header.append(reinterpret_cast<const char*>(&crc), sizeof crc);
  EXPECT_THAT(input_error([&] { TokenSource(folder.write("x.bin", header), 256); }),
              HasSubstr("token file of version 2; this program reads version 1 only"));
  EXPECT_THAT(input_error([&] { TokenSource(folder / "none.bin", 256); }),
              HasSubstr("none.bin: cannot read: No such file"));
}

// Every bit is in the magic, under a checksum, or one.
TEST(TokenFile, DamagedAnywhereIsRefused) {
  const TemporaryFolder folder;
  write_token_file(folder / "x.bin", std::vector<std::int32_t>{1, 2, 3}, 2, false);
  const std::string whole = file_content(folder / "x.bin");
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const fs::path path = folder.write("damaged.bin", damaged);
    EXPECT_NE(input_error([&] { TokenSource(path, 0x10000); }), "") << "bit " << bit;
  }
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const fs::path path = folder.write("cut.bin", whole.substr(0, length));
    EXPECT_NE(input_error([&] { TokenSource(path, 0x10000); }), "") << length << " bytes";
  }
  const fs::path longer = folder.write("longer.bin", whole + std::string(2, '\0'));
  EXPECT_THAT(input_error([&] { TokenSource(longer, 0x10000); }),
              HasSubstr("8 bytes after the header, which promises 3 tokens of 2 bytes"));
}

TEST(TokenSource, NoticesThatItsFileBecameShorter) {
  const TemporaryFolder folder;
  const TokenSource source(folder.write("x.txt", "0123456789"), 256);
  fs::resize_file(folder / "x.txt", 4);
  std::vector<std::int32_t> tokens(5);
  EXPECT_THAT(input_error([&] { source.read(2, tokens); }), HasSubstr("x.txt: ends at byte 4"));
}

//   tokens    a b c d e f g h i j k
//   L = 3     a b c|d e f|g h i|j        j is the last target, k is left over
TEST(PackedSequences, AreShiftedByOneAndUseEveryTargetOnce) {
  const TemporaryFolder folder;
  const PackedSequences data(TokenSource(folder.write("x", "abcdefghijk"), 256), 3, 0.0);
  EXPECT_EQ(data.training_count(), 3U);
  EXPECT_EQ(data.validation_count(), 0U);
  const TokenBatch batch = data.training_batch(std::vector<std::uint64_t>{2, 0});
  EXPECT_EQ(batch.sequences, 2);
  EXPECT_EQ(batch.length, 3);
  EXPECT_THAT(batch.inputs, ElementsAre('g', 'h', 'i', 'a', 'b', 'c'));
  EXPECT_THAT(batch.targets, ElementsAre('h', 'i', 'j', 'b', 'c', 'd'));
}

TEST(PackedSequences, AreSplitAtTheEnd) {
  const TemporaryFolder folder;
  const fs::path path = folder.write("x", std::string(10 * 4 + 1, 'x'));  // 10 sequences of 4
  const auto split = [&](double fraction) {
    const PackedSequences data(TokenSource(path, 256), 4, fraction);
    EXPECT_EQ(data.training_count() + data.validation_count(), 10U);
    return data.validation_count();
  };
  EXPECT_EQ(split(0.0), 0U);
  EXPECT_EQ(split(0.25), 2U);
  EXPECT_EQ(split(0.001), 1U);
  EXPECT_EQ(split(0.9999999999999999), 9U);

  const PackedSequences data(TokenSource(folder.write("y", "abcdefg"), 256), 2, 0.4);
  EXPECT_THAT(data.validation_batch(0, 1).targets, ElementsAre('f', 'g'));
  const auto kind = [](const auto& action) { return testing::error_of(action).first; };
  EXPECT_EQ(kind([&] { static_cast<void>(data.validation_batch(1, 1)); }), ErrorKind::kRuntime);
  const std::vector<std::uint64_t> beyond = {2};
  EXPECT_EQ(kind([&] { static_cast<void>(data.training_batch(beyond)); }), ErrorKind::kRuntime);
}

TEST(PackedSequences, SayHowManyTokensTheyNeed) {
  const TemporaryFolder folder;
  const auto message = [&](std::size_t bytes, std::int64_t length, double fraction) {
    return input_error([&] {
      PackedSequences(TokenSource(folder.write("x", std::string(bytes, 'x')), 256), length,
                      fraction);
    });
  };
  EXPECT_THAT(message(4, 4, 0.0),
              EndsWith("x: 4 tokens are too few: 1 sequence(s) of length 4 need 5"));
  EXPECT_THAT(message(0, 4, 0.0), HasSubstr("0 tokens are too few"));
  EXPECT_THAT(message(8, 4, 0.5), EndsWith("2 sequence(s) of length 4 need 9"));
  EXPECT_THAT(message(8, 0, 0.5), HasSubstr("sequence length 0 is not positive"));
  EXPECT_THAT(message(8, 4, 1.0), HasSubstr("validation fraction 1 is not in [0, 1)"));
  EXPECT_THAT(message(8, 4, -0.1), HasSubstr("validation fraction -0.1"));
}

}  // namespace
}  // namespace zenflow::runtime
