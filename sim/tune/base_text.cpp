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

constexpr std::string_view kBreaks = "\r\n";
constexpr std::string_view kSpaces = " \t\r\n";

/// Where the comment that begins at `at` ends, a line's before its break; `at` if none begins
/// there.
std::size_t comment_end(std::string_view text, std::size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("/*")) return std::min(text.find("*/", at + 2), text.size() - 2) + 2;
  if (!rest.starts_with("//") && !rest.starts_with("#")) return at;
  return std::min(text.find_first_of(kBreaks, at), text.size());
}

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

  void skip() {
    while (at_ < text_.size()) {
      const std::size_t end = comment_end(text_, at_);
      if (end == at_ && kSpaces.find(text_[at_]) == std::string_view::npos) return;
      at_ = std::max(end, at_ + 1);
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
  const std::size_t last = text.find_last_not_of(kSpaces);
  return last == std::string_view::npos ? text : text.substr(last + 1);
}

/// The line break at `at`, which is one of its characters, the last.
std::string break_at(std::string_view text, std::size_t at) {
  const bool both = text[at] == '\n' && at > 0 && text[at - 1] == '\r';
  return both ? "\r\n" : std::string(1, text[at]);
}

/// What ends lines of the text, as its first one is.
std::string break_of(std::string_view text) {
  std::size_t at = text.find_first_of(kBreaks);
  if (at == std::string_view::npos) return "\n";
  if (text.substr(at).starts_with("\r\n")) ++at;
  return break_at(text, at);
}

/// Whether spaces and comments end in a comment that reaches to the end of its line.
bool ends_in_line_comment(std::string_view text) {
  bool is_open = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = comment_end(text, at);
    is_open = end == text.size() && end > at && !text.substr(at).starts_with("/*");
    at = std::max(end, at + 1);
  }
  return is_open;
}

/// What stands before a key on its line, if it begins one: a line break and the indent.
std::string line_start(std::string_view before) {
  const std::size_t newline = before.find_last_of(kBreaks);
  if (newline == std::string_view::npos) return before.empty() ? "" : " ";
  return break_at(before, newline) + std::string(trailing_space(before.substr(newline + 1)));
}

/// A value as JSON whose further lines have the indent of its place.
std::string rendered(const Node& value, const std::string& line) {
  Node holder;
  holder.kind = Node::Kind::kMap;
  holder.entries.push_back({"k", {}, value});
  std::string text = render_json(holder);  // {\n  "k": VALUE\n}\n
  text = text.substr(9, text.size() - 9 - 3);
  // VALUE's further lines are indented for depth 1; take that off and put the place's own on.
  const bool single = line.find_first_of(kBreaks) == std::string::npos;
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
  explicit Patcher(std::string_view text) : text_(text), break_(break_of(text)) {}

  std::string value(const Span& span, const Node& old, const Node& wanted,
                    const std::string& line) const {
    if (same(old, wanted)) return std::string(part(span.begin, span.end));
    const bool maps = old.is_map() && wanted.is_map();
    if (!maps) return rendered(wanted, line);
    return old.entries.empty() ? filled(span, wanted, line) : map(span, old, wanted);
  }

 private:
  [[nodiscard]] std::string_view part(std::size_t from, std::size_t to) const {
    return text_.substr(from, to - from);
  }

  /// A comment on the line of the comma before a key is about the key before it.
  static std::string_view of_line_before(std::string_view before) {
    std::size_t last = 0;
    std::size_t at = 0;
    while (at < before.size() && kBreaks.find(before[at]) == std::string_view::npos) {
      const std::size_t end = comment_end(before, at);
      if (end > at) last = end;
      at = std::max(end, at + 1);
    }
    return before.substr(0, last);
  }

  /// A comment to the end of its line needs the line's end before what follows it.
  [[nodiscard]] std::string ended(std::string comment, std::string_view next) const {
    const std::size_t first = next.find_first_not_of(" \t");
    const bool breaks =
        first != std::string_view::npos && kBreaks.find(next[first]) != std::string_view::npos;
    return ends_in_line_comment(comment) && !breaks ? comment + break_ : comment;
  }

  /// As the first key stands; on one line as the second does, or behind a space.
  [[nodiscard]] std::string line_of_added(const Span& span) const {
    const std::vector<Span::Entry>& entries = span.entries;
    const std::string line = line_start(part(span.begin + 1, entries.front().key_begin));
    if (!line.empty()) return line;
    if (entries.size() == 1) return " ";
    return line_start(part(entries[0].separator + 1, entries[1].key_begin));
  }

  /// A block that has comments at most: they stay, and what it is to have follows them.
  std::string filled(const Span& span, const Node& wanted, const std::string& outer) const {
    const std::string_view inside = part(span.begin + 1, span.end - 1);
    const std::size_t comment = inside.find_first_not_of(kSpaces);
    if (comment == std::string_view::npos) return rendered(wanted, outer);
    const auto breaks = [](std::string_view one) {
      return one.find_first_of(kBreaks) != std::string_view::npos;
    };
    std::string line = " ";
    if (breaks(inside.substr(0, comment))) {
      line = line_start(inside.substr(0, comment));
    } else if (breaks(inside)) {
      line = (breaks(outer) ? outer : break_) + "  ";
    }
    const std::string_view closing = trailing_space(inside);
    std::string out =
        "{" + ended(std::string(inside.substr(0, inside.size() - closing.size())), line);
    bool any = false;
    for (const Node::Entry& entry : wanted.entries) {
      out += (any ? "," : "") + line + key_text(entry.key) + ": " + rendered(entry.value, line);
      any = true;
    }
    return out + std::string(closing) + "}";
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
  std::string break_;  ///< of its lines
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
  out += Patcher(text).value(root, document.root, wanted, break_of(text));
  out += text.substr(root.end);
  return {std::move(out), true, ""};
}

}  // namespace zenflow::sim
