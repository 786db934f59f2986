// Hjson as the Python package reads it. The values here are those of hjson 3.1.0.
#include "sim/config/hjson.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/hjson_text.h"
#include "sim/deepspeed/ds_document.h"

namespace zenflow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Strict JSON on one line.
std::string read(const std::string& text) {
  std::string out;
  bool blank = false;
  for (const char c : sim::render_json(parse_hjson(text, "f").root)) {
    blank = c == '\n' || (blank && c == ' ');
    if (!blank) out += c;
  }
  return out;
}

std::string error_of(const std::string& text) {
  try {
    (void)parse_hjson(text, "f");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "no error";
}

std::vector<HjsonFeature> uses(const std::string& text) {
  std::vector<HjsonFeature> found;
  for (const HjsonUse& use : parse_hjson(text, "f").uses) found.push_back(use.feature);
  return found;
}

TEST(Hjson, ReadsWhatThePythonPackageReads) {
  struct Row {
    std::string text;
    std::string json;
  };
  const std::vector<Row> rows = {
      {"a: 1", R"({"a": 1})"},
      {"a: 1\nb: 2,\nc: 3,", R"({"a": 1,"b": 2,"c": 3})"},
      {"{a:1 # c\n b:2 // d\n /* e */ c:3}", R"({"a": 1,"b": 2,"c": 3})"},
      {"{\"a\": {} \"b\": [] 'c': \"x\" d: 1}", R"({"a": {},"b": [],"c": "x","d": 1})"},
      {"{a: [1, 2,], b: [\n x\n y\n],}", R"({"a": [1, 2],"b": ["x", "y"]})"},
      // Text without quotes takes the comma, the comment and the bracket with it.
      {"device: cpu,\nx: 1", R"({"device": "cpu,","x": 1})"},
      {"a: b # c\n", R"({"a": "b # c"})"},
      {"{a: [x]\n]}", R"({"a": ["x]"]})"},
      {"a: NaN,\nb: -Infinity\nc: nan\n", R"({"a": "NaN,","b": "-Infinity","c": "nan"})"},
      {"a: True\nb: 01\nc: 1.\nd: .5\ne: +1\nf: 5_0\ng: 0x1\nh: -",
       R"({"a": "True","b": "01","c": "1.","d": ".5","e": "+1","f": "5_0","g": "0x1","h": "-"})"},
      {"a: true\t\r\nb: 5e8 \nc: null,\nd: false/* */ e: -0 // x",
       R"({"a": true,"b": 5e8,"c": null,"d": false,"e": -0})"},
      {"a: nullx\nb: tr/ue\nc: 1 2\nd: 1/2\n",
       R"({"a": "nullx","b": "tr/ue","c": "1 2","d": "1/2"})"},
      {"a.b: 1\nc#d: 2\ne/f : 3\ng\n: 4", R"({"a.b": 1,"c#d": 2,"e/f": 3,"g": 4})"},
      {"a: \u00A0x\u3000\nb: 5\u00A0\nc: true\u00A0", R"({"a": "x","b": "5","c": true})"},
      {R"({'a': 'it\'s "x"', "b": "it's"})", R"({"a": "it's \"x\"","b": "it's"})"},
      {R"(a: "\u00e9\ud83d\ude00\/\b\f")", "{\"a\": \"é😀/\\b\\f\"}"},
      {R"(a: "\ud83dx\ude00\ud83d\u0041\ud83d\ud83d\ude00")",
       R"({"a": "\uD83Dx\uDE00\uD83DA\uD83D😀"})"},
      {"a:\n  '''\n  x\n    y\n  '''\nb: 1", R"({"a": "x\n  y","b": 1})"},
      {"a:\n  ''' x''y'''\n", R"({"a": "x''y"})"},
      {"a:\r\n  '''\r\n  x\r\n  y\r\n  '''\r\n", R"({"a": "x\ny"})"},
      {"\xEF\xBB\xBF{\"a\": 1}", R"({"a": 1})"},
  };
  for (const Row& row : rows) EXPECT_EQ(read(row.text), row.json) << row.text;
}

TEST(Hjson, RemembersWhatIsNotJson) {
  EXPECT_THAT(uses(R"({"a": [1, {"b": "x"}], "c": -1.5e-8, "d": null} // c)"), IsEmpty());
  EXPECT_THAT(uses("\xEF\xBB\xBF{}"), ElementsAre(HjsonFeature::kByteOrderMark));
  EXPECT_THAT(uses("\"a\": 1"), ElementsAre(HjsonFeature::kNoBraces));
  EXPECT_THAT(uses("{a: 1}"), ElementsAre(HjsonFeature::kUnquotedKey));
  EXPECT_THAT(uses("{\"a\": x\n}"), ElementsAre(HjsonFeature::kUnquotedText));
  EXPECT_THAT(uses("{'a': 1}"), ElementsAre(HjsonFeature::kSingleQuotes));
  EXPECT_THAT(uses("{\"a\": '''x'''\n}"), ElementsAre(HjsonFeature::kMultilineText));
  EXPECT_THAT(uses("{\"a\": 1\n\"b\": 2}"), ElementsAre(HjsonFeature::kMissingComma));
  EXPECT_THAT(uses("{\"a\": [1,]}"), ElementsAre(HjsonFeature::kTrailingComma));
  EXPECT_THAT(uses(R"({"a": "it\'s"})"), ElementsAre(HjsonFeature::kCharacter));
  EXPECT_THAT(uses("{\"a\": true\u00A0\n}"), ElementsAre(HjsonFeature::kCharacter));
  const HjsonDocument document = parse_hjson("{\"a\": 1,\n \"b\": cpu,\n}", "f");
  ASSERT_EQ(document.uses.size(), 1U);
  EXPECT_EQ(document.uses[0].at.text(), "f:2:7");
  EXPECT_EQ(document.uses[0].text, "cpu,");
}

TEST(Hjson, RefusesWhatThePythonPackageRefuses) {
  for (const char* text : {"{a: 1",
                           "{a: x}",
                           "[1, 2",
                           "{a}",
                           "{a b: 1}",
                           "{: 1}",
                           "{a: }",
                           "{a: 1,, b: 2}",
                           "{,}",
                           "[,]",
                           "{a: ]}",
                           "{a: 1}}",
                           "{a: 1} b: 2",
                           "{a: 1]",
                           "a: 1}",
                           "{\"a: 1}",
                           "{a: \"x\ny\"}",
                           "{a: \"x\ty\"}",
                           "{a: \"\\x\"}",
                           "{a: \"\\u12\"}",
                           "{a: /* }",
                           "{a: '''x''",
                           "a",
                           "a: ,",
                           "{\"a\" 1}",
                           "{a: 1 b: 2}",
                           "{a: 1, a: 2}",
                           "a: 1e999",
                           "a: :"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
  // No settings: these it would take.
  EXPECT_EQ(error_of(" \n// only a comment"), "f: expected settings, found an empty file");
}

TEST(Hjson, SaysWhereAndWhy) {
  EXPECT_EQ(error_of("{\"a\": 1,\n \"lr\": NaN}\n"),
            "f:3:1: not valid JSON or Hjson: expected a key and \":\", found the end (the text "
            "without quotes at 2:8 takes the rest of its line)");
  EXPECT_EQ(error_of("{\"a\": \"x\n}"),
            "f:1:7: not valid JSON or Hjson: this \" is not closed in its line");
  EXPECT_EQ(error_of("{\"b\": {\"a\": 1,\n  \"a\": 2}}"),
            "f:2:3: duplicate key \"a\", first on line 1 and again on line 2");
  EXPECT_EQ(error_of("{} x"),
            "f:1:4: not valid JSON or Hjson: expected the end of the file, found \"x\"");
}

TEST(Hjson, HostileInputIsAnErrorAndNothingElse) {
  EXPECT_THAT(error_of(""), HasSubstr("empty file"));
  EXPECT_THAT(error_of(std::string("{\"a\":\0 1}", 9)), HasSubstr("f:1:6: "));
  EXPECT_THAT(error_of("{\"a\": \"\xFF\"}"), HasSubstr("expected UTF-8 text"));
  EXPECT_THAT(error_of(std::string(5000, '[')), HasSubstr("nested deeper than 100 levels"));
  EXPECT_THAT(error_of("a: " + std::string(5000, '1')), HasSubstr("a number that Python can hold"));
  const std::string long_integer(400, '7');
  EXPECT_EQ(read("a: " + long_integer), "{\"a\": " + long_integer + "}");
  EXPECT_EQ(read("a: 1e-999"), R"({"a": 1e-999})");
}

TEST(Hjson, OneLongLineIsReadInLinearTime) {
  // A search for each line's end would make 10^11 steps of it.
  std::string text = "{\"a\": [0";
  for (int i = 0; i < 400'000; ++i) text += ",1";
  EXPECT_EQ(parse_hjson(text + "]}", "f").root.find("a")->items.size(), 400'001U);
}

TEST(JsonNumber, IsTheLongestOne) {
  EXPECT_EQ(json_number_length("12,"), 2U);
  EXPECT_EQ(json_number_length("-0.5e+3x"), 7U);
  EXPECT_EQ(json_number_length("1.x"), 1U);
  EXPECT_EQ(json_number_length("1e"), 1U);
  EXPECT_EQ(json_number_length("01"), 1U);
  for (const char* text : {"", "-", ".5", "+1", "x"}) EXPECT_EQ(json_number_length(text), 0U);
}

}  // namespace
}  // namespace zenflow
