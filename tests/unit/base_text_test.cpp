// Texts that are changed as little as their new values allow.
#include "sim/tune/base_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/deepspeed/ds_document.h"
#include "tests/support/error_of.h"

namespace zenflow::sim {
namespace {

using ::testing::HasSubstr;

std::string edited(const std::string& text, const std::vector<Edit>& edits, bool comments = true) {
  Node wanted = parse_ds_document(text, "base.json").root;
  for (const Edit& edit : edits) apply_edit(wanted, edit);
  return edit_text(text, "base.json", wanted, comments).text;
}

TEST(BaseText, StaysWhereNothingChanges) {
  const std::string text = "{ \"a\" : 1e-05 ,\r\n\t\"b\":[1,2 , 3]}  \n\n";
  EXPECT_EQ(edited(text, {}), text);
}

TEST(BaseText, ChangesOneValueInItsPlace) {
  EXPECT_EQ(edited("{\n  \"a\": 1, \"b\" : {\"c\":  2} // two\n}\n", {set_key("b.c", "30")}),
            "{\n  \"a\": 1, \"b\" : {\"c\":  30} // two\n}\n");
}

TEST(BaseText, AddsKeysBehindTheLastOfTheirBlock) {
  EXPECT_EQ(edited("{\n    \"a\": 1, // one\n    \"b\": 2  // two\n}\n", {set_key("c", "true")}),
            "{\n    \"a\": 1, // one\n    \"b\": 2,  // two\n    \"c\": true\n}\n");
}

TEST(BaseText, AddsKeysToOneLineAsTheOthersStandThere) {
  EXPECT_EQ(edited(R"({"a": {"b": 1}})", {set_key("a.c", "2")}), R"({"a": {"b": 1, "c": 2}})");
  EXPECT_EQ(edited(R"({"a": 1, "b": 2})", {set_key("c", "3")}), R"({"a": 1, "b": 2, "c": 3})");
  EXPECT_EQ(edited(R"({"a":1,"b":2})", {set_key("c", "3")}), R"({"a":1,"b":2,"c": 3})");
  EXPECT_EQ(edited(R"({ "a": 1,"b": 2 })", {set_key("c", "3")}), R"({ "a": 1,"b": 2, "c": 3 })");
}

TEST(BaseText, AddsBlocksWithTheIndentOfTheirPlace) {
  EXPECT_EQ(
      edited("{\n  \"z\": {\n    \"s\": 2\n  }\n}\n",
             {set_key("z.zenflow", "{\"k\": 1, \"l\": [1, 2]}")}),
      "{\n  \"z\": {\n    \"s\": 2,\n    \"zenflow\": {\n      \"k\": 1,\n      \"l\": [1, 2]\n"
      "    }\n  }\n}\n");
}

TEST(BaseText, KeepsTheCommentsOfABlockThatHasNothingElse) {
  EXPECT_EQ(
      edited("{\n  \"z\": {\n    // later\n    /* or not */\n  },\n  \"a\": 1\n}\n",
             {set_key("z.s", "2"), set_key("z.t", "{\"u\": 3}")}),
      "{\n  \"z\": {\n    // later\n    /* or not */\n    \"s\": 2,\n    \"t\": {\n      \"u\": 3\n"
      "    }\n  },\n  \"a\": 1\n}\n");
  EXPECT_EQ(edited("{\n  \"z\": { // later\n  }\n}\n", {set_key("z.s", "2")}),
            "{\n  \"z\": { // later\n    \"s\": 2\n  }\n}\n");
  EXPECT_EQ(edited("{\"z\": {/* later */}}", {set_key("z.s", "2"), set_key("z.t", "3")}),
            "{\"z\": {/* later */ \"s\": 2, \"t\": 3}}");
  EXPECT_EQ(edited("{ # later\r\n}\r\n", {set_key("s", "2")}), "{ # later\r\n  \"s\": 2\r\n}\r\n");
  EXPECT_EQ(edited("{}", {set_key("s", "2")}), "{\n  \"s\": 2\n}");
  EXPECT_EQ(edited("{ }\r\n", {set_key("s", "2")}), "{\r\n  \"s\": 2\r\n}\r\n");
}

TEST(BaseText, RemovesKeysWithTheirComma) {
  const std::string text = "{\n  \"a\": 1, // one\n  // about b\n  \"b\": 2,\n  \"c\": 3\n}\n";
  EXPECT_EQ(edited(text, {erase_key("b")}), "{\n  \"a\": 1, // one\n  \"c\": 3\n}\n");
  EXPECT_EQ(edited(text, {erase_key("c")}), "{\n  \"a\": 1, // one\n  // about b\n  \"b\": 2\n}\n");
  EXPECT_EQ(edited(text, {erase_key("a")}), "{\n  // about b\n  \"b\": 2,\n  \"c\": 3\n}\n");
  EXPECT_EQ(edited("{\"a\": 1}", {erase_key("a")}), "{}");
}

TEST(BaseText, ReplacesTheLastKeyByAnother) {
  EXPECT_EQ(edited("{\n  \"a\": 1,\n  \"b\": 2\n}\n", {erase_key("b"), set_key("c", "3")}),
            "{\n  \"a\": 1,\n  \"c\": 3\n}\n");
}

TEST(BaseText, IsNotConfusedByTextsThatLookLikeStructure) {
  const std::string text = R"({"a": "} // \" ,", /* { */ "b": 1})";
  EXPECT_EQ(edited(text, {set_key("b", "2")}), R"({"a": "} // \" ,", /* { */ "b": 2})");
}

// No more lines than there were, and none of another kind.
TEST(BaseText, EndsLinesAsTheyWere) {
  EXPECT_EQ(
      edited("{\n  \"a\": {\n    \"b\": 1 // c  \n  },\n  \"d\": 2\n}\n", {set_key("a.b", "3")}),
      "{\n  \"a\": {\n    \"b\": 3 // c  \n  },\n  \"d\": 2\n}\n");
  EXPECT_EQ(edited("{\r\n \"a\": 1, // one\r\n \"b\": 2,\r\n \"c\": 3\r\n}", {erase_key("b")}),
            "{\r\n \"a\": 1, // one\r\n \"c\": 3\r\n}");
  EXPECT_EQ(edited("{\r\n \"a\": 1 // one\r\n}", {set_key("b", "2")}),
            "{\r\n \"a\": 1, // one\r\n \"b\": 2\r\n}");
}

TEST(BaseText, KnowsLinesThatEndInACarriageReturn) {
  EXPECT_EQ(edited("{\r \"a\": 1, // one\r \"b\": 2 // two\r}\r", {set_key("a", "3")}),
            "{\r \"a\": 3, // one\r \"b\": 2 // two\r}\r");
  EXPECT_EQ(edited("{\r \"a\": 1 # one\r}\r", {set_key("b", "2")}),
            "{\r \"a\": 1, # one\r \"b\": 2\r}\r");
}

TEST(BaseText, KnowsACommentOfALineThatLooksLikeTheEndOfABlock) {
  EXPECT_EQ(edited("{\"a\": 1 // one */\n}", {set_key("b", "2")}),
            "{\"a\": 1, // one */\n \"b\": 2\n}");
  EXPECT_EQ(edited("{\n  \"a\": 1, # one */\n  \"b\": 2 }", {erase_key("b")}),
            "{\n  \"a\": 1 # one */\n }");
}

TEST(BaseText, IsWrittenAnewWhereItCannotBeKept) {
  const Node wanted = parse_ds_document("{\"a\": 1}", "x").root;
  const EditedText hjson = edit_text("a: 1\n", "x", wanted, true);
  EXPECT_FALSE(hjson.kept);
  EXPECT_EQ(hjson.text, "{\n  \"a\": 1\n}\n");
  EXPECT_THAT(hjson.reason, HasSubstr("Hjson"));
  const EditedText commented = edit_text("{\"a\": 1 /* x */}", "x", wanted, false);
  EXPECT_FALSE(commented.kept);
  EXPECT_EQ(commented.text, "{\n  \"a\": 1\n}\n");
}

TEST(BaseText, ThatDoesNotParseIsAnError) {
  const auto [kind, what] =
      zenflow::testing::error_of([] { return edit_text("{\"a\": ", "x.json", {}, true); });
  EXPECT_EQ(kind, ErrorKind::kInput);
  EXPECT_THAT(what, HasSubstr("x.json:1"));
}

}  // namespace
}  // namespace zenflow::sim
