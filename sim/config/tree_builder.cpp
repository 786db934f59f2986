#include "sim/config/tree_builder.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/text.h"

namespace zenflow {
void fail_parse(const Location& at, const std::string& what) {
  const std::string where = at.text();
  throw Error(ErrorKind::kInput, where.empty() ? what : where + ": " + what);
}

Location location_of(const FileName& file, std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 == 0
  return {file, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(before.size() - line_start) + 1};
}

std::string abbreviated(std::string_view text, std::size_t limit) {
  std::string out;
  std::size_t i = 0;
  while (i < std::min(text.size(), limit)) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      out += fmt::format("\\x{:02x}", unsigned{static_cast<unsigned char>(text[i])});
    } else if (text[i] == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(text[i]) >= 0x20U) {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  if (i < text.size()) out += "...";
  return out;
}

/// Both parser libraries take some control characters for the end of the input (yaml-cpp
/// 0x04, nlohmann-json 0x00) and would silently drop what follows.
void check_characters(std::string_view text, const FileName& file) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0)
      fail_parse(location_of(file, text, i), "expected UTF-8 text, found an invalid byte");
    const auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20U && c != '\t' && c != '\n' && c != '\r') {
      fail_parse(location_of(file, text, i),
                 fmt::format("expected text, found the control character 0x{:02x}", unsigned{c}));
    }
    i += length;
  }
}

void TreeBuilder::open(Node::Kind kind, Location at) {
  if (frames_.size() == kMaxDepth) {
    fail_parse(at, fmt::format("nested deeper than {} levels", kMaxDepth));
  }
  count_node(at);
  Frame& frame = frames_.emplace_back();
  frame.node.kind = kind;
  frame.node.at = std::move(at);
}

void TreeBuilder::close() {
  Node node = std::move(frames_.back().node);
  frames_.pop_back();
  place(std::move(node));
}

void TreeBuilder::key(std::string text, Location at) {
  Frame& frame = frames_.back();
  const auto [first, is_new] = frame.lines.try_emplace(text, at.line);
  if (!is_new) {
    const std::string shown = abbreviated(text, 60);
    fail_parse(at, at.line == 0
                       ? fmt::format("duplicate key \"{}\"", shown)
                       : fmt::format("duplicate key \"{}\", first on line {} and again on line {}",
                                     shown, first->second, at.line));
  }
  frame.node.entries.push_back({std::move(text), std::move(at), {}});
  frame.has_key = true;
}

void TreeBuilder::leaf(Node node) {
  count_node(node.at);
  place(std::move(node));
}

const Node& TreeBuilder::last() const {
  if (frames_.empty()) return *root_;
  const Node& parent = frames_.back().node;
  return parent.is_map() ? parent.entries.back().value : parent.items.back();
}

void TreeBuilder::count_node(const Location& at) {
  if (++nodes_ > kMaxNodes) fail_parse(at, fmt::format("more than {} values", kMaxNodes));
}

void TreeBuilder::place(Node node) {
  if (frames_.empty()) {
    root_ = std::move(node);
    return;
  }
  Frame& frame = frames_.back();
  if (frame.node.is_map()) {
    frame.node.entries.back().value = std::move(node);
    frame.has_key = false;
  } else {
    frame.node.items.push_back(std::move(node));
  }
}

}  // namespace zenflow
