// Checkpoint files: what is written is read back, and the bytes are those of the documentation.
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/checkpoint_reader.h"
#include "runtime/checkpoint/checkpoint_writer.h"
#include "tests/support/error_of.h"
#include "tests/support/file_content.h"
#include "tests/support/temporary_folder.h"

namespace zenflow::runtime {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using testing::file_content;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TemporaryFolder;

/// The CRC of docs/training.md, a bit at a time.
std::uint32_t slow_crc(const std::string& bytes) {
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>((value >> (8 * i)) & 0xFFU);
  return text;
}
std::string u32(std::uint64_t value) {
  return little_endian(value, 4);
}
std::string u64(std::uint64_t value) {
  return little_endian(value, 8);
}

/// A file of the documented layout, put together independently of the library.
struct HandMade {
  std::uint64_t version = 1;
  std::uint64_t step = 7;
  std::string payloads;
  std::string table;
  std::uint64_t sections = 0;

  void add(const std::string& name, std::uint64_t type, const std::vector<std::uint64_t>& shape,
           const std::string& payload) {
    payloads += payload;
    table += u32(name.size()) + name + u32(type) + u32(shape.size());
    for (const std::uint64_t extent : shape) table += u64(extent);
    table += u64(payload.size()) + u32(slow_crc(payload));
    ++sections;
  }
  [[nodiscard]] std::string bytes() const {
    const std::string magic("\x89ZFCKPT\n");
    const std::string header =
        magic + u32(version) + u32(slow_crc(magic + u32(version) + u64(step))) + u64(step);
    const std::string trailer = u64(table.size()) +
                                u64(header.size() + payloads.size() + table.size() + 32) +
                                u32(sections) + u32(slow_crc(table));
    return header + payloads + table + trailer + u32(slow_crc(trailer)) + "ZFCE";
  }
};

std::string message_of(const HandMade& file) {
  const TemporaryFolder folder;
  const auto path = folder.write("checkpoint-7", file.bytes());
  const auto [kind, what] = error_of([&] { CheckpointReader(path).verify(); });
  EXPECT_TRUE(what.empty() || kind == ErrorKind::kInput);
  EXPECT_TRUE(what.empty() || what.starts_with(path.generic_string() + ": ")) << what;
  return what;
}

TEST(Checkpoint, HasTheBytesOfTheDocumentation) {
  HandMade expected;
  expected.add("lr", 6, {}, u32(0x3F800000));                              // 1.0F
  expected.add("moments", 8, {2, 1}, std::string("\x80\x3F\x00\xC0", 4));  // 1 and -2 in bf16
  expected.add("note", 1, {2}, "\xC3\xA9");
  expected.add("none", 5, {0, 3}, "");

  const TemporaryFolder folder;
  CheckpointWriter writer(folder / "x", 7);
  writer.add_value("lr", 1.0F);
  const std::array<kernels::Bf16, 2> moments = {{{0x3F80}, {0xC000}}};
  writer.add("moments", std::span(moments), {2, 1});
  writer.add_text("note", "\xC3\xA9");
  writer.add("none", std::span<const std::uint64_t>(), {0, 3});
  writer.commit();
  EXPECT_EQ(file_content(folder / "x"), expected.bytes());
  EXPECT_EQ(message_of(expected), "");
}

TEST(Checkpoint, IsReadBack) {
  const TemporaryFolder folder;
  const std::vector<double> values = {1.5, -0.0, 1e300};
  CheckpointWriter writer(folder / "x", 1U);
  writer.add("values", std::span(values));
  writer.add_value<std::int64_t>("count", -3);
  writer.commit();

  CheckpointReader reader(folder / "x");
  EXPECT_EQ(reader.step(), 1U);
  EXPECT_EQ(reader.read<double>("values"), values);
  EXPECT_EQ(reader.read_value<std::int64_t>("count"), -3);
  EXPECT_THAT(reader.section("count").shape, IsEmpty());
  EXPECT_THAT(reader.section("values").shape, ElementsAre(3U));
  EXPECT_TRUE(reader.contains("values"));
  EXPECT_FALSE(reader.contains("value"));
  reader.verify();
  reader.reject_unread();
}

TEST(Checkpoint, TakesASectionInPieces) {
  const TemporaryFolder folder;
  const std::vector<std::uint8_t> values(3'000'000, 7);  // more than a piece of the writer
  CheckpointWriter whole(folder / "whole", 1);
  whole.add("x", std::span(values));
  whole.commit();
  CheckpointWriter pieces(folder / "pieces", 1);
  pieces.begin("x", SectionType::kU8, {values.size()});
  pieces.append(std::as_bytes(std::span(values).first(1)));
  pieces.append({});
  pieces.append(std::as_bytes(std::span(values).subspan(1)));
  pieces.end();
  pieces.commit();
  EXPECT_EQ(file_content(folder / "pieces"), file_content(folder / "whole"));
}

TEST(Checkpoint, GivesWhatWasAskedForOrSaysWhatItHas) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder / "x", 1);
  writer.add_value("step", std::uint64_t{3});
  writer.add_text("who", "me");
  writer.commit();
  CheckpointReader reader(folder / "x");
  const auto read = [&](auto&& action) { return error_of(action).second; };
  EXPECT_THAT(read([&] { return reader.read<float>("moments"); }),
              HasSubstr("x: has no section \"moments\""));
  EXPECT_THAT(read([&] { return reader.read_value<float>("step"); }),
              HasSubstr("section \"step\" holds u64, expected f32"));
  std::array<std::uint64_t, 2> two{};
  EXPECT_THAT(read([&] { reader.read("step", std::span<std::uint64_t>(two)); }),
              HasSubstr("section \"step\" has 1 elements, expected 2"));
  EXPECT_EQ(reader.read_value<std::uint64_t>("step"), 3U);
  EXPECT_THAT(read([&] { reader.reject_unread(); }),
              HasSubstr("section \"who\" is not known to this program"));
  EXPECT_EQ(reader.read_text("who"), "me");
  EXPECT_EQ(read([&] { reader.reject_unread(); }), "");
}

