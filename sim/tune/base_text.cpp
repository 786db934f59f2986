#include "sim/tune/base_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/deepspeed/ds_document.h"

namespace zenflow::sim {
namespace {

/// Where a value stands, and those in it.
struct Span {
  struct Entry;
  std::size_t begin = 0;
  std::size_t end = 0;
  std::vector<Entry> entries;  ///< of a map
};
struct Span::Entry {
  std::size_t key_begin = 0;
  Span value;
  std::size_t separator = 0;  ///< the comma after it, or the closing brace
};

/// Finds the spans of a text that is known to be JSON with comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  Span value() {
    skip();
    Span span;
    span.begin = at_;
    switch (peek()) {
      case '{':
        map(span);
        break;
      case '[':
        list();
        break;
      case '"':
        string();
        break;
      default:
        word();
    }
    span.end = at_;
    return span;
  }

 private:
  [[nodiscard]] char peek() const {
    if (at_ >= text_.size()) throw Error(ErrorKind::kRuntime, "base text: ends too early");
    return text_[at_];
  }
  [[nodiscard]] bool starts(std::string_view what) const {
    return text_.substr(at_).starts_with(what);
  }

  void skip() {
    while (at_ < text_.size()) {
      if (std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) {
        ++at_;
      } else if (starts("//") || starts("#")) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (starts("/*")) {
        at_ = text_.find("*/", at_ + 2) + 2;
      } else {
        return;
      }
    }
  }

  void string() {
    for (++at_; peek() != '"'; ++at_) {
      if (peek() == '\\') ++at_;
    }
    ++at_;
  }

  void word() {
    while (at_ < text_.size() &&
           std::string_view(",]} \t\r\n#/").find(text_[at_]) == std::string_view::npos) {
      ++at_;
    }
  }

  void list() {
    ++at_;
    for (skip(); peek() != ']'; skip()) {
      static_cast<void>(value());
      skip();
      if (peek() == ',') ++at_;
    }
    ++at_;
  }

  void map(Span& span) {
    ++at_;
    for (skip(); peek() != '}'; skip()) {
      Span::Entry& entry = span.entries.emplace_back();
      entry.key_begin = at_;
      string();
      skip();
      ++at_;  // the colon
      entry.value = value();
      skip();
      entry.separator = at_;
      if (peek() == ',') ++at_;
    }
    ++at_;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

bool same(const Node& a, const Node& b) {
  if (a.kind != b.kind || a.scalar != b.scalar || a.quoted != b.quoted) return false;
  if (a.items.size() != b.items.size() || a.entries.size() != b.entries.size()) return false;
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    if (!same(a.items[i], b.items[i])) return false;
  }
  for (std::size_t i = 0; i < a.entries.size(); ++i) {
    if (a.entries[i].key != b.entries[i].key) return false;
    if (!same(a.entries[i].value, b.entries[i].value)) return false;
  }
  return true;
}

std::string_view trailing_space(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return last == std::string_view::npos ? text : text.substr(last + 1);
}

/// A comment to the end of its line needs the line's end before what follows it.
std::string ended(std::string comment, std::string_view next) {
  const bool to_the_end = !comment.empty() && !comment.ends_with("*/");
  const bool breaks = next.starts_with('\n') || next.starts_with("\r\n");
  return to_the_end && !breaks ? comment + "\n" : comment;
}

/// What stands before a key on its line, if it begins one: a line break and the indent.
std::string line_start(std::string_view before) {
  const std::size_t newline = before.rfind('\n');
  if (newline == std::string_view::npos) return before.empty() ? "" : " ";
  const std::string_view indent = trailing_space(before.substr(newline + 1));
  const bool carriage = newline > 0 && before[newline - 1] == '\r';
  return (carriage ? "\r\n" : "\n") + std::string(indent);
}

/// A value as JSON whose further lines have the indent of its place.
std::string rendered(const Node& value, const std::string& line) {
  Node holder;
  holder.kind = Node::Kind::kMap;
  holder.entries.push_back({"k", {}, value});
  std::string text = render_json(holder);  // {\n  "k": VALUE\n}\n
  text = text.substr(9, text.size() - 9 - 3);
  // VALUE's further lines are indented for depth 1; take that off and put the place's own on.
  const bool single = line.find('\n') == std::string::npos;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') {
      out += text[i];
      continue;
    }
    out += single ? std::string(" ") : line;
    i += 2;
    if (single) {
      while (i + 1 < text.size() && text[i + 1] == ' ') ++i;
    }
  }
  return out;
}

