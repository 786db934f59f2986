// That values are found in a text that arrives in pieces, and texts are unescaped.
#include "sim/trace/import/json_stream.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/trace/import/json_text.h"
#include "tests/support/error_of.h"

namespace zenflow::sim {
namespace {

using testing::error_of;
using ::testing::HasSubstr;

/// Hands out at most `piece` bytes at a time.
class Pieces : public ByteSource {
 public:
  Pieces(std::string text, std::size_t piece) : text_(std::move(text)), piece_(piece) {}
  std::size_t read(std::span<char> out) override {
    const std::size_t count = std::min({piece_, out.size(), text_.size() - at_});
    std::memcpy(out.data(), text_.data() + at_, count);
    at_ += count;
    return count;
  }
  [[nodiscard]] std::uint64_t position() const override { return at_; }
  [[nodiscard]] std::uint64_t size() const override { return text_.size(); }
  [[nodiscard]] const std::string& damage() const override { return damage_; }

 private:
  std::string text_;
  std::size_t piece_;
  std::size_t at_ = 0;
  std::string damage_;
};

TEST(JsonStream, FindsValuesWhereverThePiecesEnd) {
  const std::vector<std::string> values = {R"({"a": "}\"]", "b": [1, {"c": "\\"}]})",
                                           "[[], {}]",
                                           "-12.5e3",
                                           R"("x\\\"y")",
                                           "null",
                                           "NaN"};
  std::string text = "\xEF\xBB\xBF \r\n";
  for (const std::string& value : values) text += value + " ,\r\n";
  for (std::size_t piece = 1; piece < text.size(); ++piece) {
    Pieces source(text, piece);
    JsonStream stream(source, "t");
    for (const std::string& value : values) {
      const JsonStream::Value found = stream.value();
      ASSERT_EQ(found.status, JsonStream::Status::kWhole);
      ASSERT_EQ(found.text, value) << piece;
      ASSERT_EQ(text.substr(found.offset, value.size()), value) << piece;
      ASSERT_EQ(stream.peek(), ',');
      stream.take();
    }
    EXPECT_EQ(stream.peek(), '\0');
  }
}

TEST(JsonStream, SaysThatAValueIsCutWhereverThatIs) {
  const std::string text = R"({"a": "\u0041\"", "b": [1, 2]})";
  for (std::size_t length = 1; length < text.size(); ++length) {
    Pieces source(text.substr(0, length), 3);
    JsonStream stream(source, "t");
    EXPECT_EQ(stream.value().status, JsonStream::Status::kCut) << length;
  }
}

TEST(JsonStream, PassesOverWhatIsTooLong) {
  Pieces source("[\"" + std::string(5'000'000, 'x') + "\", 1] 2 ", 100'000);
  JsonStream stream(source, "t");
  EXPECT_EQ(stream.value(1000).status, JsonStream::Status::kTooLong);
  EXPECT_EQ(stream.value().text, "2");
}

TEST(JsonStream, NamesThePlaceOfWhatIsNoValue) {
  Pieces source("  ]", 10);
  JsonStream stream(source, "t.json");
  EXPECT_THAT(error_of([&] { static_cast<void>(stream.value()); }).second,
              HasSubstr("t.json: byte 2: expected a value, found \"]\""));
}

TEST(JsonText, UnescapesWhatJsonAllowsAndReplacesWhatItDoesNot) {
  EXPECT_EQ(unescape(R"(a\n\t\"\\\/\b)"), "a\n\t\"\\/\b");
  EXPECT_EQ(unescape(R"(\u0041\u00e9\u20ac)"), "A\xC3\xA9\xE2\x82\xAC");
  EXPECT_EQ(unescape(R"(\ud83d\ude00)"), "\xF0\x9F\x98\x80");
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(unescape(R"(\ud83dx)"), replaced + "x");
  EXPECT_EQ(unescape(R"(\ude00)"), replaced);
  EXPECT_EQ(unescape(R"(\ud83d\u0041)"), replaced + "A");
  EXPECT_EQ(unescape(R"(\uZZ)"), replaced + "ZZ");
  EXPECT_EQ(unescape(R"(\q)"), replaced);
  // A path of Windows, say: what follows is longer than a byte and stays whole.
  EXPECT_EQ(unescape("C:\\\xC3\xA9t\xC3\xA9"), "C:" + replaced + "\xC3\xA9t\xC3\xA9");
  EXPECT_EQ(unescape("end\\"), "end");
}

TEST(JsonText, ReplacesBytesThatAreNotUtf8) {
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(as_utf8("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(as_utf8("\xFF"
                    "a\xC3"),
            replaced + "a" + replaced);
  EXPECT_EQ(as_utf8("\xC0\x80"), replaced + replaced);                 // overlong
  EXPECT_EQ(as_utf8("\xED\xA0\x80"), replaced + replaced + replaced);  // a surrogate
  EXPECT_TRUE(is_utf8("\xF4\x8F\xBF\xBF"));
  EXPECT_FALSE(is_utf8("\xF4\x90\x80\x80"));
}

TEST(JsonText, ReadsWholeNumbersAsTracesWriteThem) {
  EXPECT_EQ(whole_number("12"), 12);
  EXPECT_EQ(whole_number("\"12\" "), 12);
  EXPECT_EQ(whole_number("12.0"), 12);
  EXPECT_EQ(whole_number("\"0x1F\""), 31);
  EXPECT_EQ(whole_number("-3"), -3);
  for (const char* text : {"", "12.5", "1e3", "x", "12x", "9223372036854775808", "null", "0x"}) {
    EXPECT_FALSE(whole_number(text)) << text;
  }
}

}  // namespace
}  // namespace zenflow::sim
