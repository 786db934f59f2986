/// A parsed YAML or JSON document in which every value knows where it was written.
///
/// Both formats become the same tree, so one reader (`sim/config/reader.h`) checks
/// scenarios, profiles, Hugging Face and DeepSpeed files alike. Parser libraries
/// (yaml-cpp, nlohmann-json) stay in the .cpp file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace zenflow {

/// Where something was written. Lines and columns count from 1; 0 means unknown.
struct Location {
  std::shared_ptr<const std::string> file;  ///< path as shown to the user, or "--set KEY=VALUE"
  int line = 0;
  int column = 0;

  /// "file:line:column", or "file" if the line is unknown.
  [[nodiscard]] std::string text() const;
};

/// One value of a document. Scalars keep their text; the reader interprets it.
struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMap };
  /// One entry of a map, in file order. Keys are unique.
  struct Entry;

  Kind kind = Kind::kNull;
  std::string scalar;   ///< text of a scalar, unescaped
  bool quoted = false;  ///< the scalar was a quoted string, so it is never a number or a bool
  Location at;
  std::vector<Node> items;     ///< of a sequence
  std::vector<Entry> entries;  ///< of a map

  [[nodiscard]] bool is_map() const { return kind == Kind::kMap; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::kScalar; }
  /// The entry of a map with this key, or nullptr.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Node* find(std::string_view key);
};

struct Node::Entry {
  std::string key;
  Location key_at;
  Node value;
};

/// A string written at `at`.
[[nodiscard]] Node text_node(std::string text, const Location& at);
/// A map without entries.
[[nodiscard]] Node map_node(const Location& at);
/// Takes the entry with this key, if there is one, out of a map.
void erase_key(Node& map, std::string_view key);

/// Parses YAML text. One document, no anchors merged, no tags interpreted.
/// Throws Error(kInput) `file:line:column: ...` on malformed text, a duplicate key
/// (naming both lines), a key that is not a scalar, nesting deeper than 100, an alias
/// (aliases would make exponential documents), a tag, or a second document; also for text
/// over 1 MiB, invalid UTF-8 and control characters.
[[nodiscard]] Node parse_yaml(std::string_view text, const std::string& file);

/// The same with anchors, aliases and merge keys (<<) resolved, as Python reads YAML. What anchors
/// and aliases copy is at most 100,000 values and 1 MiB of text. A copied value knows where it was
/// written, not where its alias is.
[[nodiscard]] Node parse_yaml_with_aliases(std::string_view text, const std::string& file);

/// Parses strict JSON text (RFC 8259; no comments), and NaN, Infinity and -Infinity as Python
/// writes them: scalars that no reader takes for a number. Throws as parse_yaml does; also for
/// trailing text, a byte order mark, more than a million values and numbers outside double's
/// range.
[[nodiscard]] Node parse_json(std::string_view text, const std::string& file);

/// How large a file of settings may be.
inline constexpr std::uint64_t kMaxFileMebibytes = 64;

/// Reads a whole file. Throws Error(kInput) "PATH: cannot read: REASON" if it does not
/// exist, is a directory, is not readable, or is larger than 64 MiB; also if it is no regular file:
/// a pipe or a device may never end.
[[nodiscard]] std::string read_text_file(const std::filesystem::path& path);

/// `read_text_file` then `parse_json` if the name ends in ".json", else `parse_yaml`.
[[nodiscard]] Node load_document(const std::filesystem::path& path);

/// Sets `path` ("a.b.c") to `text`, read as a YAML value, creating maps on the way.
/// All new nodes are located at "--set PATH=TEXT".
/// Throws Error(kInput) if `text` or a component is empty or names a child of a non-map.
void set_path(Node& root, std::string_view path, std::string_view text);

}  // namespace zenflow
