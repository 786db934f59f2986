#include "sim/deepspeed/ds_document.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

/// What is no JSON may still be Hjson, so nothing is said of DeepSpeed.
constexpr std::string_view kNotJson =
    "; expected JSON, comments allowed. DeepSpeed reads Hjson and may accept this, other tools "
    "will not";

/// Replaces comments by spaces, so that every other character keeps its place.
class CommentEraser {
 public:
  CommentEraser(std::string_view text, const std::string& file)
      : text_(text), file_(std::make_shared<const std::string>(file)) {}

  std::string run() {
    while (position_ < text_.size()) {
      const std::string_view rest = std::string_view(text_).substr(position_);
      if (rest[0] == '"') {
        skip_string();
      } else if (rest[0] == '#' || rest.starts_with("//")) {
        blank_to(text_.find_first_of("\r\n", position_));  // Python reads either as a line's end
      } else if (rest.starts_with("/*")) {
        blank_block();
      } else {
        advance();
      }
    }
    return std::move(text_);
  }
  std::vector<Location> comments;

 private:
  void advance() {
    if (text_[position_] == '\n') {
      ++line_;
      line_start_ = position_ + 1;
    }
    ++position_;
  }
  [[nodiscard]] Location here() const {
    return {file_, line_, static_cast<int>(position_ - line_start_) + 1};
  }
  void skip_string() {
    advance();
    // A string that runs over the line's end is the parser's to complain about.
    while (position_ < text_.size() && text_[position_] != '"' && text_[position_] != '\n') {
      if (text_[position_] == '\\' && position_ + 1 < text_.size()) advance();
      advance();
    }
    if (position_ < text_.size()) advance();
  }
  void blank_to(std::size_t end) {
    comments.push_back(here());
    end = std::min(end, text_.size());
    for (; position_ < end; advance()) {
      if (text_[position_] != '\n' && text_[position_] != '\r') text_[position_] = ' ';
    }
  }
  void blank_block() {
    const std::size_t end = text_.find("*/", position_ + 2);
    if (end == std::string::npos) fail_at(here(), "", "expected */ after this /*, found the end");
    blank_to(end + 2);
  }

  std::string text_;
  std::shared_ptr<const std::string> file_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
};

/// RFC 8259: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view text) {
  const auto digits = [&text] {
    const std::size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(count);
    return count;
  };
  if (text.starts_with('-')) text.remove_prefix(1);
  const bool leading_zero = text.starts_with('0');
  const std::size_t whole = digits();
  if (whole == 0 || (leading_zero && whole > 1)) return false;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  if (text.starts_with('e') || text.starts_with('E')) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (digits() == 0) return false;
  }
  return text.empty();
}

std::string json_string(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20U) {
          out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
        } else {
          out += c;
        }
    }
  }
  return out + "\"";
}

std::string scalar_text(const Node& node) {
  const bool literal =
      node.scalar == "true" || node.scalar == "false" || is_json_number(node.scalar);
  return !node.quoted && literal ? node.scalar : json_string(node.scalar);
}

void render(const Node& node, std::size_t depth, std::string& out);

void render_items(const Node& node, std::size_t depth, std::string& out) {
  const bool inline_list = std::none_of(node.items.begin(), node.items.end(), [](const Node& item) {
    return item.is_map() || item.kind == Node::Kind::kSequence;
  });
  const std::string indent(2 * (depth + 1), ' ');
  out += '[';
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (i > 0) out += inline_list ? ", " : ",";
    if (!inline_list) out += "\n" + indent;
    render(node.items[i], depth + 1, out);
  }
  if (!inline_list) out += "\n" + std::string(2 * depth, ' ');
  out += ']';
}

void render_entries(const Node& node, std::size_t depth, std::string& out) {
  out += '{';
  for (std::size_t i = 0; i < node.entries.size(); ++i) {
    out += i > 0 ? ",\n" : "\n";
    out += std::string(2 * (depth + 1), ' ') + json_string(node.entries[i].key) + ": ";
    render(node.entries[i].value, depth + 1, out);
  }
  if (!node.entries.empty()) out += "\n" + std::string(2 * depth, ' ');
  out += '}';
}

void render(const Node& node, std::size_t depth, std::string& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kScalar:
      out += scalar_text(node);
      return;
    case Node::Kind::kSequence:
      render_items(node, depth, out);
      return;
    case Node::Kind::kMap:
      render_entries(node, depth, out);
      return;
  }
}

std::string joined(const std::vector<std::string>& path) {
  return fmt::format("{}", fmt::join(path, "."));
}

std::vector<std::string> split(std::string_view path) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    parts.emplace_back(path.substr(0, dot));
    if (dot == path.size()) return parts;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

DsDocument parse_ds_document(std::string_view text, const std::string& file) {
  check_utf8(text, file);  // comments too
  CommentEraser eraser(text, file);
  DsDocument document;
  document.root = parse_json(eraser.run(), file, kNotJson);
  document.comments = std::move(eraser.comments);
  if (!document.root.is_map()) {
    fail_at(document.root.at, "", "expected a DeepSpeed configuration, a JSON object");
  }
  return document;
}

DsDocument load_ds_document(const std::filesystem::path& path) {
  return parse_ds_document(read_text_file(path), path.string());
}

std::string render_json(const Node& root) {
  std::string out;
  render(root, 0, out);
  return out + "\n";
}

Edit set_key(std::string_view path, std::string json) {
  return {split(path), std::move(json)};
}

Edit erase_key(std::string_view path) {
  return {split(path), std::nullopt};
}

void apply_edit(Node& root, const Edit& edit) {
  Node* node = &root;
  for (std::size_t i = 0; i < edit.path.size(); ++i) {
    if (node->kind == Node::Kind::kNull && edit.json) node->kind = Node::Kind::kMap;
    if (!node->is_map()) {
      if (!edit.json) return;
      fail_at(node->at, joined(edit.path), "cannot be set: its parent is not a map");
    }
    const std::string& key = edit.path[i];
    if (!edit.json && i + 1 == edit.path.size()) {
      std::erase_if(node->entries, [&key](const Node::Entry& entry) { return entry.key == key; });
      return;
    }
    Node* child = node->find(key);
    if (child == nullptr) {
      if (!edit.json) return;
      child = &node->entries.emplace_back(Node::Entry{key, node->at, {}}).value;
      child->at = node->at;
    }
    node = child;
  }
  if (!edit.json) return;
  Location at = node->at;
  *node = parse_json(*edit.json, joined(edit.path));
  node->at = std::move(at);
}

std::string describe(const Edit& edit) {
  return edit.json ? joined(edit.path) + " = " + *edit.json : joined(edit.path) + " removed";
}

}  // namespace zenflow::sim