TEST(Checkpoint, OfAnotherVersionIsNamedWithWhatIsKnown) {
  HandMade file;
  file.version = 2;
  EXPECT_THAT(message_of(file),
              HasSubstr("checkpoint of format version 2; this program reads version 1 only"));
}

TEST(Checkpoint, OfOtherContentIsRefused) {
  const TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) {
    return error_of([&] { CheckpointReader(folder.write("x", bytes)); }).second;
  };
  EXPECT_THAT(message(""), HasSubstr("it is empty"));
  EXPECT_THAT(message("step: 3\n"), HasSubstr("8 bytes are fewer than any checkpoint has"));
  EXPECT_THAT(message(std::string(100, 'x')), HasSubstr("x: is not a checkpoint"));
  EXPECT_THAT(error_of([&] { CheckpointReader(folder / "none"); }).second,
              HasSubstr("cannot read: No such file"));
  EXPECT_THAT(error_of([&] { CheckpointReader(folder.path()); }).second,
              HasSubstr("is not a regular file"));
}

// Checksums that are right do not make a table right.
TEST(Checkpoint, WithATableThatContradictsItselfIsRefused) {
  HandMade twice;
  twice.add("a", 1, {1}, "x");
  twice.add("a", 1, {1}, "y");
  EXPECT_THAT(message_of(twice), HasSubstr("section \"a\" is there twice"));

  HandMade shape;
  shape.add("a", 6, {3}, "12345678");
  EXPECT_THAT(message_of(shape), HasSubstr("not its type and shape"));
  HandMade overflow;
  overflow.add("a", 7, {std::uint64_t{1} << 61U, 1}, "");
  EXPECT_THAT(message_of(overflow), HasSubstr("not its type and shape"));
  HandMade type;
  type.add("a", 99, {0}, "");
  EXPECT_THAT(message_of(type), HasSubstr("not its type and shape"));
  HandMade dimensions;
  dimensions.add("a", 1, std::vector<std::uint64_t>(9, 1), "x");
  EXPECT_THAT(message_of(dimensions), HasSubstr("has 9 dimensions"));
  HandMade name;
  name.add("", 1, {1}, "x");
  EXPECT_THAT(message_of(name), HasSubstr("name has 0 bytes"));

  HandMade gap;
  gap.add("a", 1, {1}, "x");
  gap.payloads += "gap";
  EXPECT_THAT(message_of(gap), HasSubstr("3 bytes before its table belong to no section"));
  HandMade missing;
  missing.add("a", 1, {4}, "1234");
  missing.payloads.clear();
  EXPECT_THAT(message_of(missing), HasSubstr("reaches into the table"));
  HandMade count;
  count.add("a", 1, {1}, "x");
  count.sections = 2;
  EXPECT_THAT(message_of(count), HasSubstr("has 1 sections, not 2"));
  HandMade cut;
  cut.add("a", 1, {1}, "x");
  cut.table.pop_back();
  EXPECT_THAT(message_of(cut), HasSubstr("ends within an entry"));
}

