// Generated files with random edits: what no edit names is untouched, byte for byte.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "sim/deepspeed/ds_document.h"
#include "sim/tune/base_text.h"
#include "tests/support/tune_requests.h"

namespace zenflow::sim {
namespace {

using testing::Numbers;

/// A document with spaces and comments of every kind.
class Writer {
 public:
  explicit Writer(Numbers& numbers) : numbers_(numbers) {}

  std::string map(int depth) {
    std::string text = "{" + space();
    const std::uint64_t count = numbers_.below(5);
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i > 0) text += "," + space();
      text += fmt::format("\"k{}\" :", i) + space() + value(depth + 1) + space();
    }
    return text + "}";
  }

 private:
  std::string space() {
    static constexpr const char* kSpaces[] = {
        "",          " ",    "\n  ",     "\r\n\t",        "  ",      "\n", " // a \"b\": {\n",
        " # } ,\n ", "\n\n", "/* ], */", " /* x\n y */ ", "\n      "};
    return kSpaces[numbers_.below(std::size(kSpaces))];
  }
  std::string value(int depth) {
    static constexpr const char* kValues[] = {
        "1",           "1e-05",         "500000000", "0.10",       "true", "null",
        "\"auto\"",    "\"} \\\" //\"", "[1, 2]",    "[]",         "-3",   "{}",
        "\"\\u00e9\"", "[[], {}]",      "\"a\\\\\"", "[\"x\" , 1]"};
    if (depth < 4 && numbers_.below(3) == 0) return map(depth);
    return kValues[numbers_.below(std::size(kValues))];
  }

  Numbers& numbers_;
};

/// Leaves, with their dotted paths.
void collect(const nlohmann::json& node, const std::string& path, std::vector<std::string>& paths) {
  for (const auto& [key, value] : node.items()) {
    const std::string inner = path.empty() ? key : path + "." + key;
    paths.push_back(inner);
    if (value.is_object()) collect(value, inner, paths);
  }
}

nlohmann::json parsed(const std::string& text) {
  return nlohmann::json::parse(render_json(parse_ds_document(text, "text").root));
}

TEST(BaseTextProperty, OnlyWhatIsNamedChanges) {
  Numbers numbers(3);
  for (int round = 0; round < 3000; ++round) {
    const std::string text = Writer(numbers).map(0);
    const DsDocument document = parse_ds_document(text, "text");
    ASSERT_TRUE(document.uses.empty()) << text;
    std::vector<std::string> paths;
    collect(parsed(text), "", paths);
    Node wanted = document.root;
    const std::uint64_t edits = numbers.below(4);
    for (std::uint64_t i = 0; i < edits; ++i) {
      const std::string path = paths.empty() || numbers.below(4) == 0
                                   ? fmt::format("new{}", i)
                                   : paths[numbers.below(paths.size())];
      const char* const values[] = {"7", "\"word\"", "{\"a\": {\"b\": [1, 2]}}", "[1]"};
      const Edit edit =
          numbers.below(3) == 0 ? erase_key(path) : set_key(path, values[numbers.below(4)]);
      const bool reaches = [&] {
        Node copy = wanted;
        try {
          apply_edit(copy, edit);
        } catch (const std::exception&) {
          return false;  // below a value that an earlier edit put there
        }
        return true;
      }();
      if (reaches) apply_edit(wanted, edit);
    }
    const EditedText result = edit_text(text, "text", wanted, true);
    ASSERT_TRUE(result.kept);
    // It says what is wanted. (A block that was replaced by another keeps the places of its keys.)
    EXPECT_EQ(parsed(result.text), nlohmann::json::parse(render_json(wanted))) << text;
    // Nothing to change: nothing changed; changing it again: neither.
    EXPECT_EQ(edit_text(text, "text", document.root, true).text, text);
    EXPECT_EQ(edit_text(result.text, "result", wanted, true).text, result.text);
  }
}

// One value of the same length: every other byte stays.
TEST(BaseTextProperty, ReplacingOneNumberTouchesItsBytesAlone) {
  Numbers numbers(5);
  int replaced = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string text = Writer(numbers).map(0);
    std::vector<std::string> paths;
    const nlohmann::json json = parsed(text);
    collect(json, "", paths);
    for (const std::string& path : paths) {
      std::string pointer = "/" + path;
      std::replace(pointer.begin(), pointer.end(), '.', '/');
      if (json.at(nlohmann::json::json_pointer(pointer)) != nlohmann::json(500000000)) continue;
      Node wanted = parse_ds_document(text, "text").root;
      apply_edit(wanted, set_key(path, "200000000"));
      const std::string result = edit_text(text, "text", wanted, true).text;
      ASSERT_EQ(result.size(), text.size());
      std::size_t differing = 0;
      for (std::size_t i = 0; i < text.size(); ++i) differing += text[i] != result[i] ? 1U : 0U;
      EXPECT_EQ(differing, 1U);
      ++replaced;
    }
  }
  EXPECT_GT(replaced, 50);
}

}  // namespace
}  // namespace zenflow::sim
