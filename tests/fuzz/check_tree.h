/// What every parsed document must satisfy, whatever its text was.
#pragma once

#include <algorithm>
#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.h"
#include "tests/fuzz/require.h"

namespace zenflow::fuzz {

/// Offsets of the starts of lines, to look up what is written at a location.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text), starts_{0} {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  [[nodiscard]] std::string_view written_at(const Location& at) const {
    require(at.line >= 1 && at.column >= 1, "a location has a line and a column");
    const auto line = static_cast<std::size_t>(at.line) - 1;
    require(line < starts_.size(), "a location's line exists");
    const std::size_t offset = starts_[line] + static_cast<std::size_t>(at.column) - 1;
    require(offset <= text_.size(), "a location's column exists");
    return text_.substr(offset);
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_;
};

/// Calls `check(node, written)` for every node that is written in the text, after checking
/// depth and keys. `depth` counts the maps and sequences around `node`.
template <class Check>
void check_tree(const Node& node, const Lines& lines, const Check& check, int depth = 0) {
  const bool is_nested = node.is_map() || node.kind == Node::Kind::kSequence;
  require(depth < 100 || !is_nested, "nesting is at most 100 deep");
  check(node, lines.written_at(node.at));
  for (const Node& item : node.items) check_tree(item, lines, check, depth + 1);
  std::set<std::string_view> keys;
  for (const Node::Entry& entry : node.entries) {
    require(keys.insert(entry.key).second, "keys are unique");
    static_cast<void>(lines.written_at(entry.key_at));
    check_tree(entry.value, lines, check, depth + 1);
  }
}

}  // namespace zenflow::fuzz
