#include "sim/config/document.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include "sim/base/error.h"
#include "sim/base/input_file.h"
#include "sim/base/text.h"
#include "sim/config/tree_builder.h"

namespace zenflow {
namespace {

/// yaml-cpp queues the tokens of a whole line, up to 200 bytes for each byte of input.
constexpr std::size_t kMaxYamlBytes = std::size_t{1} << 20U;
/// Aliases of aliases are as many values as 2 to the power of their number, and one of a long text
/// is as long as it.
constexpr std::size_t kMaxAliased = 100'000;

struct Extent {
  std::size_t values = 1;
  std::size_t bytes = 0;  ///< of texts and keys
  std::size_t depth = 0;  ///< of maps and sequences

  void add(const Extent& child) {
    values += child.values;
    bytes += child.bytes;
    depth = std::max(depth, child.depth + 1);
  }
};

Extent extent_of(const Node& node) {
  Extent extent{.bytes = node.scalar.size()};
  for (const Node& item : node.items) extent.add(extent_of(item));
  for (const Node::Entry& entry : node.entries) {
    extent.bytes += entry.key.size();
    extent.add(extent_of(entry.value));
  }
  return extent;
}

/// Keys of a map under "<<", or of several, as far as the map does not have them itself.
void merge_keys(Node& node) {
  for (Node& item : node.items) merge_keys(item);
  for (Node::Entry& entry : node.entries) merge_keys(entry.value);
  Node* const merged = node.find("<<");
  if (merged == nullptr) return;
  Node from = std::move(*merged);
  erase_key(node, "<<");
  std::vector<Node> maps = std::move(from.items);
  if (from.kind != Node::Kind::kSequence) maps.push_back(std::move(from));
  std::set<std::string> keys;
  for (const Node::Entry& entry : node.entries) keys.insert(entry.key);
  for (Node& map : maps) {
    if (!map.is_map()) fail_parse(map.at, "<<: expected a map, or a sequence of maps");
    for (Node::Entry& entry : map.entries) {
      if (keys.insert(entry.key).second) node.entries.push_back(std::move(entry));
    }
  }
}

/// yaml-cpp's events. Its Node API would accept duplicate keys silently.
class YamlHandler : public YAML::EventHandler {
 public:
  /// With `located` false every location is just the file.
  YamlHandler(std::string_view text, FileName file, bool located, bool has_aliases)
      : text_(text), file_(std::move(file)), located_(located), has_aliases_(has_aliases) {}

