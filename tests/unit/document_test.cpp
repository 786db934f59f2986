#include "sim/config/document.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/base/error.h"
#include "sim/config/tree_builder.h"

namespace zenflow {
namespace {

using Kind = Node::Kind;
using ::testing::HasSubstr;

/// The message of the Error that `action` must throw.
std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  return "(no error)";
}

std::string yaml_error(const std::string& text) {
  return error_of([&] { static_cast<void>(parse_yaml(text, "x.yaml")); });
}

std::string json_error(const std::string& text) {
  return error_of([&] { static_cast<void>(parse_json(text, "x.json")); });
}

std::string repeated(const std::string& part, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += part;
  return text;
}

const char* const kYamlScenario =
    "# comment\n"
    "name: tiny\n"
    "training:\n"
    "  sequence_length: 512\n"
    "  dtype: \"bf16\"\n"
    "schedules: [gpu-only, {name: zenflow}]\n";

TEST(Yaml, ValuesKnowWhereTheyWereWritten) {
  const Node root = parse_yaml(kYamlScenario, "x.yaml");
  ASSERT_TRUE(root.is_map());
  EXPECT_EQ(root.at.text(), "x.yaml:2:1");
  const Node* training = root.find("training");
  ASSERT_NE(training, nullptr);
  EXPECT_EQ(training->entries[0].key_at.text(), "x.yaml:4:3");
  EXPECT_EQ(training->entries[0].value.at.text(), "x.yaml:4:20");
  EXPECT_EQ(training->entries[0].value.scalar, "512");
  EXPECT_FALSE(training->entries[0].value.quoted);
  EXPECT_TRUE(training->find("dtype")->quoted);
  const Node* schedules = root.find("schedules");
  ASSERT_EQ(schedules->items.size(), 2U);
  EXPECT_EQ(schedules->at.text(), "x.yaml:6:12");
  EXPECT_EQ(schedules->items[1].find("name")->at.text(), "x.yaml:6:30");
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Yaml, EntriesKeepTheirOrder) {
  const Node root = parse_yaml("z: 1\na: 2\nm: 3\n", "x.yaml");
  ASSERT_EQ(root.entries.size(), 3U);
  EXPECT_EQ(root.entries[0].key, "z");
  EXPECT_EQ(root.entries[1].key, "a");
  EXPECT_EQ(root.entries[2].key, "m");
}

TEST(Yaml, NullIsLocatedAtItsTextOrElseAtItsKey) {
  const Node root = parse_yaml("a:\nb: ~\nc: 'null'\n", "x.yaml");
  EXPECT_EQ(root.find("a")->kind, Kind::kNull);
  EXPECT_EQ(root.find("a")->at.text(), "x.yaml:1:1");
  EXPECT_EQ(root.find("b")->kind, Kind::kNull);
  EXPECT_EQ(root.find("b")->at.text(), "x.yaml:2:4");
  EXPECT_EQ(root.find("c")->scalar, "null");
}

TEST(Yaml, WindowsFilesReadTheSame) {
  const Node root = parse_yaml(
      "\xEF\xBB\xBF"
      "a: 'x'\r\nb:\r\n  c: 2\r\n",
      "x.yaml");
  EXPECT_EQ(root.find("a")->scalar, "x");
  EXPECT_EQ(root.find("b")->find("c")->scalar, "2");
  EXPECT_EQ(root.find("b")->find("c")->at.text(), "x.yaml:3:6");
}

TEST(Yaml, SecondByteOrderMarkIsRefused) {
  EXPECT_EQ(yaml_error("\xEF\xBB\xBF\xEF\xBB\xBF"
                       "a: 1\n"),
            "x.yaml: found a second byte order mark");
}

TEST(Yaml, DuplicateKeyNamesBothLines) {
  EXPECT_EQ(yaml_error("a: 1\nb: 2\na: 3\n"),
            "x.yaml:3:1: duplicate key \"a\", first on line 1 and again on line 3");
  EXPECT_EQ(yaml_error("p:\n  - {k: 1, \"k\": 2}\n"),
            "x.yaml:2:12: duplicate key \"k\", first on line 2 and again on line 2");
}

TEST(Yaml, RefusesWhatWouldBeAmbiguous) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a: &x 1\n", "x.yaml:1:4: expected a value, found an anchor (&name)"},
      {"a: [&x {b: 1}]\n", "x.yaml:1:5: expected a value, found an anchor (&name)"},
      {"a: !!int 3\n",
       "x.yaml:1:4: expected a value without a tag, found the tag \"tag:yaml.org,2002:int\""},
      {"a: ! 3\n", "x.yaml:1:4: expected a value without a tag, found the tag \"!\""},
      {"a: 1\n---\nb: 2\n",
       "x.yaml:2:1: expected the end of the document, found more text or a second one"},
      {"- 1\nb: 2\n",
       "x.yaml:2:1: expected the end of the document, found more text or a second one"},
      {"? [x]\n: 3\n",
       "x.yaml:1:3: expected a key that is a scalar, found a sequence (is a \"[\" not closed?)"},
      {"~: 3\n", "x.yaml:1:1: expected a key that is a scalar, found nothing"}};
  for (const auto& [text, message] : cases) EXPECT_EQ(yaml_error(text), message) << text;
}

