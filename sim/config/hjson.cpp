#include "sim/config/hjson.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/text.h"
#include "sim/config/hjson_text.h"
#include "sim/config/tree_builder.h"

namespace zenflow {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr std::string_view kPunctuation = "{}[],:";
constexpr std::string_view kBlanks = " \t\r\n";
/// Of people: what they write by hand is a thousandth of it.
constexpr std::size_t kMostBytes = std::size_t{8} << 20U;
/// Comments and uses that are listed; of a text that has more these are said.
constexpr std::size_t kMostListed = 1000;

/// A recursive descent as deep as the tree may be. Every step follows hjson/decoder.py, whose
/// function it names.
class HjsonParser {
 public:
  HjsonParser(std::string_view text, const std::string& file)
      : text_(text), file_(std::make_shared<const std::string>(file)) {}

  HjsonDocument run() {
    if (text_.size() > kMostBytes) {
      fail_parse({file_, 0, 0}, "cannot read: a text of settings is larger than 8 MiB");
    }
    check_characters(text_, file_);
    for (std::size_t i = 0; i < text_.size(); ++i) {
      if (text_[i] == '\n') line_starts_.push_back(i + 1);
    }
    if (text_.starts_with(kByteOrderMark)) {
      use(HjsonFeature::kByteOrderMark, 0);
      end_ = kByteOrderMark.size();
    }
    skip();
    if (at_end()) fail_parse({file_, 0, 0}, "expected settings, found an empty file");
    if (peek() == '{' || peek() == '[') {
      value();
      skip();
      if (!at_end()) refuse("expected the end of the file");
    } else {
      use(HjsonFeature::kNoBraces, end_);
      object(false);
    }
    document_.root = *tree_.take();
    return std::move(document_);
  }

 private:
  [[nodiscard]] bool at_end() const { return end_ >= text_.size(); }
  [[nodiscard]] char peek() const { return at_end() ? '\0' : text_[end_]; }
  [[nodiscard]] std::string_view rest() const { return text_.substr(end_); }
  [[nodiscard]] Location at(std::size_t offset) const {
    const auto next = std::upper_bound(line_starts_.begin(), line_starts_.end(), offset);
    const std::size_t start = *std::prev(next);
    return {file_, static_cast<int>(next - line_starts_.begin()),
            static_cast<int>(offset - start) + 1};
  }
  void use(HjsonFeature feature, std::size_t offset, std::string text = {}) {
    if (document_.uses.size() < kMostListed) {
      document_.uses.push_back({feature, at(offset), std::move(text)});
    }
  }

  /// "EXPECTED, found ..." at the current place.
  [[noreturn]] void refuse(const std::string& expected) const {
    if (!at_end()) {
      const std::string_view line = rest().substr(0, rest().find('\n'));
      fail_parse(at(end_), fmt::format("not valid JSON or Hjson: {}, found \"{}\"", expected,
                                       abbreviated(line, 20)));
    }
    std::string what = fmt::format("not valid JSON or Hjson: {}, found the end", expected);
    if (unquoted_) {
      const Location text = at(*unquoted_);
      what += fmt::format(" (the text without quotes at {}:{} takes the rest of its line)",
                          text.line, text.column);
    }
    fail_parse(at(text_.size()), what);
  }

  /// getNext: white space and comments.
  void skip() {
    while (true) {
      end_ = std::min(text_.find_first_not_of(kBlanks, end_), text_.size());
      const bool block = rest().starts_with("/*");
      if (!block && peek() != '#' && !rest().starts_with("//")) return;
      if (document_.comments.size() < kMostListed) document_.comments.push_back(at(end_));
      const std::size_t stop = block ? text_.find("*/", end_ + 2)
                                     : std::min(text_.find_first_of("\r\n", end_), text_.size());
      if (stop == std::string_view::npos) {
        fail_parse(at(end_), "expected */ after this /*, found the end");
      }
      end_ = block ? stop + 2 : stop;
    }
  }

  /// _scan_once
  void value() {
    const Location where = at(end_);
    if (rest().starts_with("'''")) {
      use(HjsonFeature::kMultilineText, end_);
      leaf(where, multiline_text(), true);
    } else if (peek() == '"' || peek() == '\'') {
      leaf(where, quoted_text(), true);
    } else if (peek() == '{') {
      ++end_;
      object(true);
    } else if (peek() == '[') {
      array();
    } else {
      unquoted();
    }
  }

