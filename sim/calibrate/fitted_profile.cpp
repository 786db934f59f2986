#include "sim/calibrate/fitted_profile.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "sim/report/table.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kInline = static_cast<std::size_t>(-1);

Node scalar(std::string text, bool quoted) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.scalar = std::move(text);
  node.quoted = quoted;
  return node;
}

Node& child(Node& map, const std::string& key) {
  if (Node* found = map.find(key)) return *found;
  map.kind = Node::Kind::kMap;
  map.entries.push_back({key, {}, {}});
  return map.entries.back().value;
}

Node& at_path(Node& root, std::string_view path) {
  Node* node = &root;
  while (true) {
    const std::size_t dot = path.find('.');
    node = &child(*node, std::string(path.substr(0, dot)));
    if (dot == path.npos) return *node;
    path.remove_prefix(dot + 1);
  }
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' || c == '\t' ? ' ' : c;
  }
  return out + "\"";
}

/// Maps down to the numbers as blocks, the numbers themselves on one line.
void print(const Node& node, std::size_t depth, std::string& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kScalar:
      out += node.quoted || node.scalar.find_first_of(":#{}[],&*!|>'\"%@`") != node.scalar.npos
                 ? quoted(node.scalar)
                 : node.scalar;
      return;
    case Node::Kind::kSequence:
      out += "[";
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        if (i > 0) out += ", ";
        print(node.items[i], kInline, out);
      }
      out += "]";
      return;
    case Node::Kind::kMap:
      break;
  }
  if (depth == kInline || node.find("value") != nullptr) {
    out += "{";
    for (std::size_t i = 0; i < node.entries.size(); ++i) {
      out += fmt::format("{}{}: ", i > 0 ? ", " : "", node.entries[i].key);
      print(node.entries[i].value, kInline, out);
    }
    out += "}";
    return;
  }
  for (const Node::Entry& entry : node.entries) {
    if (depth > 0 || &entry != &node.entries.front()) out += "\n";
    out += std::string(2 * depth, ' ') + entry.key + ": ";
    if (out.ends_with(": ") && entry.value.is_map() && entry.value.find("value") == nullptr) {
      out.pop_back();
    }
    print(entry.value, depth + 1, out);
  }
}

std::string source_of(const FittedNumber& number, const std::string& origin) {
  if (!number.fitted) {
    return fmt::format("follows from numbers fitted to {}: so that the rates hold", origin);
  }
  return fmt::format("fitted to {}: {} samples{}{}; standard error {:.2g}{}{}, residual {:.1f} %",
                     origin, number.samples, number.range.empty() ? "" : ", ", number.range,
                     number.standard_error, number.unit.empty() ? "" : " ", number.unit,
                     100 * number.residual);
}

}  // namespace

std::string fitted_profile_text(const Node& base, const std::vector<FittedNumber>& numbers,
                                const std::string& name, const std::string& origin) {
  Node root = base;
  child(root, "name") = scalar(name, true);
  child(root, "description") = scalar("fitted to " + origin, true);
  for (const FittedNumber& number : numbers) {
    if (!number.fitted && !number.adjusted) continue;
    Node& entry = at_path(root, number.path);
    entry = {};
    child(entry, "value") =
        scalar(fmt::format("{:.6g}{}{}", number.value, number.unit.empty() ? "" : " ", number.unit),
               false);
    if (number.fitted && number.value > 0) {
      const double relative = std::min(1.0, number.standard_error / number.value);
      child(entry, "relative_error") = scalar(fmt::format("{:.4g}", relative), false);
    }
    child(entry, "source") = scalar(source_of(number, origin), true);
  }
  std::string out;
  print(root, 0, out);
  return out + "\n";
}

std::string fitted_table(const std::vector<FittedNumber>& numbers, bool bold) {
  const std::vector<std::string> header = {"number",  "value",    "",     "standard error",
                                           "samples", "residual", "range"};
  std::vector<std::vector<std::string>> rows;
  for (const FittedNumber& one : numbers) {
    rows.push_back({one.path, fmt::format("{:.4g} {}", one.value, one.unit),
                    one.fitted     ? "fitted"
                    : one.adjusted ? "adjusted"
                                   : "as before",
                    one.fitted ? fmt::format("{:.2g}", one.standard_error) : "",
                    one.fitted ? std::to_string(one.samples) : "",
                    one.fitted ? fmt::format("{:.1f} %", 100 * one.residual) : "",
                    one.fitted ? one.range : one.reason});
  }
  return format_table(header, rows, bold);
}

}  // namespace zenflow::sim
