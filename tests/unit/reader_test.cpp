#include "sim/config/reader.h"

#include <clocale>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "sim/base/error.h"

namespace zenflow {
namespace {

constexpr std::int64_t kAnyInteger = std::numeric_limits<std::int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput) << error.what();
    return error.what();
  }
  return "(no error)";
}

/// Reads the value written as `text` after "v: "; messages start with "x.yaml:1:4: v: ".
template <class Read>
auto read(const std::string& text, const Read& how) {
  const Node root = parse_yaml("v: " + text + "\n", "x.yaml");
  return how(ValueReader(*root.find("v"), "v"));
}

template <class Read>
std::string read_error(const std::string& text, const Read& how) {
  const std::string message = error_of([&] { static_cast<void>(read(text, how)); });
  const std::string prefix = "x.yaml:1:4: v: ";
  return message.rfind(prefix, 0) == 0 ? message.substr(prefix.size()) : message;
}

std::int64_t any_integer(const ValueReader& v) {
  return v.integer(-kAnyInteger - 1, kAnyInteger);
}
std::int64_t positive_integer(const ValueReader& v) {
  return v.integer(1, kAnyInteger);
}
double any_number(const ValueReader& v) {
  return v.number(-kInfinity, kInfinity);
}
double fraction(const ValueReader& v) {
  return v.number(0.0, 1.0);
}
double bytes(const ValueReader& v) {
  return v.bytes().value();
}
double bandwidth(const ValueReader& v) {
  return v.bandwidth().value();
}
double flops_rate(const ValueReader& v) {
  return v.flops_rate().value();
}
double duration(const ValueReader& v) {
  return v.duration().value();
}
bool boolean(const ValueReader& v) {
  return v.boolean();
}
std::string string(const ValueReader& v) {
  return v.string();
}

TEST(Integer, ReadsWholeNumbersExactly) {
  EXPECT_EQ(read("512", any_integer), 512);
  EXPECT_EQ(read("-3", any_integer), -3);
  EXPECT_EQ(read("+3", any_integer), 3);
  EXPECT_EQ(read("5e8", any_integer), 500'000'000);
  EXPECT_EQ(read("1.5e1", any_integer), 15);
  EXPECT_EQ(read("2.0", any_integer), 2);
  EXPECT_EQ(read("1200e-2", any_integer), 12);
  EXPECT_EQ(read("0e99999999999", any_integer), 0);
  EXPECT_EQ(read("9223372036854775807", any_integer), kAnyInteger);
  EXPECT_EQ(read("-9223372036854775808", any_integer), -kAnyInteger - 1);
}

TEST(Integer, SaysWhatItExpectedAndFound) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"many", "expected a whole number >= 1, found \"many\""},
      {"0", "expected a whole number >= 1, found \"0\""},
      {"1.5", "expected a whole number >= 1, found \"1.5\""},
      {"1e-3", "expected a whole number >= 1, found \"1e-3\""},
      {"007", "expected a whole number >= 1, found \"007\""},
      {"0x10", "expected a whole number >= 1, found \"0x10\""},
      {"1_000", "expected a whole number >= 1, found \"1_000\""},
      {"4 GPUs", "expected a whole number >= 1, found \"4 GPUs\""},
      {"'5'", "expected a whole number >= 1, found the string \"5\""},
      {"true", "expected a whole number >= 1, found \"true\""},
      {"~", "expected a whole number >= 1, found nothing"},
      {"[1]", "expected a whole number >= 1, found a sequence"},
      {"{a: 1}", "expected a whole number >= 1, found a map"},
      {"9223372036854775808",
       "expected a whole number >= 1, found \"9223372036854775808\", which is out of range"},
      {"1e19", "expected a whole number >= 1, found \"1e19\", which is out of range"},
      {"1e99999999999",
       "expected a whole number >= 1, found \"1e99999999999\", which is out of range"}};
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(read_error(text, positive_integer), message) << text;
  }
  EXPECT_EQ(read_error("9", [](const ValueReader& v) { return v.integer(1, 8); }),
            "expected a whole number from 1 to 8, found \"9\"");
  EXPECT_EQ(read_error("x", any_integer), "expected a whole number, found \"x\"");
}

TEST(Number, ReadsDecimalsOnly) {
  EXPECT_EQ(read("0.1", any_number), 0.1);
  EXPECT_EQ(read("1e-5", any_number), 1e-5);
  EXPECT_EQ(read(".5", any_number), 0.5);
  EXPECT_EQ(read("5.", any_number), 5.0);
  EXPECT_EQ(read("+5E+2", any_number), 500.0);
  EXPECT_EQ(read("-2", any_number), -2.0);
  for (const char* text : {"nan", ".nan", "NaN", "inf", "-inf", ".inf", "infinity", "0x1p3", "1,5",
                           "1e", "e5", ".", "-", "1 2", "'1'", "--1", "1.2.3"}) {
    EXPECT_NE(read_error(text, any_number), "(no error)") << text;
  }
}

