/// Any bytes as JSON: a tree whose locations fit the text, or an input error; never a text
/// that the library itself refuses, but for NaN and Infinity, which Python writes.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "tests/fuzz/check_tree.h"

namespace {

bool is_of_python(std::string_view scalar) {
  return scalar == "NaN" || scalar == "Infinity" || scalar == "-Infinity";
}

void check_written(const zenflow::Node& node, std::string_view written) {
  using Kind = zenflow::Node::Kind;
  switch (node.kind) {
    case Kind::kNull:
      zenflow::fuzz::require(written.starts_with("null"), "null is written");
      break;
    case Kind::kMap:
      zenflow::fuzz::require(written.starts_with('{'), "a map starts with a brace");
      break;
    case Kind::kSequence:
      zenflow::fuzz::require(written.starts_with('['), "a sequence starts with a bracket");
      break;
    case Kind::kScalar:
      zenflow::fuzz::require(
          node.quoted ? written.starts_with('"') : written.starts_with(node.scalar),
          "a scalar is written where it is located");
      zenflow::fuzz::require(
          node.quoted || is_of_python(node.scalar) || nlohmann::json::accept(node.scalar),
          "a scalar is one token");
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const zenflow::Node root = zenflow::parse_json(text, "fuzz.json");
    const bool may_be_of_python = text.find("NaN") != std::string_view::npos ||
                                  text.find("Infinity") != std::string_view::npos;
    zenflow::fuzz::require(may_be_of_python || nlohmann::json::accept(text),
                           "what is accepted is JSON");
    zenflow::fuzz::check_tree(root, zenflow::fuzz::Lines(text), check_written);
  } catch (const zenflow::Error& error) {
    zenflow::fuzz::require(error.kind() == zenflow::ErrorKind::kInput, "bad text is bad input");
  }
  return 0;
}