  void leaf(const Location& where, std::string text, bool quoted) {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.at = where;
    node.scalar = std::move(text);
    node.quoted = quoted;
    tree_.leaf(std::move(node));
  }

  /// JSONObject; the opening brace is behind.
  void object(bool braces) {
    tree_.open(Node::Kind::kMap, at(end_ - (braces ? 1 : 0)));
    skip();
    bool done = braces && peek() == '}';
    while (!done) {
      key();
      skip();
      if (peek() != ':') refuse("expected \":\" after the key");
      ++end_;
      skip();
      if (at_end()) refuse("expected a value");
      value();
      done = separator(braces ? "}" : "");
    }
    if (braces) ++end_;
    tree_.close();
  }

  /// JSONArray
  void array() {
    tree_.open(Node::Kind::kSequence, at(end_));
    ++end_;
    skip();
    bool done = peek() == ']';
    while (!done) {
      if (at_end()) refuse("expected a value or \"]\"");
      value();
      done = separator("]");
    }
    ++end_;
    tree_.close();
  }

  /// Steps over a comma, if there is one; whether `close` (or the end, for "") comes next.
  bool separator(std::string_view close) {
    skip();
    const bool comma = peek() == ',';
    const std::size_t place = end_;
    if (comma) {
      ++end_;
      skip();
    }
    const bool closes = close.empty() ? at_end() : peek() == close[0];
    if (closes && comma) use(HjsonFeature::kTrailingComma, place);
    if (!closes && !comma && !at_end()) use(HjsonFeature::kMissingComma, place);
    return closes;
  }

  /// scanKeyName
  void key() {
    const std::size_t begin = end_;
    if (peek() == '"' || peek() == '\'') {
      tree_.key(quoted_text(), at(begin));
      return;
    }
    const std::size_t stop = text_.find_first_of(kPunctuation, begin);
    if (stop == begin || stop == std::string_view::npos || text_[stop] != ':') {
      refuse(stop == begin ? "expected a key" : "expected a key and \":\"");
    }
    std::string_view name = text_.substr(begin, stop - begin);
    if (kBlanks.find(name.back()) != std::string_view::npos) name = without_trailing_space(name);
    if (name.find_first_of(kBlanks) != std::string_view::npos) {
      refuse("expected a key (in quotes, if it has spaces)");
    }
    use(HjsonFeature::kUnquotedKey, begin);
    end_ = stop;
    tree_.key(std::string(name), at(begin));
  }

  /// scantfnns: a word, a number, or text up to the end of the line.
  void unquoted() {
    const std::size_t begin = end_;
    if (kPunctuation.find(peek()) != std::string_view::npos) refuse("expected a value");
    // Only the first delimiter can end a word or number: neither contains one.
    constexpr std::string_view kDelimiters = ",}]#/\r\n";
    std::size_t stop = std::min(text_.find_first_of(kDelimiters, begin), text_.size());
    while (text_.substr(stop, 1) == "/" && text_.substr(stop, 2) != "//" &&
           text_.substr(stop, 2) != "/*") {
      stop = std::min(text_.find_first_of(kDelimiters, stop + 1), text_.size());
    }
    const std::string_view written = text_.substr(begin, stop - begin);
    const std::string_view word = without_trailing_space(written);
    const bool is_word = word == "null" || word == "true" || word == "false";
    if (is_word && written.find_last_not_of(" \t") + 1 != word.size()) {
      use(HjsonFeature::kCharacter, begin + word.size());
    }
    if (word == "null") {
      Node node;
      node.at = at(begin);
      tree_.leaf(std::move(node));
    } else if (is_word || is_number(word, written)) {
      leaf(at(begin), std::string(word), false);
    } else {
      unquoted_ = begin;
      stop = std::min(text_.find_first_of("\r\n", begin), text_.size());
      std::string text(without_space(text_.substr(begin, stop - begin)));
      use(HjsonFeature::kUnquotedText, begin, text);
      leaf(at(begin), std::move(text), true);
    }
    end_ = stop;
  }