TEST(Number, SaysWhatItExpectedAndFound) {
  EXPECT_EQ(read_error("1.5", fraction), "expected a number from 0 to 1, found \"1.5\"");
  EXPECT_EQ(read_error("half", fraction), "expected a number from 0 to 1, found \"half\"");
  EXPECT_EQ(read_error("\"0.5\"", fraction),
            "expected a number from 0 to 1, found the string \"0.5\"");
  EXPECT_EQ(read_error("1e999", any_number),
            "expected a number within double's range, found \"1e999\"");
}

TEST(Number, IgnoresTheLocale) {
  // Not installed everywhere; where it is, a strtod would stop at the point.
  const char* german = std::setlocale(LC_NUMERIC, "de_DE.UTF-8");
  EXPECT_EQ(read("0.25", any_number), 0.25);
  EXPECT_EQ(read("1.5 GiB", bytes), 1.5 * 0x1p30);
  EXPECT_EQ(parse_json("[0.25]", "x.json").items[0].scalar, "0.25");
  if (german != nullptr) std::setlocale(LC_NUMERIC, "C");
}

TEST(Boolean, IsTrueOrFalseUnquoted) {
  EXPECT_TRUE(read("true", boolean));
  EXPECT_FALSE(read("false", boolean));
  EXPECT_EQ(read_error("yes", boolean), "expected true or false, found \"yes\"");
  EXPECT_EQ(read_error("True", boolean),
            "expected true or false, found \"True\" (did you mean \"true\"?)");
  EXPECT_EQ(read_error("'true'", boolean), "expected true or false, found the string \"true\"");
  EXPECT_EQ(read_error("1", boolean), "expected true or false, found \"1\"");
  EXPECT_EQ(read_error("", boolean), "x.yaml:1:1: v: expected true or false, found nothing");
}

TEST(String, IsNotANumber) {
  EXPECT_EQ(read("llama 7b", string), "llama 7b");
  EXPECT_EQ(read("'5'", string), "5");
  EXPECT_EQ(read("2026-11-20", string), "2026-11-20");
  EXPECT_EQ(read_error("5", string), "expected a string, found 5 (quote it if it is one)");
  EXPECT_EQ(read_error("false", string), "expected a string, found false (quote it if it is one)");
  EXPECT_EQ(read_error("''", string), "expected a non-empty string, found \"\"");
  EXPECT_EQ(read_error("[a]", string), "expected a string, found a sequence");
}

TEST(Choice, SuggestsTheNearest) {
  const std::vector<std::string> types = {"bf16", "fp16", "fp32"};
  const auto choice = [&types](const ValueReader& v) { return v.choice(types); };
  EXPECT_EQ(read("bf16", choice), "bf16");
  EXPECT_EQ(read_error("fb16", choice),
            "expected one of bf16, fp16, fp32, found \"fb16\" (did you mean \"bf16\"?)");
  EXPECT_EQ(read_error("int8", choice), "expected one of bf16, fp16, fp32, found \"int8\"");
}

struct Quantity {
  const char* text;
  double value;
};

TEST(Quantities, EveryUnitOfEveryKind) {
  for (const auto& [text, value] : std::vector<Quantity>{{"7 B", 7.0},
                                                         {"7 kB", 7e3},
                                                         {"7 MB", 7e6},
                                                         {"7 GB", 7e9},
                                                         {"7 TB", 7e12},
                                                         {"7 KiB", 7.0 * 1024},
                                                         {"7 MiB", 7.0 * 1048576},
                                                         {"80 GiB", 80.0 * 1073741824},
                                                         {"80GiB", 80.0 * 1073741824},
                                                         {"'80  GiB'", 80.0 * 1073741824},
                                                         {"1.5 TiB", 1.5 * 1099511627776},
                                                         {"0 B", 0.0},
                                                         {"-0 B", 0.0}}) {
    EXPECT_EQ(read(text, bytes), value) << text;
  }
  for (const auto& [text, value] : std::vector<Quantity>{{"25 GB/s", 25e9},
                                                         {"25GB/s", 25e9},
                                                         {"1e3 MB/s", 1e9},
                                                         {"1 B/s", 1.0},
                                                         {"2 kB/s", 2e3},
                                                         {"2 TB/s", 2e12},
                                                         {"2 KiB/s", 2048.0},
                                                         {"2 MiB/s", 2097152.0},
                                                         {"2 GiB/s", 2147483648.0},
                                                         {"2 TiB/s", 2199023255552.0}}) {
    EXPECT_EQ(read(text, bandwidth), value) << text;
  }
  for (const auto& [text, value] : std::vector<Quantity>{{"312 TFLOPS", 312e12},
                                                         {"312 TFLOP/s", 312e12},
                                                         {"5 MFLOPS", 5e6},
                                                         {"5 MFLOP/s", 5e6},
                                                         {"5 GFLOPS", 5e9},
                                                         {"5 GFLOP/s", 5e9},
                                                         {"0.9894 PFLOPS", 0.9894e15},
                                                         {"1 PFLOP/s", 1e15}}) {
    EXPECT_EQ(read(text, flops_rate), value) << text;
  }
  for (const auto& [text, value] : std::vector<Quantity>{{"10 us", 1e-5},
                                                         {"3 ps", 3e-12},
                                                         {"3 ns", 3e-9},
                                                         {"45 ms", 0.045},
                                                         {"1.5 s", 1.5},
                                                         {"2 min", 120.0},
                                                         {"0 s", 0.0}}) {
    EXPECT_EQ(read(text, duration), value) << text;
  }
}

