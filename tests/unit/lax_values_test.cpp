// Scalars as pydantic 2 takes them: every row was tried with a model of one field.
#include "sim/deepspeed/lax_values.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

Node value(const std::string& json) {
  return parse_json("[" + json + "]", "value.json").items.at(0);
}

TEST(LaxValues, TakesWholeNumbersAsPydantic) {
  const std::vector<std::pair<std::string, std::optional<std::int64_t>>> rows = {
      {"4", 4},         {"-4", -4},         {"4.0", 4},          {"4e2", 400},
      {"true", 1},      {"4.5", {}},        {"\"4\"", 4},        {"\"+4\"", 4},
      {"\" 4 \"", 4},   {"\"\\t4\\n\"", 4}, {"\"1_000\"", 1000}, {"\"1_0.0\"", 10},
      {"\"0004\"", 4},  {"\"-0\"", 0},      {"\"4.00\"", 4},     {"\"1__0\"", {}},
      {"\"_1\"", {}},   {"\"1_\"", {}},     {"\"5.\"", {}},      {"\".5\"", {}},
      {"\"4.50\"", {}}, {"\"1e3\"", {}},    {"\"--4\"", {}},     {"\"+-4\"", {}},
      {"\"++4\"", {}},  {"\"- 4\"", {}},    {"\"\"", {}},        {"\" \"", {}},
      {"\"0x10\"", {}}, {"\"inf\"", {}},    {"\"T\"", {}},       {"null", {}},
      {"[]", {}},       {"{}", {}}};
  for (const auto& [json, expected] : rows) {
    EXPECT_EQ(lax_integer(value(json)), expected) << json;
    EXPECT_EQ(is_whole(value(json)), expected.has_value()) << json;
  }
}

TEST(LaxValues, TakesUnquotedWordsOfYamlForNoNumbers) {
  for (const char* word : {"auto", "two", "0x2", ".", "e", "-x", "on", "+5", "inf"}) {
    const Node node = parse_yaml(std::string("key: ") + word, "value.yaml").entries.at(0).value;
    EXPECT_EQ(lax_integer(node), std::nullopt) << word;
    EXPECT_FALSE(is_whole(node)) << word;
    EXPECT_FALSE(is_hjson_integer(node)) << word;
  }
}

TEST(LaxValues, KnowsThatWholeNumbersHaveNoLimitButFloatsDo) {
  const std::string nines(30, '9');
  for (const std::string& json :
       {nines, "\"" + nines + "\"", "\"" + nines + ".0\"", std::string("9223372036854775808")}) {
    EXPECT_TRUE(is_whole(value(json))) << json;
    EXPECT_EQ(lax_integer(value(json)), std::nullopt) << json;
  }
  EXPECT_EQ(lax_integer(value("1e18")), 1'000'000'000'000'000'000);
  for (const char* json : {"1e19", "9223372036854775808.0", "-9223372036854775808.0", "1e300"}) {
    EXPECT_FALSE(is_whole(value(json))) << json;
  }
  EXPECT_TRUE(is_whole(value("\"" + std::string(4300, '9') + "\"")));
  EXPECT_FALSE(is_whole(value("\"" + std::string(4301, '9') + "\"")));
}

TEST(LaxValues, KnowsWhatHjsonMakesAnInteger) {
  for (const char* json : {"4", "4.0", "1e3", "-0.0", "0.5e1", "9999999999.0", "99999999999"}) {
    EXPECT_TRUE(is_hjson_integer(value(json))) << json;
  }
  for (const char* json : {"4.5", "1e10", "1e-1", "true", "\"4\"", "null"}) {
    EXPECT_FALSE(is_hjson_integer(value(json))) << json;
  }
}

TEST(LaxValues, TakesNumbersAsPydantic) {
  const std::vector<std::pair<std::string, std::optional<double>>> rows = {
      {"0.5", 0.5},       {"false", 0},        {"\".5\"", 0.5},     {"\"5.\"", 5},
      {"\"+4.0\"", 4},    {"\" 1e3 \"", 1000}, {"\"1_000\"", 1000}, {"\"-.5\"", -0.5},
      {"\"5.e3\"", 5000}, {"\"1__0\"", {}},    {"\"0x10\"", {}},    {"\"\"", {}},
      {"\"inf\"", {}},    {"\"nan\"", {}},     {"\"x\"", {}},       {"null", {}}};
  for (const auto& [json, expected] : rows) EXPECT_EQ(lax_number(value(json)), expected) << json;
  for (const char* json : {"\"inf\"", "\"-Infinity\"", "\"NaN\"", "\"+inf\""}) {
    EXPECT_TRUE(is_non_finite(value(json))) << json;
  }
  EXPECT_FALSE(is_non_finite(value("\"x\"")));
}

TEST(LaxValues, TakesWordsForBooleans) {
  for (const char* json : {"true", "1", "1.0", "\"yEs\"", "\"T\"", "\"on\"", "\"1\""}) {
    EXPECT_EQ(lax_boolean(value(json)), true) << json;
  }
  for (const char* json : {"false", "0", "\"N\"", "\"off\"", "\"0\""}) {
    EXPECT_EQ(lax_boolean(value(json)), false) << json;
  }
  for (const char* json : {"2", "0.5", "\" true \"", "\"\"", "\"1.0\"", "null", "[]"}) {
    EXPECT_EQ(lax_boolean(value(json)), std::nullopt) << json;
  }
}

TEST(LaxValues, WritesTextsAsTheNumbersTheyStandFor) {
  EXPECT_EQ(number_as_json(value("\" +1_000.0 \""), true), "1000");
  EXPECT_EQ(number_as_json(value("\"-007\""), true), "-7");
  EXPECT_EQ(number_as_json(value("\"000\""), true), "0");
  EXPECT_EQ(number_as_json(value("true"), true), "1");
  EXPECT_EQ(number_as_json(value("\".5\""), false), "0.5");
  EXPECT_EQ(number_as_json(value("\"inf\""), false), std::nullopt);
}

}  // namespace
}  // namespace zenflow::sim