TEST(Yaml, AliasIsRefused) {
  // The anchor comes first, so an alias that could be resolved is never reached.
  EXPECT_EQ(yaml_error("a: &x 1\nb: *x\n"),
            "x.yaml:1:4: expected a value, found an anchor (&name)");
  EXPECT_EQ(yaml_error("b: *x\n"),
            "x.yaml:1:4: not valid YAML: the referenced anchor is not defined");
}

TEST(Yaml, AliasesAreResolvedWhereTheyMayStand) {
  const Node root = parse_yaml_with_aliases(
      "base: &b {x: 1, y: [&one 2]}\n"
      "own: {<<: *b, x: 3}\n"
      "both: {<<: [{x: 4}, *b]}\n"
      "again: *one\n",
      "x.yaml");
  EXPECT_EQ(root.find("base")->find("x")->scalar, "1");
  EXPECT_EQ(root.find("own")->find("x")->scalar, "3");
  EXPECT_EQ(root.find("own")->find("y")->items.at(0).scalar, "2");
  EXPECT_EQ(root.find("own")->find("<<"), nullptr);
  EXPECT_EQ(root.find("both")->find("x")->scalar, "4");
  EXPECT_EQ(root.find("both")->find("y")->items.size(), 1U);
  EXPECT_EQ(root.find("again")->scalar, "2");
  EXPECT_EQ(root.find("again")->at.text(), "x.yaml:1:21");
}