TEST(Quantities, ErrorsNameUnitsAndSigns) {
  const std::string rates = " (units: B/s, kB/s, MB/s, GB/s, TB/s, KiB/s, MiB/s, GiB/s, TiB/s)";
  const std::string expected = "expected a bandwidth with a unit such as \"25 GB/s\", found ";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"25", expected + "\"25\"" + rates},
      {"25 GBs", expected + "\"25 GBs\" (did you mean \"GB/s\"?)" + rates},
      {"25 parsecs", expected + "\"25 parsecs\"" + rates},
      {"25 Gb/s", expected + "\"25 Gb/s\" (did you mean \"GB/s\"?)" + rates},  // bits, not bytes
      {"fast", expected + "\"fast\""},
      {"GB/s", expected + "\"GB/s\""},
      {"~", expected + "nothing"},
      {"0 GB/s", "expected a bandwidth > 0, found \"0 GB/s\""},
      {"-5 GB/s", "expected a bandwidth > 0, found \"-5 GB/s\", which is negative"},
      {"1e308 TB/s", "expected a bandwidth within double's range, found \"1e308 TB/s\""},
      {"1e999 B/s", "expected a bandwidth within double's range, found \"1e999 B/s\""}};
  for (const auto& [text, message] : cases) {
    EXPECT_EQ(read_error(text, bandwidth), message) << text;
  }
  EXPECT_EQ(read_error("-1 s", duration),
            "expected a time >= 0, found \"-1 s\", which is negative");
  EXPECT_EQ(
      read_error("80", bytes),
      "expected a size with a unit such as \"80 GiB\", found \"80\" (units: B, kB, MB, GB, TB, "
      "KiB, MiB, GiB, TiB)");
  EXPECT_EQ(read_error("0 TFLOPS", flops_rate), "expected a compute rate > 0, found \"0 TFLOPS\"");
  EXPECT_EQ(
      read_error("5 0 s", duration),
      "expected a time with a unit such as \"10 us\", found \"5 0 s\" (units: ps, ns, us, ms, "
      "s, min)");
}

TEST(Suggestion, CountsEditsAndTranspositions) {
  const std::vector<std::string> known = {"memory", "topk_ratio", "update_interval", "d2h"};
  EXPECT_EQ(suggestion("memry", known), " (did you mean \"memory\"?)");
  EXPECT_EQ(suggestion("mmeory", known), " (did you mean \"memory\"?)");
  EXPECT_EQ(suggestion("d2hh", known), " (did you mean \"d2h\"?)");
  EXPECT_EQ(suggestion("2dh", known), " (did you mean \"d2h\"?)");  // one transposition
  EXPECT_EQ(suggestion("updateinterva", known), " (did you mean \"update_interval\"?)");
  EXPECT_EQ(suggestion("h2d", known), "");     // two edits, one allowed
  EXPECT_EQ(suggestion("memxyz", known), "");  // three edits, two allowed
  EXPECT_EQ(suggestion("", known), "");
  EXPECT_EQ(suggestion("topk_ratio", {}), "");
}

TEST(Suggestion, AllowsAtMostThreeEditsAndPrefersTheFirstOfEquals) {
  const std::vector<std::string> known = {"aaaaaaaaaaaaaaaaaa"};
  EXPECT_NE(suggestion("aaaaaaaaaaaaaaaxxx", known), "");
  EXPECT_EQ(suggestion("aaaaaaaaaaaaaaxxxx", known), "");
  const std::vector<std::string> equals = {"bat", "cat"};
  EXPECT_EQ(suggestion("hat", equals), " (did you mean \"bat\"?)");
}