std::string key_text(const std::string& key) {
  Node holder;
  holder.kind = Node::Kind::kMap;
  Node null;
  holder.entries.push_back({key, {}, null});
  const std::string text = render_json(holder);  // {\n  "key": null\n}\n
  return text.substr(4, text.size() - 4 - 9);
}

class Patcher {
 public:
  explicit Patcher(std::string_view text) : text_(text) {}

  std::string value(const Span& span, const Node& old, const Node& wanted,
                    const std::string& line) const {
    if (same(old, wanted)) return std::string(part(span.begin, span.end));
    const bool maps = old.is_map() && wanted.is_map();
    return maps && !old.entries.empty() ? map(span, old, wanted) : rendered(wanted, line);
  }

 private:
  [[nodiscard]] std::string_view part(std::size_t from, std::size_t to) const {
    return text_.substr(from, to - from);
  }

  /// A comment on the line of the comma before a key is about the key before it.
  static std::string_view of_line_before(std::string_view before) {
    bool comment = false;
    std::size_t at = 0;
    while (at < before.size() && before[at] != '\n') {
      const std::string_view rest = before.substr(at);
      if (rest.starts_with("/*")) {
        at = before.find("*/", at + 2) + 2;
        comment = true;
      } else if (rest.starts_with("//") || rest.starts_with("#")) {
        at = std::min(before.find('\n', at), before.size());
        comment = true;
      } else {
        ++at;
      }
    }
    return before.substr(0, comment ? at : 0);
  }

  /// As the first key stands; on one line as the second does, or behind a space.
  [[nodiscard]] std::string line_of_added(const Span& span) const {
    const std::vector<Span::Entry>& entries = span.entries;
    const std::string line = line_start(part(span.begin + 1, entries.front().key_begin));
    if (!line.empty()) return line;
    if (entries.size() == 1) return " ";
    return line_start(part(entries[0].separator + 1, entries[1].key_begin));
  }

  std::string map(const Span& span, const Node& old, const Node& wanted) const {
    std::string out = "{";
    std::string carried;  // comments that outlive a removed key
    bool any = false;
    bool before_is_kept = true;
    std::size_t from = span.begin + 1;
    for (std::size_t i = 0; i < span.entries.size(); ++i) {
      const Span::Entry& entry = span.entries[i];
      std::string_view before = part(from, entry.key_begin);
      const std::string_view about_before = i > 0 ? of_line_before(before) : before.substr(0, 0);
      if (!before_is_kept) before.remove_prefix(about_before.size());
      const bool last = i + 1 == span.entries.size();
      from = last ? span.end - 1 : entry.separator + 1;
      const Node* now = wanted.find(old.entries[i].key);
      if (now == nullptr) {
        if (before_is_kept) carried += about_before;
        before_is_kept = false;
        continue;
      }
      before_is_kept = true;
      out += (any ? "," : "") + ended(std::exchange(carried, {}), before);
      out += before;
      out += part(entry.key_begin, entry.value.begin);
      out += value(entry.value, old.entries[i].value, *now, line_start(before));
      if (!last) out += part(entry.value.end, entry.separator);
      any = true;
    }
    const Span::Entry& last = span.entries.back();
    const std::string_view end = part(last.value.end, span.end - 1);
    const std::string_view closing = trailing_space(end);
    // A comment behind the last value stays there, and the comma of what follows goes before it.
    const bool keeps_last = wanted.find(old.entries.back().key) != nullptr;
    std::string rest = std::exchange(carried, {});
    if (keeps_last) rest += end.substr(0, end.size() - closing.size());
    const std::string line = line_of_added(span);
    for (const Node::Entry& entry : wanted.entries) {
      if (old.find(entry.key) != nullptr) continue;
      out += (any ? "," : "") + ended(std::exchange(rest, {}), line);
      out += line + key_text(entry.key) + ": " + rendered(entry.value, line);
      any = true;
    }
    return out + ended(rest, closing) + std::string(closing) + "}";
  }

  std::string_view text_;
};

}  // namespace

EditedText edit_text(std::string_view text, const std::string& file, const Node& wanted,
                     bool comments) {
  const DsDocument document = parse_ds_document(text, file);
  if (!document.uses.empty()) {
    return {render_json(wanted), false,
            "it is Hjson; written anew as strict JSON, without comments"};
  }
  if (!comments && !document.comments.empty()) {
    return {render_json(wanted), false,
            "it has comments, which the launcher cannot read; written anew without them"};
  }
  const Span root = Scanner(text).value();
  std::string out(text.substr(0, root.begin));
  out += Patcher(text).value(root, document.root, wanted, "\n");
  out += text.substr(root.end);
  return {std::move(out), true, ""};
}

}  // namespace zenflow::sim