TEST(Yaml, AliasesStayBounded) {
  const auto error = [](const std::string& text) {
    return error_of([&] { (void)parse_yaml_with_aliases(text, "x.yaml"); });
  };
  std::string laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  std::string deep = "a0: &a0 [x]\n";
  for (int i = 1; i < 120; ++i) {
    const std::string one = fmt::format("*a{}", i - 1);
    deep += fmt::format("a{0}: &a{0} [{1}]\n", i, one);
    if (i < 9) laughs += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}]\n", i, one);
  }
  EXPECT_THAT(error(laughs), HasSubstr("aliases make more than 100000 values"));
  EXPECT_THAT(error(deep), HasSubstr("aliases make more than 100 levels"));
  // Anchors within anchors hold what they name again, and a long text is long in each of its
  // copies.
  std::string nested;
  for (int i = 0; i < 20; ++i) nested += fmt::format("&a{} [", i);
  for (int i = 0; i < 10'000; ++i) nested += "0, ";
  EXPECT_THAT(error("a: " + nested + "0" + std::string(20, ']') + "\n"),
              HasSubstr("anchors and aliases make more than 100000 values"));
  const std::string text(10'000, 'x');
  std::string copies;
  for (int i = 0; i < 200; ++i) copies += ", *a";
  EXPECT_THAT(error("[&a " + text + copies + "]\n"), HasSubstr("or 1 MiB of text"));
  EXPECT_THAT(error("a: &a [*a]\n"), HasSubstr("x.yaml:1:8: expected a value, found an alias"));
  EXPECT_THAT(error("a: &a {k: 1}\n<<: [*a, 2]\n"), HasSubstr("x.yaml:2:10: <<: expected a map"));
  EXPECT_THAT(error("&k a: 1\n"), HasSubstr("x.yaml:1:1: expected a key, found an anchor"));
  EXPECT_THAT(error("a: &k \"1\n"), HasSubstr("missing closing quote"));
}

TEST(Yaml, SyntaxErrorsHavePositions) {
  EXPECT_EQ(yaml_error("a: b: c\n"), "x.yaml:1:5: not valid YAML: illegal map value");
  EXPECT_EQ(yaml_error("a: [1, 2\nb: 3\n"),
            "x.yaml:2:2: not valid YAML: end of sequence flow not found");
  EXPECT_EQ(yaml_error("a: \"\\q\"\n"), "x.yaml:1:7: not valid YAML: unknown escape character: q");
}

TEST(Yaml, UnclosedQuoteDoesNotSwallowTheRest) {
  EXPECT_EQ(yaml_error("a: 1\nb: \"x\nc: 2\n"),
            "x.yaml:2:4: not valid YAML: missing closing quote");
  EXPECT_EQ(yaml_error("a: 'it''s\nc: 2\n"), "x.yaml:1:4: not valid YAML: missing closing quote");
  EXPECT_EQ(yaml_error("a: \"x\\\"\n"), "x.yaml:1:4: not valid YAML: missing closing quote");
  EXPECT_EQ(parse_yaml("a: 'it''s'\n", "x.yaml").find("a")->scalar, "it's");
  EXPECT_EQ(parse_yaml("a: \"\\\"\\\\\"\n", "x.yaml").find("a")->scalar, "\"\\");
}

TEST(Yaml, EmptyFileSaysSo) {
  EXPECT_EQ(yaml_error(""), "x.yaml: expected a YAML document, found an empty file");
  EXPECT_EQ(yaml_error("# only\n\n"),
            "x.yaml: expected a YAML document, found an empty file (or only comments)");
}

TEST(Yaml, BytesThatAreNotTextAreRefused) {
  EXPECT_EQ(yaml_error("a: 1\nb: \xFF\n"),
            "x.yaml:2:4: expected UTF-8 text, found an invalid byte");
  // yaml-cpp takes 0x04 for the end of the file.
  EXPECT_EQ(yaml_error("a: 1\n\x04"
                       "b: 2\n"),
            "x.yaml:2:1: expected text, found the control character 0x04");
}

TEST(Utf8, AcceptsEveryLengthAndRefusesMalformedSequences) {
  for (const char* good : {"\"\xC2\x80\"", "\"\xE0\xA0\x80\"", "\"\xEF\xBF\xBD\"",
                           "\"\xF0\x90\x80\x80\"", "\"\xF4\x8F\xBF\xBF\""}) {
    EXPECT_EQ(parse_json(good, "x.json").kind, Kind::kScalar) << good;
  }
  for (const char* bad : {"\"\x80\"", "\"\xC0\x80\"", "\"\xC1\xBF\"", "\"\xC2\"",
                          "\"\xE0\x9F\xBF\"", "\"\xED\xA0\x80\"", "\"\xF0\x8F\xBF\xBF\"",
                          "\"\xF4\x90\x80\x80\"", "\"\xF5\x80\x80\x80\"", "\"\xE2\x82\""}) {
    EXPECT_EQ(json_error(bad), "x.json:1:2: expected UTF-8 text, found an invalid byte") << bad;
  }
}

TEST(Depth, HundredLevelsAreReadAndNoMore) {
  const std::string opening = repeated("[", 100);
  const std::string closing = repeated("]", 100);
  EXPECT_EQ(parse_yaml(opening + closing, "x.yaml").kind, Kind::kSequence);
  EXPECT_EQ(parse_json(opening + closing, "x.json").kind, Kind::kSequence);
  EXPECT_EQ(yaml_error("[" + opening + closing + "]"),
            "x.yaml:1:101: nested deeper than 100 levels");
  EXPECT_EQ(json_error("[" + opening + closing + "]"),
            "x.json:1:101: nested deeper than 100 levels");
}

TEST(Depth, HostileNestingEndsInAnErrorNotInAStackOverflow) {
  for (const char* part : {"[", "{", "- ", "? ", "[a,", "{a: ", "- - [", "{\"a\":", "[[]", "[{"}) {
    const std::string text = repeated(part, 100'000);
    EXPECT_NE(yaml_error(text), "(no error)") << part;
    EXPECT_NE(json_error(text), "(no error)") << part;
  }
}

TEST(Size, HugeTextsAreRefused) {
  EXPECT_EQ(yaml_error(repeated("# 345678901234567890\n", 50'000) + "a: 1"),
            "x.yaml: cannot read: YAML text is larger than 1 MiB");
  EXPECT_EQ(json_error("[" + repeated("1,", 1'000'001) + "1]"),
            "x.json:1:2000000: more than 1000000 values");
}

TEST(Json, ValuesKnowWhereTheyWereWritten) {
  const Node root = parse_json(
      "{\"n\": -1.5e+3,\n"
      "  \"s\" : \"a\\\"\\\\\",  \"t\":true,\"z\" :null,\n"
      "\t\"l\": [ 1 ,{\"k\":[]} , \"\" ]}\n",
      "x.json");
  EXPECT_EQ(root.at.text(), "x.json:1:1");
  EXPECT_EQ(root.find("n")->at.text(), "x.json:1:7");
  EXPECT_EQ(root.find("n")->scalar, "-1.5e+3");
  EXPECT_FALSE(root.find("n")->quoted);
  EXPECT_EQ(root.entries[1].key_at.text(), "x.json:2:3");
  EXPECT_EQ(root.find("s")->at.text(), "x.json:2:9");
  EXPECT_EQ(root.find("s")->scalar, "a\"\\");
  EXPECT_TRUE(root.find("s")->quoted);
  EXPECT_EQ(root.find("t")->at.text(), "x.json:2:23");
  EXPECT_EQ(root.find("t")->scalar, "true");
  EXPECT_EQ(root.find("z")->kind, Kind::kNull);
  EXPECT_EQ(root.find("z")->at.text(), "x.json:2:33");
  const Node* list = root.find("l");
  ASSERT_EQ(list->items.size(), 3U);
  EXPECT_EQ(list->items[0].at.text(), "x.json:3:9");
  EXPECT_EQ(list->items[1].find("k")->at.text(), "x.json:3:17");
  EXPECT_EQ(list->items[2].at.text(), "x.json:3:23");
  EXPECT_TRUE(list->items[2].quoted);
}

TEST(Json, NumbersKeepTheirText) {
  const Node root = parse_json("[18446744073709551616, 1E2, 0.10, -0]", "x.json");
  EXPECT_EQ(root.items[0].scalar, "18446744073709551616");
  EXPECT_EQ(root.items[1].scalar, "1E2");
  EXPECT_EQ(root.items[2].scalar, "0.10");
  EXPECT_EQ(root.items[3].scalar, "-0");
}

TEST(Json, DuplicateKeyNamesBothLines) {
  EXPECT_EQ(json_error("{\"a\": 1,\n \"b\": {\"a\": 2},\n  \"a\": 3}"),
            "x.json:3:3: duplicate key \"a\", first on line 1 and again on line 3");
  // The same key written with an escape.
  EXPECT_EQ(json_error("{\"a\": 1, \"\\u0061\": 2}"),
            "x.json:1:10: duplicate key \"a\", first on line 1 and again on line 1");
}

TEST(Json, SyntaxErrorsHavePositions) {
  const std::string at = ": not valid JSON: syntax error while parsing ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"a\": 1,}", "x.json:1:9" + at + "object key - unexpected '}'; expected string literal"},
      {"{\"a\": 1\n \"b\": 2}",
       "x.json:2:2" + at + "object - unexpected string literal; expected '}'"},
      {"[\"a\" \"b\\\"c\"]", "x.json:1:6" + at + "array - unexpected string literal; expected ']'"},
      {"[1 23]", "x.json:1:4" + at + "array - unexpected number literal; expected ']'"},
      {"[1] true", "x.json:1:5" + at + "value - unexpected true literal; expected end of input"},
      {"[1,\n",
       "x.json:2:1" + at + "value - unexpected end of input; expected '[', '{', or a literal"},
      {"// no\n{}", "x.json:1:1" + at + "value - invalid literal; last read: '/'"},
      {"[1e999]", "x.json:1:6: not valid JSON: number overflow parsing '1e999'"}};
  for (const auto& [text, message] : cases) EXPECT_EQ(json_error(text), message) << text;
}

TEST(Json, IsStrict) {
  for (const char* text :
       {"{a: 1}", "{'a': 1}", "[1,]", "[01]", "[+1]", "[.5]", "[1.]", "[0x10]", "[\"\t\"]",
        "[\"\\x41\"]", "[\"\\ud800\"]", "[1}", "{\"a\"}", "{1: 2}", "/**/[]", "[] []", " ", "}"}) {
    EXPECT_NE(json_error(text), "(no error)") << text;
  }
  EXPECT_EQ(json_error(""), "x.json: expected a JSON document, found an empty file");
  EXPECT_EQ(json_error(std::string("[]\0[", 4)),
            "x.json:1:3: expected text, found the control character 0x00");
  EXPECT_EQ(
      json_error("\xEF\xBB\xBF[]"),
      "x.json:1:1: expected JSON text, found a byte order mark, which Python's json refuses too");
}

TEST(Json, TakesPythonsNamesForNumbersThatJsonDoesNotHave) {
  const Node root =
      parse_json("{\"limit\": [0.0, Infinity, -Infinity], \"x\": NaN, \"y\": \"NaN\"}", "x.json");
  const Node& limit = *root.find("limit");
  EXPECT_EQ(limit.items[1].scalar, "Infinity");
  EXPECT_EQ(limit.items[2].scalar, "-Infinity");
  EXPECT_EQ(limit.items[2].at.column, 27);
  EXPECT_EQ(root.find("x")->scalar, "NaN");
  EXPECT_FALSE(root.find("x")->quoted);
  EXPECT_TRUE(root.find("y")->quoted);
  for (const char* text : {"[1NaN]", "[NaNa]", "[NaN3]", "[NaN.5]", "[NaNe5]", "[-NaN]", "[nan]",
                           "[Infinit]", "[Infinity0]", "[infinity]", "[+Infinity]"}) {
    EXPECT_NE(json_error(text), "(no error)") << text;
  }
}

// The parser quotes what it has read, up to the middle of a character.
TEST(Json, MessagesAreUtf8WhateverTheyQuote) {
  const std::string message = json_error("{\"a\": \xC3\xA9}");
  EXPECT_NE(message.find("\\xc3"), std::string::npos) << message;
  EXPECT_NO_THROW(check_characters(message, nullptr));
  EXPECT_THROW(check_characters("\xC3", nullptr), Error);
}

TEST(Json, LongTextIsAbbreviatedInMessages) {
  const std::string message = json_error("{\"" + repeated("\xE2\x82\xAC", 1000) + "\" 1}");
  EXPECT_LT(message.size(), 300U);
  const std::string key = repeated("\xE2\x82\xAC", 1000);
  EXPECT_EQ(json_error("{\"" + key + "\": 1, \"" + key + "\": 2}").substr(0, 30),
            "x.json:1:3009: duplicate key \"");
}

/// Writes a file that lives as long as the test.
class FileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return folder_ / name;
  }

  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("zenflow_document_") +
       testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(FileTest, FormatFollowsTheName) {
  EXPECT_EQ(load_document(write("a.yaml", "a: 1")).find("a")->scalar, "1");
  EXPECT_EQ(load_document(write("a.json", "{\"a\": 1}")).find("a")->scalar, "1");
  const auto broken = write("b.json", "a: 1");
  EXPECT_EQ(error_of([&] {
              static_cast<void>(load_document(broken));
            }).rfind(broken.string() + ":1:1: not valid JSON", 0),
            0U);
}

TEST_F(FileTest, UnreadableFilesSayWhy) {
  const auto read_error = [](const std::filesystem::path& path) {
    return error_of([&] { static_cast<void>(read_text_file(path)); });
  };
  EXPECT_EQ(read_error("no/such.yaml"), "no/such.yaml: cannot read: No such file or directory");
  EXPECT_EQ(read_error(folder_), folder_.string() + ": cannot read: it is a directory");
  EXPECT_EQ(read_error("/dev/zero"), "/dev/zero: is not a regular file");
  EXPECT_EQ(read_text_file(write("empty", "")), "");
}

class SetPathTest : public testing::Test {
 protected:
  std::string set_error(std::string_view path, std::string_view text) {
    return error_of([&] { set_path(root_, path, text); });
  }
  Node root_ = parse_yaml("name: x\nempty:\ntraining: {length: 512}\n", "x.yaml");
};

TEST_F(SetPathTest, ReplacesAddsAndCreatesMaps) {
  set_path(root_, "training.length", "1024");
  set_path(root_, "training.dtype", "bf16");
  set_path(root_, "empty.a.b", "true");
  set_path(root_, "new.map", "null");
  EXPECT_EQ(root_.find("training")->find("length")->scalar, "1024");
  EXPECT_EQ(root_.find("training")->find("length")->at.text(), "--set training.length=1024");
  EXPECT_EQ(root_.find("training")->entries[0].key_at.text(), "x.yaml:3:12");
  EXPECT_EQ(root_.find("training")->entries[1].key_at.text(), "--set training.dtype=bf16");
  EXPECT_EQ(root_.find("empty")->find("a")->find("b")->scalar, "true");
  EXPECT_EQ(root_.find("empty")->at.text(), "--set empty.a.b=true");
  EXPECT_EQ(root_.find("new")->find("map")->kind, Kind::kNull);
}

TEST_F(SetPathTest, ValuesAreYaml) {
  set_path(root_, "schedules", "[gpu-only, zenflow]");
  set_path(root_, "name", "'512'");
  set_path(root_, "gpu", "{memory: 80 GiB}");
  ASSERT_EQ(root_.find("schedules")->items.size(), 2U);
  EXPECT_EQ(root_.find("schedules")->items[1].scalar, "zenflow");
  EXPECT_EQ(root_.find("schedules")->items[1].at.text(), "--set schedules=[gpu-only, zenflow]");
  EXPECT_TRUE(root_.find("name")->quoted);
  EXPECT_EQ(root_.find("gpu")->find("memory")->scalar, "80 GiB");
}

TEST_F(SetPathTest, StartsFromNothing) {
  Node root;
  set_path(root, "a.b", "1");
  EXPECT_EQ(root.find("a")->find("b")->scalar, "1");
}

TEST_F(SetPathTest, PathsAreShort) {
  EXPECT_NE(
      set_error(repeated("a.", 100'000) + "a", "1").find("expected a path of at most 100 parts"),
      std::string::npos);
}

TEST_F(SetPathTest, ErrorsNameTheSetting) {
  EXPECT_EQ(set_error("name.x", "1"),
            "--set name.x=1: \"name\" is not a map, so \"x\" cannot be set in it");
  EXPECT_EQ(set_error("training..x", "1"),
            "--set training..x=1: expected a path such as training.sequence_length, found an empty "
            "part");
  EXPECT_EQ(set_error("", "1"),
            "--set =1: expected a path such as training.sequence_length, found an empty part");
  EXPECT_EQ(set_error("name.", "1"),
            "--set name.=1: expected a path such as training.sequence_length, found an empty part");
  EXPECT_EQ(set_error("name", " "),
            "--set name= : expected a value after \"=\" (null removes a setting)");
  EXPECT_EQ(set_error("name", "[a, b"),
            "--set name=[a, b: expected a key that is a scalar, found a sequence (is a \"[\" not "
            "closed?)");
}

}  // namespace
}  // namespace zenflow
