#include "sim/deepspeed/ds_document.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/config/hjson_text.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

std::string json_string(std::string_view text) {
  return halves_escaped(json_quoted(text));
}

std::string scalar_text(const Node& node) {
  const bool literal =
      node.scalar == "true" || node.scalar == "false" ||
      (!node.scalar.empty() && json_number_length(node.scalar) == node.scalar.size());
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

/// JSON on one line.
std::string line_of(const Node& node) {
  std::vector<std::string> parts;
  if (node.is_map()) {
    for (const Node::Entry& entry : node.entries) {
      parts.push_back(json_string(entry.key) + ": " + line_of(entry.value));
    }
    return fmt::format("{{{}}}", fmt::join(parts, ", "));
  }
  if (node.kind == Node::Kind::kSequence) {
    for (const Node& item : node.items) parts.push_back(line_of(item));
    return fmt::format("[{}]", fmt::join(parts, ", "));
  }
  return node.is_scalar() ? scalar_text(node) : "null";
}

void add_differences(const Node& from, const Node& to, std::vector<std::string>& path,
                     std::vector<Edit>& edits) {
  for (const Node::Entry& entry : from.entries) {
    path.push_back(entry.key);
    const Node* now = to.find(entry.key);
    if (now == nullptr) {
      edits.push_back({path, std::nullopt});
    } else if (entry.value.is_map() && now->is_map()) {
      add_differences(entry.value, *now, path, edits);
    } else if (std::string line = line_of(*now); line != line_of(entry.value)) {
      edits.push_back({path, std::move(line)});
    }
    path.pop_back();
  }
  for (const Node::Entry& entry : to.entries) {
    if (from.find(entry.key) != nullptr) continue;
    path.push_back(entry.key);
    edits.push_back({path, line_of(entry.value)});
    path.pop_back();
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

std::size_t count_values(const Node& node) {
  std::size_t count = 1;
  for (const Node& item : node.items) count += count_values(item);
  for (const Node::Entry& entry : node.entries) count += count_values(entry.value);
  return count;
}

}  // namespace

DsDocument parse_ds_document(std::string_view text, const std::string& file) {
  DsDocument document = parse_hjson(text, file);
  // DeepSpeed knows some hundreds. Each that it does not know is looked for among those.
  constexpr std::size_t kMostSettings = 10'000;
  if (const std::size_t settings = count_values(document.root); settings > kMostSettings) {
    fail_at(document.root.at, "",
            fmt::format("expected a DeepSpeed configuration of at most {} values, found {}",
                        kMostSettings, settings));
  }
  if (!document.root.is_map()) {
    fail_at(document.root.at, "", "expected a DeepSpeed configuration, a JSON object");
  }
  return document;
}

DsDocument load_ds_document(const std::filesystem::path& path) {
  return parse_ds_document(read_text_file(path), path.string());
}

const Node* find_path(const Node& root, std::string_view path) {
  const Node* node = &root;
  while (node != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    node = node->is_map() ? node->find(path.substr(0, dot)) : nullptr;
    path.remove_prefix(std::min(path.size(), dot + 1));
  }
  return node;
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
  // As files are read: what a file holds may be moved, a number of 400 digits for one.
  DsDocument written = parse_hjson("{\"\": " + *edit.json + "}", joined(edit.path));
  *node = std::move(written.root.entries.at(0).value);
  node->at = std::move(at);
}

std::vector<Edit> differences(const Node& from, const Node& to) {
  std::vector<Edit> edits;
  std::vector<std::string> path;
  add_differences(from, to, path, edits);
  return edits;
}

std::string describe(const Edit& edit) {
  const std::string path = halves_escaped(joined(edit.path));
  return edit.json ? path + " = " + *edit.json : path + " removed";
}

}  // namespace zenflow::sim