class MapTest : public testing::Test {
 protected:
  const Node root_ = parse_yaml(
      "gpu:\n"
      "  memry: 80 GiB\n"
      "  count: 8\n"
      "links: [{name: a}, {nmae: b}]\n"
      "nothing:\n",
      "profiles/y.yaml");
};

TEST_F(MapTest, UnknownKeyIsLocatedAndSuggested) {
  MapReader map(root_, "");
  MapReader gpu = map.require_map("gpu");
  EXPECT_FALSE(gpu.optional("memory").has_value());
  EXPECT_EQ(gpu.integer_or("count", 1, 1, 16), 8);
  EXPECT_EQ(error_of([&] { gpu.reject_unknown_keys(); }),
            "profiles/y.yaml:2:3: gpu.memry: unknown key (did you mean \"memory\"?)");
  gpu.ignore("memry");
  EXPECT_EQ(error_of([&] { gpu.reject_unknown_keys(); }), "(no error)");
}

TEST_F(MapTest, MissingKeyIsLocatedAtItsMap) {
  MapReader map(root_, "");
  MapReader gpu = map.require_map("gpu");
  EXPECT_EQ(error_of([&] { static_cast<void>(gpu.require("memory")); }),
            "profiles/y.yaml:2:3: gpu.memry: unknown key (did you mean \"memory\"?)");
  EXPECT_EQ(error_of([&] { static_cast<void>(gpu.require("bandwidth")); }),
            "profiles/y.yaml:2:3: gpu.bandwidth: required, but missing");
}

TEST_F(MapTest, FailPointsAtTheValueOrTheMap) {
  MapReader map(root_, "");
  MapReader gpu = map.require_map("gpu");
  EXPECT_EQ(error_of([&] { gpu.fail("count", "expected an even number"); }),
            "profiles/y.yaml:3:10: gpu.count: expected an even number");
  EXPECT_EQ(error_of([&] { gpu.fail("absent", "expected it"); }),
            "profiles/y.yaml:2:3: gpu.absent: expected it");
}

TEST_F(MapTest, ItemsCarryTheirIndex) {
  MapReader map(root_, "");
  const std::vector<ValueReader> items = map.require("links").items();
  ASSERT_EQ(items.size(), 2U);
  MapReader second(items[1].node(), items[1].path());
  EXPECT_FALSE(second.optional("name").has_value());
  EXPECT_EQ(error_of([&] { second.reject_unknown_keys(); }),
            "profiles/y.yaml:4:21: links[1].nmae: unknown key (did you mean \"name\"?)");
  EXPECT_EQ(error_of([&] { static_cast<void>(map.require("gpu").items()); }),
            "profiles/y.yaml:2:3: gpu: expected a sequence, found a map");
}

TEST_F(MapTest, NullIsAbsentForOptionalAndAnErrorForRequired) {
  MapReader map(root_, "");
  EXPECT_FALSE(map.optional("nothing").has_value());
  EXPECT_EQ(map.string_or("nothing", "fallback"), "fallback");
  EXPECT_EQ(map.number_or("nothing", 0.5, 0.0, 1.0), 0.5);
  EXPECT_TRUE(map.boolean_or("nothing", true));
  EXPECT_FALSE(map.optional_map("nothing").has_value());
  EXPECT_EQ(error_of([&] { static_cast<void>(map.require("nothing").boolean()); }),
            "profiles/y.yaml:5:1: nothing: expected true or false, found nothing");
  EXPECT_EQ(error_of([&] { static_cast<void>(map.require_map("nothing")); }),
            "profiles/y.yaml:5:1: nothing: expected a map, found nothing");
}

TEST_F(MapTest, KeysKeepTheirOrder) {
  EXPECT_EQ(MapReader(root_, "").keys(), (std::vector<std::string>{"gpu", "links", "nothing"}));
}

TEST(FailAt, LeavesOutWhatIsUnknown) {
  EXPECT_EQ(error_of([] { fail_at({}, "", "what"); }), "what");
  EXPECT_EQ(error_of([] { fail_at({}, "a.b", "what"); }), "a.b: what");
  const Node root = parse_yaml("- 1", "f.yaml");
  EXPECT_EQ(error_of([&] { fail_at(root.at, "", "what"); }), "f.yaml:1:1: what");
}

TEST(SetPath, ErrorsOfOverridesNameTheFlag) {
  Node root = parse_yaml("training: {sequence_length: 512}\n", "x.yaml");
  set_path(root, "training.sequence_length", "many");
  MapReader map(root, "");
  MapReader training = map.require_map("training");
  EXPECT_EQ(
      error_of([&] { static_cast<void>(training.require("sequence_length").integer(1, 8)); }),
      "--set training.sequence_length=many: training.sequence_length: expected a whole number "
      "from 1 to 8, found \"many\"");
}

}  // namespace
}  // namespace zenflow
