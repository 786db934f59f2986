#include "sim/calibrate/fitted_profile.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/table.h"
#include "sim/base/text.h"

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

/// The items of a list that "[0,2]" names; of "" all.
std::vector<Node*> items_of(Node& list, std::string_view which) {
  std::vector<Node*> found;
  if (which.empty()) {
    for (Node& item : list.items) found.push_back(&item);
  }
  while (!which.empty()) {
    which.remove_prefix(1);
    std::size_t place = 0;
    const char* end = std::from_chars(which.data(), which.data() + which.size(), place).ptr;
    found.push_back(&list.items.at(place));
    which.remove_prefix(static_cast<std::size_t>(end - which.data()));
    if (which == "]") break;
  }
  return found;
}

/// Sets what is at `path`, "host_link.switches[0,2].h2d", in each of the items.
void set_at(Node& root, std::string_view path, const Node& to) {
  if (path.empty()) {
    root = to;
    return;
  }
  const std::string_view part = path.substr(0, path.find('.'));
  const std::string_view rest = path.substr(std::min(path.size(), part.size() + 1));
  const std::string_view key = part.substr(0, part.find('['));
  Node& node = child(root, std::string(key));
  if (node.kind != Node::Kind::kSequence) return set_at(node, rest, to);
  for (Node* item : items_of(node, part.substr(key.size()))) set_at(*item, rest, to);
}

/// Where YAML would read something else, or a terminal would obey it.
bool needs_quotes(const Node& node) {
  const std::string& text = node.scalar;
  return node.quoted || text.find_first_of(":#{}[],&*!|>'\"%@`") != text.npos ||
         printable_name(text) != text;
}

/// Maps down to the numbers as blocks, the numbers themselves on one line.
void print(const Node& node, std::size_t depth, std::string& out) {
  switch (node.kind) {
    case Node::Kind::kNull:
      out += "null";
      return;
    case Node::Kind::kScalar:
      out += needs_quotes(node) ? json_quoted(node.scalar) : node.scalar;
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

/// What of the samples counts for little or nothing.
std::string doubts_of(const FittedNumber& number) {
  std::string text;
  if (number.damped > 0) text += fmt::format(" ({} damped)", number.damped);
  if (number.set_aside > 0) text += fmt::format(", {} outliers set aside", number.set_aside);
  return text;
}

/// Words in lines of readable length.
std::string wrapped(const std::vector<std::string>& words) {
  constexpr std::size_t kWidth = 96;
  const std::string indent(4, ' ');
  std::string text;
  std::string line = indent;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string word = words[i] + (i + 1 < words.size() ? ", " : "");
    if (line.size() > indent.size() && line.size() + word.size() > kWidth) {
      line.pop_back();
      text += line + "\n";
      line = indent;
    }
    line += word;
  }
  return text + line + "\n";
}

std::string source_of(const FittedNumber& number, const std::string& origin) {
  if (!number.fitted && !number.reason.empty()) {
    return fmt::format("not identified by {}: {}", origin, number.reason);
  }
  if (!number.fitted) {
    return fmt::format("follows from numbers fitted to {}: so that the rates hold", origin);
  }
  return fmt::format("fitted to {}: {} samples{}{}{}; standard error {:.2g}{}{}, residual {:.1f} %",
                     origin, number.samples, doubts_of(number), number.range.empty() ? "" : ", ",
                     number.range, number.standard_error, number.unit.empty() ? "" : " ",
                     number.unit, 100 * number.residual);
}

/// What a YAML comment may hold.
std::string comment(const std::string& text) {
  std::string line = "# ";
  for (const char c : text) line += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  return line + "\n";
}

/// The numbers that stay, by the reason for which they do, in the order of their first.
std::string as_before(const std::vector<FittedNumber>& numbers) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const FittedNumber& one : numbers) {
    if (one.fitted || one.adjusted) continue;
    const std::string reason =
        one.reason.empty() ? "nothing in the traces depends on it" : one.reason;
    auto found = std::find_if(reasons.begin(), reasons.end(),
                              [&](const auto& known) { return known.first == reason; });
    if (found == reasons.end()) found = reasons.insert(found, {reason, {}});
    found->second.push_back(one.path);
  }
  if (reasons.empty()) return "";
  std::string text = "\nAs the base profile has them:\n";
  for (const auto& [reason, paths] : reasons) {
    text += fmt::format("  {}:\n{}", reason, wrapped(paths));
  }
  return text;
}

}  // namespace

std::string fitted_profile_text(const Node& base, const std::vector<FittedNumber>& numbers,
                                const std::string& name, const std::string& origin,
                                const std::vector<std::string>& remarks) {
  Node root = base;
  child(root, "name") = scalar(name, true);
  child(root, "description") = scalar("fitted to " + origin, true);
  for (const FittedNumber& number : numbers) {
    if (!number.fitted && !number.adjusted) continue;
    Node entry;
    child(entry, "value") =
        scalar(fmt::format("{:.6g}{}{}", number.value, number.unit.empty() ? "" : " ", number.unit),
               false);
    if (number.fitted && number.value > 0) {
      const double relative = std::min(1.0, number.standard_error / number.value);
      child(entry, "relative_error") = scalar(fmt::format("{:.4g}", relative), false);
    }
    child(entry, "source") = scalar(source_of(number, origin), true);
    set_at(root, number.path, entry);
  }
  std::string out;
  for (const std::string& remark : remarks) out += comment(remark);
  print(root, 0, out);
  return out + "\n";
}

std::string fitted_table(const std::vector<FittedNumber>& numbers, bool bold) {
  const std::vector<std::string> header = {"number",         "value",    "",
                                           "standard error", "samples",  "damped",
                                           "set aside",      "residual", "range"};
  std::vector<std::vector<std::string>> rows;
  for (const FittedNumber& one : numbers) {
    if (!one.fitted && !one.adjusted) continue;
    const auto if_fitted = [&](std::string text) { return one.fitted ? std::move(text) : ""; };
    rows.push_back({one.path, fmt::format("{:.4g} {}", one.value, one.unit),
                    one.fitted ? "fitted" : "adjusted",
                    if_fitted(fmt::format("{:.2g}", one.standard_error)),
                    if_fitted(std::to_string(one.samples)), if_fitted(std::to_string(one.damped)),
                    if_fitted(std::to_string(one.set_aside)),
                    if_fitted(fmt::format("{:.1f} %", 100 * one.residual)), if_fitted(one.range)});
  }
  return format_table(header, rows, bold) + as_before(numbers);
}

}  // namespace zenflow::sim
