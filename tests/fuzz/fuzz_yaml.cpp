/// Any bytes as YAML: a tree whose locations fit the text, or an input error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/base/error.h"
#include "sim/config/document.h"
#include "tests/fuzz/check_tree.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using zenflow::Node;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    Node root = zenflow::parse_yaml(text, "fuzz.yaml");
    if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
    const zenflow::fuzz::Lines lines(text);
    zenflow::fuzz::check_tree(root, lines, [](const Node& node, std::string_view written) {
      if (!node.is_scalar()) return;
      zenflow::fuzz::require(!written.empty(), "a scalar is written somewhere");
      if (node.quoted) {
        zenflow::fuzz::require(std::string_view("\"'|>").find(written[0]) != std::string_view::npos,
                               "a quoted scalar starts with its quote");
      } else {
        zenflow::fuzz::require(!node.scalar.empty() && written[0] == node.scalar[0],
                               "a plain scalar starts with its first character");
      }
    });
    zenflow::set_path(root, "some.path", text);
  } catch (const zenflow::Error& error) {
    zenflow::fuzz::require(error.kind() == zenflow::ErrorKind::kInput, "bad text is bad input");
  }
  return 0;
}