  [[nodiscard]] Location at(const YAML::Mark& mark) const {
    if (!located_ || mark.is_null()) return {file_, 0, 0};
    return {file_, mark.line + 1, mark.column + 1};
  }
  [[nodiscard]] std::optional<Node> take() { return tree_.take(); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) {
      fail_parse(at(mark), "expected the end of the document, found more text or a second one");
    }
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_key(mark, "nothing");
    refuse_anchor(mark, anchor);
    Node node;
    // The mark of an omitted value is the next token's; its key says more.
    const Location* key = tree_.pending_key();
    node.at = key != nullptr && !is_written_null(mark) ? *key : at(mark);
    tree_.leaf(std::move(node));
    remember(anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    refuse_key(mark, "an alias");
    const auto named = anchors_.find(anchor);
    if (named == anchors_.end()) {
      fail_parse(at(mark), "expected a value, found an alias (*name) of what it stands in");
    }
    const std::size_t depth = tree_.depth() + count_copy(named->second, at(mark));
    if (depth > kMaxDepth) {
      fail_parse(at(mark), fmt::format("aliases make more than {} levels", kMaxDepth));
    }
    tree_.leaf(named->second);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    require_closing_quote(mark);
    if (tree_.expects_key()) {
      if (anchor != 0) fail_parse(at(mark), "expected a key, found an anchor (&name)");
      tree_.key(value, at(mark));
      return;
    }
    Node node;
    node.kind = Node::Kind::kScalar;
    node.scalar = value;
    node.quoted = tag == "!";
    node.at = at(mark);
    tree_.leaf(std::move(node));
    remember(anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    refuse_key(mark, "a sequence (is a \"[\" not closed?)");
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(Node::Kind::kSequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    refuse_key(mark, "a map (is a \"{\" not closed?)");
    refuse_anchor(mark, anchor);
    refuse_tag(mark, tag);
    open(Node::Kind::kMap, mark, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  void open(Node::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    tree_.open(kind, at(mark));
    open_anchors_.push_back(anchor);
  }
  void close() {
    tree_.close();
    const YAML::anchor_t anchor = open_anchors_.back();
    open_anchors_.pop_back();
    remember(anchor);
  }
  /// The value that is complete now; anchors of the same name count as several.
  void remember(YAML::anchor_t anchor) {
    if (anchor == 0) return;
    count_copy(tree_.last(), tree_.last().at);
    anchors_.emplace(anchor, tree_.last());
  }
  /// Its depth. Anchors keep a copy of what they name, aliases make another.
  std::size_t count_copy(const Node& value, const Location& where) {
    const Extent extent = extent_of(value);
    copied_.values += extent.values;
    copied_.bytes += extent.bytes;
    if (copied_.values > kMaxAliased || copied_.bytes > kMaxYamlBytes) {
      fail_parse(where,
                 fmt::format("anchors and aliases make more than {} values, or 1 MiB of text",
                             kMaxAliased));
    }
    return extent.depth;
  }
  void refuse_key(const YAML::Mark& mark, const char* found) const {
    if (tree_.expects_key()) {
      // An unclosed bracket ends up here as well: yaml-cpp still takes it for a key's start.
      fail_parse(at(mark), fmt::format("expected a key that is a scalar, found {}", found));
    }
  }
  void refuse_anchor(const YAML::Mark& mark, YAML::anchor_t anchor) const {
    if (anchor == 0 || has_aliases_) return;
    fail_parse(at(mark), "expected a value, found an anchor (&name)");
  }
  /// yaml-cpp reports "?" for plain values and "!" for quoted ones, but also for the tag "!".
  void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    const bool is_written = written_at(mark).starts_with('!');
    if (!is_written && (tag.empty() || tag == "?" || tag == "!")) return;
    fail_parse(at(mark), fmt::format("expected a value without a tag, found the tag \"{}\"",
                                     abbreviated(tag, 60)));
  }
  /// yaml-cpp 0.7 lets a quoted scalar run to the end of a file that ends with a newline.
  void require_closing_quote(const YAML::Mark& mark) const {
    const std::string_view rest = written_at(mark);
    if (rest.empty() || (rest[0] != '"' && rest[0] != '\'')) return;
    const char quote = rest[0];
    for (std::size_t end = 1; end < rest.size(); ++end) {
      const bool is_escape = quote == '"' ? rest[end] == '\\' : rest.substr(end).starts_with("''");
      if (!is_escape && rest[end] == quote) return;
      if (is_escape) ++end;
    }
    fail_parse(at(mark), "not valid YAML: missing closing quote");
  }
  [[nodiscard]] std::string_view written_at(const YAML::Mark& mark) const {
    if (mark.is_null() || static_cast<std::size_t>(mark.pos) >= text_.size()) return {};
    std::string_view rest = text_.substr(static_cast<std::size_t>(mark.pos));
    if (!rest.starts_with('&')) return rest;
    rest.remove_prefix(std::min(rest.find_first_of(" \t\n"), rest.size()));  // an anchor's name
    return trimmed(rest);
  }
  [[nodiscard]] bool is_written_null(const YAML::Mark& mark) const {
    const std::string_view rest = written_at(mark);
    return rest.starts_with('~') || rest.starts_with("null") || rest.starts_with("Null") ||
           rest.starts_with("NULL");
  }

  std::string_view text_;
  FileName file_;
  bool located_;
  bool has_aliases_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::vector<YAML::anchor_t> open_anchors_;  ///< of the maps and sequences that are open
  Extent copied_{.values = 0};                ///< by anchors and aliases
  TreeBuilder tree_;
  int documents_ = 0;
};

Node parse_yaml_text(std::string_view text, const FileName& file, bool located,
                     bool has_aliases = false) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const Location whole_file{file, 0, 0};
  if (text.empty()) fail_parse(whole_file, "expected a YAML document, found an empty file");
  if (text.size() > kMaxYamlBytes)
    fail_parse(whole_file, "cannot read: YAML text is larger than 1 MiB");
  check_characters(text, file);
  // yaml-cpp would skip it and count its marks from behind it.
  if (text.starts_with(kByteOrderMark)) fail_parse(whole_file, "found a second byte order mark");

  YamlHandler handler(text, file, located, has_aliases);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(handler)) {
    }
  } catch (const YAML::Exception& error) {
    fail_parse(handler.at(error.mark), "not valid YAML: " + abbreviated(error.msg, 200));
  }
  std::optional<Node> root = handler.take();
  if (!root)
    fail_parse(whole_file, "expected a YAML document, found an empty file (or only comments)");
  if (has_aliases) merge_keys(*root);
  return std::move(*root);
}

/// The text with NaN and Infinity, which Python's json writes and JSON does not have, as numbers of
/// the same length.
std::string without_python_numbers(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kWords = {
      {{"NaN", "1.0"}, {"Infinity", "1.000000"}}};
  std::string plain(text);
  for (std::size_t i = 0; i < plain.size(); ++i) {
    if (plain[i] == '"') {
      for (++i; i < plain.size() && plain[i] != '"'; ++i) {
        if (plain[i] == '\\') ++i;
      }
      continue;
    }
    const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    if (i > 0 && in_word(plain[i - 1])) continue;
    for (const auto& [word, number] : kWords) {
      if (!text.substr(i).starts_with(word)) continue;
      // "NaN3" would become 1.03; and there is no -NaN.
      const std::size_t next = i + word.size();
      const bool goes_on = next < text.size() && (in_word(text[next]) || text[next] == '.');
      const bool is_minus_nan = word == "NaN" && i > 0 && text[i - 1] == '-';
      if (!goes_on && !is_minus_nan) plain.replace(i, word.size(), number);
    }
  }
  return plain;
}

/// nlohmann-json's events carry no positions. They come in the order of the text, so this
/// walks the text alongside: each event's token starts after the previous one's end.
class JsonHandler {
 public:
  using Json = nlohmann::json;