// A copy that lost or gained a block in the middle has its header and trailer.
TEST(Checkpoint, OfAnotherLengthThanItWasWrittenWithIsRefused) {
  HandMade file;
  file.add("a", 1, {8}, "12345678");
  const TemporaryFolder folder;
  const auto message = [&](const std::string& bytes) {
    return error_of([&] { CheckpointReader(folder.write("x", bytes)); }).second;
  };
  const std::string whole = file.bytes();
  EXPECT_EQ(message(whole), "");
  std::string shorter = whole;
  EXPECT_THAT(message(shorter.erase(26, 4)),
              HasSubstr("bytes long, " + std::to_string(whole.size()) + " when it was written"));
  std::string longer = whole;
  EXPECT_THAT(message(longer.insert(26, 4, '1')), HasSubstr("bytes long, "));
}

TEST(CheckpointWriter, RefusesMistakesOfItsCaller) {
  const TemporaryFolder folder;
  CheckpointWriter writer(folder / "x", 1);
  const auto message = [](const auto& action) {
    const auto [kind, what] = error_of(action);
    EXPECT_EQ(kind, ErrorKind::kRuntime);
    return what;
  };
  writer.add_value("a", 1.0F);
  EXPECT_THAT(message([&] { writer.add_value("a", 2.0F); }), HasSubstr("is there already"));
  EXPECT_THAT(message([&] { writer.add_value("", 2.0F); }), HasSubstr("1 to 1024 bytes"));
  EXPECT_THAT(message([&] { writer.append({}); }), HasSubstr("outside a section"));
  EXPECT_THAT(message([&] { writer.end(); }), HasSubstr("without having begun"));
  writer.begin("b", SectionType::kF32, {2});
  EXPECT_THAT(message([&] { writer.begin("c", SectionType::kF32, {2}); }),
              HasSubstr("begins before \"b\" ended"));
  EXPECT_THAT(message([&] { writer.end(); }), HasSubstr("0 bytes, its shape has 8"));
  EXPECT_THAT(message([&] { writer.commit(); }), HasSubstr("has not ended"));
  const std::array<float, 3> three{};
  EXPECT_THAT(message([&] { writer.append(std::as_bytes(std::span(three))); }),
              HasSubstr("more than the 8 bytes"));
}

TEST(CheckpointWriter, LeavesNothingIfItIsNotCommitted) {
  const TemporaryFolder folder;
  folder.write("x", "before");
  { CheckpointWriter(folder / "x", 1).add_value("a", 1.0F); }
  EXPECT_THAT(testing::names_in(folder.path()), ElementsAre("x"));
  EXPECT_EQ(file_content(folder / "x"), "before");
}

}  // namespace
}  // namespace zenflow::runtime