  /// Python reads integers of up to 4300 digits, and hjson overflows on infinity.
  bool is_number(std::string_view word, std::string_view with_blanks) const {
    constexpr std::size_t kMostDigits = 4300;
    const std::size_t blanks = with_blanks.find_last_not_of(" \t") + 1;
    if (word.empty() || json_number_length(word) != word.size() || blanks != word.size()) {
      return false;
    }
    const bool whole = word.find_first_of(".eE") == std::string_view::npos;
    const bool huge = std::isinf(std::strtod(std::string(word).c_str(), nullptr));
    const std::size_t sign = word.starts_with('-') ? 1 : 0;
    if (whole ? word.size() - sign > kMostDigits : huge) {
      fail_parse(at(end_), fmt::format("expected a number that Python can hold, found {}",
                                       abbreviated(word, 20)));
    }
    return true;
  }

  /// scanstring, the quote included
  std::string quoted_text() {
    const std::size_t begin = end_;
    const char quote = text_[end_++];
    if (quote == '\'') use(HjsonFeature::kSingleQuotes, begin);
    std::string out;
    while (true) {
      if (at_end() || peek() == '\n' || peek() == '\r') {
        fail_parse(at(begin), fmt::format("not valid JSON or Hjson: this {} is not closed in its "
                                          "line",
                                          quote));
      }
      const char c = text_[end_];
      if (c == '\t') refuse("expected \\t for a tab in quotes");
      ++end_;
      if (c == quote) return out;
      if (c == '\\') {
        escape(out);
      } else {
        out += c;
      }
    }
  }

  /// What follows a backslash.
  void escape(std::string& out) {
    constexpr std::string_view kLetters = "\"'\\/bfnrt";
    constexpr std::string_view kValues = "\"'\\/\b\f\n\r\t";
    const char c = peek();
    if (c != 'u') {
      const std::size_t letter = at_end() ? kLetters.npos : kLetters.find(c);
      if (letter == kLetters.npos) refuse("expected one of \"'\\/bfnrtu after a backslash");
      if (c == '\'') use(HjsonFeature::kCharacter, end_ - 1);
      out += kValues[letter];
      ++end_;
      return;
    }
    unsigned code = hexadecimal();
    const std::size_t behind = end_;
    if (code >= 0xD800U && code < 0xDC00U && rest().starts_with("\\u")) {
      ++end_;
      const unsigned low = hexadecimal();
      const bool pair = low >= 0xDC00U && low <= 0xDFFFU;
      if (pair) code = 0x10000U + ((code - 0xD800U) << 10U) + (low - 0xDC00U);
      if (!pair) end_ = behind;
    }
    append_utf8(code, out);
  }

  /// The four digits after \u.
  unsigned hexadecimal() {
    ++end_;
    unsigned code = 0;
    const std::string_view digits = rest().substr(0, 4);
    const auto [last, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < 4 || error != std::errc() || last != digits.data() + 4) {
      refuse("expected four hexadecimal digits after \\u");
    }
    end_ += 4;
    return code;
  }

  /// mlscanstring: the indent of ''' is taken off every line.
  std::string multiline_text() {
    const std::size_t begin = end_;
    const std::size_t start =
        *std::prev(std::upper_bound(line_starts_.begin(), line_starts_.end(), begin));
    const auto indent =
        std::count_if(text_.begin() + static_cast<std::ptrdiff_t>(start),
                      text_.begin() + static_cast<std::ptrdiff_t>(begin),
                      [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; });
    const auto skip_indent = [this](std::ptrdiff_t most) {
      for (; most > 0 && (peek() == ' ' || peek() == '\t' || peek() == '\r'); --most) ++end_;
    };
    end_ = std::min(text_.find_first_not_of(" \t\r", begin + 3), text_.size());
    if (peek() == '\n') {
      ++end_;
      skip_indent(indent);
    }
    std::string out;
    while (!rest().starts_with("'''")) {
      if (at_end()) fail_parse(at(begin), "expected ''' after this ''', found the end");
      const char c = text_[end_++];
      if (c != '\r') out += c;
      if (c == '\n') skip_indent(indent);
    }
    end_ += 3;
    if (out.ends_with('\n')) out.pop_back();
    return out;
  }

  std::string_view text_;
  FileName file_;
  std::vector<std::size_t> line_starts_ = {0};
  HjsonDocument document_;
  TreeBuilder tree_;
  std::size_t end_ = 0;                  ///< offset of what comes next
  std::optional<std::size_t> unquoted_;  ///< offset of the last text without quotes
};

}  // namespace

HjsonDocument parse_hjson(std::string_view text, const std::string& file) {
  return HjsonParser(text, file).run();
}

HjsonDocument load_hjson(const std::filesystem::path& path) {
  return parse_hjson(read_text_file(path), path.string());
}

}  // namespace zenflow