  JsonHandler(std::string_view text, FileName file) : text_(text), file_(std::move(file)) {}

  [[nodiscard]] std::optional<Node> take() { return tree_.take(); }

  // The names and signatures below are nlohmann's SAX interface.
  bool null() {
    Node node;
    node.at = begin_token();
    end_ += std::string_view("null").size();
    tree_.leaf(std::move(node));
    return true;
  }
  bool boolean(bool value) { return scalar(value ? 4 : 5); }
  bool number_integer(Json::number_integer_t /*value*/) { return scalar(number_length()); }
  bool number_unsigned(Json::number_unsigned_t /*value*/) { return scalar(number_length()); }
  bool number_float(Json::number_float_t /*value*/, const std::string& /*text*/) {
    return scalar(number_length());
  }
  bool string(std::string& value) {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.quoted = true;
    node.at = begin_token();
    node.scalar = std::move(value);
    skip_string();
    tree_.leaf(std::move(node));
    return true;
  }
  static bool binary(Json::binary_t& /*value*/) { return false; }  // JSON text has none

  bool start_object(std::size_t /*size*/) { return open(Node::Kind::kMap); }
  bool start_array(std::size_t /*size*/) { return open(Node::Kind::kSequence); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(std::string& value) {
    Location at = begin_token();
    skip_string();
    tree_.key(std::move(value), std::move(at));
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    // "[json.exception...] parse error at line 1, column 2: syntax error ..."
    std::string_view what = error.what();
    const std::size_t prefix = what.find("] ");
    if (prefix != std::string_view::npos) what.remove_prefix(prefix + 2);
    if (what.starts_with("parse error at ")) what.remove_prefix(what.find(": ") + 2);
    fail_parse(location_of(file_, text_, error_offset(position, what)),
               "not valid JSON: " + abbreviated(what, 200));
  }

 private:
  [[nodiscard]] char peek() const { return end_ < text_.size() ? text_[end_] : '\0'; }

  /// Moves to the next token and says where it is.
  Location begin_token() {
    while (end_ < text_.size() &&
           std::string_view(" \t\r\n,:").find(text_[end_]) != std::string_view::npos) {
      if (text_[end_] == '\n') {
        ++line_;
        line_start_ = end_ + 1;
      }
      ++end_;
    }
    return {file_, line_, static_cast<int>(end_ - line_start_) + 1};
  }

  void skip_string() {
    for (++end_; end_ < text_.size() && text_[end_] != '"'; ++end_) {
      if (text_[end_] == '\\') ++end_;
    }
    ++end_;
  }

  std::size_t number_length() {
    begin_token();
    // Letters: of NaN and Infinity.
    const std::size_t stop = text_.find_first_not_of("+-.0123456789eENaInfity", end_);
    return std::min(stop, text_.size()) - end_;
  }

  bool scalar(std::size_t length) {
    Node node;
    node.kind = Node::Kind::kScalar;
    node.at = begin_token();
    node.scalar = text_.substr(end_, length);
    end_ += length;
    tree_.leaf(std::move(node));
    return true;
  }
  bool open(Node::Kind kind) {
    Location at = begin_token();
    ++end_;
    tree_.open(kind, std::move(at));
    return true;
  }
  bool close() {
    begin_token();
    ++end_;
    tree_.close();
    return true;
  }

  /// The library counts the bytes read so far, up to the end of the token it complains of.
  [[nodiscard]] std::size_t error_offset(std::size_t position, std::string_view what) const {
    if (what.find("unexpected end of input") != std::string_view::npos) return text_.size();
    std::size_t offset = std::min(position > 0 ? position - 1 : 0, text_.size());
    if (offset == text_.size() || what.find("unexpected ") == std::string_view::npos) return offset;
    const auto in_word = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '+' || c == '-' ||
             c == 'E';
    };
    if (text_[offset] == '"') {
      // The opening quote is the one that no odd number of backslashes precedes.
      while (offset > 0) {
        offset = text_.rfind('"', offset - 1);
        const std::size_t before = text_.find_last_not_of('\\', offset - 1);
        if (offset == 0 || (offset - 1 - before) % 2 == 0) break;
      }
    } else if (in_word(text_[offset])) {
      while (offset > 0 && in_word(text_[offset - 1])) --offset;
    }
    return offset;
  }

  std::string_view text_;
  FileName file_;
  TreeBuilder tree_;
  std::size_t end_ = 0;  ///< offset of the end of the last token
  int line_ = 1;
  std::size_t line_start_ = 0;
};

std::vector<std::string> split_path(std::string_view path, const Location& at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    if (dot == 0)
      fail_parse(at, "expected a path such as training.sequence_length, found an empty part");
    if (parts.size() == kMaxDepth) {
      fail_parse(at, fmt::format("expected a path of at most {} parts", kMaxDepth));
    }
    parts.emplace_back(path.substr(0, dot));
    if (dot == path.size()) return parts;
    path.remove_prefix(dot + 1);
  }
}

}  // namespace

std::string Location::text() const {
  if (file == nullptr) return "";
  const std::string name = printable_name(*file);
  return line == 0 ? name : fmt::format("{}:{}:{}", name, line, column);
}

const Node* Node::find(std::string_view key) const {
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [key](const Entry& e) { return e.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

Node* Node::find(std::string_view key) {
  const auto entry =
      std::find_if(entries.begin(), entries.end(), [key](const Entry& e) { return e.key == key; });
  return entry == entries.end() ? nullptr : &entry->value;
}

Node text_node(std::string text, const Location& at) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.quoted = true;
  node.scalar = std::move(text);
  node.at = at;
  return node;
}

Node map_node(const Location& at) {
  Node node;
  node.kind = Node::Kind::kMap;
  node.at = at;
  return node;
}

void erase_key(Node& map, std::string_view key) {
  std::erase_if(map.entries, [key](const Node::Entry& entry) { return entry.key == key; });
}

Node parse_yaml(std::string_view text, const std::string& file) {
  return parse_yaml_text(text, std::make_shared<const std::string>(file), true);
}

Node parse_yaml_with_aliases(std::string_view text, const std::string& file) {
  return parse_yaml_text(text, std::make_shared<const std::string>(file), true, true);
}

Node parse_json(std::string_view text, const std::string& file) {
  const FileName name = std::make_shared<const std::string>(file);
  if (text.empty()) fail_parse({name, 0, 0}, "expected a JSON document, found an empty file");
  if (text.starts_with("\xEF\xBB\xBF")) {
    fail_parse({name, 1, 1},
               "expected JSON text, found a byte order mark, which Python's json refuses too");
  }
  check_characters(text, name);
  JsonHandler handler(text, name);
  const std::string plain = without_python_numbers(text);
  nlohmann::json::sax_parse(plain.begin(), plain.end(), &handler);
  std::optional<Node> root = handler.take();
  if (!root) fail_parse({name, 0, 0}, "not valid JSON");
  return std::move(*root);
}

std::string read_text_file(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    fail_parse({std::make_shared<const std::string>(path.string()), 0, 0},
               "cannot read: it is a directory");
  }
  return read_file(path, kMaxFileMebibytes);
}

Node load_document(const std::filesystem::path& path) {
  const std::string text = read_text_file(path);
  return path.extension() == ".json" ? parse_json(text, path.string())
                                     : parse_yaml(text, path.string());
}

void set_path(Node& root, std::string_view path, std::string_view text) {
  const Location at{std::make_shared<const std::string>(fmt::format("--set {}={}", path, text)), 0,
                    0};
  const std::vector<std::string> parts = split_path(path, at);
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    fail_parse(at, "expected a value after \"=\" (null removes a setting)");
  }
  Node value = parse_yaml_text(text, at.file, false);

  Node* node = &root;
  std::string parent;
  for (const std::string& part : parts) {
    if (node->kind == Node::Kind::kNull) {
      node->kind = Node::Kind::kMap;
      node->at = at;
    }
    if (!node->is_map()) {
      fail_parse(at,
                 fmt::format(R"("{}" is not a map, so "{}" cannot be set in it)", parent, part));
    }
    parent += (parent.empty() ? "" : ".") + part;
    Node* child = node->find(part);
    if (child == nullptr) {
      child = &node->entries.emplace_back(Node::Entry{part, at, {}}).value;
      child->at = at;
    }
    node = child;
  }
  *node = std::move(value);
}

}  // namespace zenflow
