/// What the parsers of documents share: the tree they build and the characters they refuse.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.h"

namespace zenflow {

using FileName = std::shared_ptr<const std::string>;

constexpr std::size_t kMaxDepth = 100;
/// A node takes about 150 bytes; the limit keeps a hostile file from exhausting memory.
constexpr std::size_t kMaxNodes = 1'000'000;

/// Throws Error(kInput) "LOCATION: WHAT".
[[noreturn]] void fail_parse(const Location& at, const std::string& what);
[[nodiscard]] Location location_of(const FileName& file, std::string_view text, std::size_t offset);
/// The first `limit` bytes without line breaks: long text in a message would bury it. Always UTF-8,
/// though parsers quote what they have read, which may end inside a character.
[[nodiscard]] std::string abbreviated(std::string_view text, std::size_t limit);

/// Throws Error(kInput), located, on invalid UTF-8 and on control characters other than tab, line
/// feed and carriage return.
void check_characters(std::string_view text, const FileName& file);

/// Builds the tree from a parser's events, without recursion. Throws Error(kInput), located, on a
/// duplicate key, too deep nesting and too many values.
class TreeBuilder {
 public:
  void open(Node::Kind kind, Location at);
  void close();
  void key(std::string text, Location at);
  void leaf(Node node);

  [[nodiscard]] bool expects_key() const {
    return !frames_.empty() && frames_.back().node.is_map() && !frames_.back().has_key;
  }
  /// Where the key is whose value comes next, if a map is open.
  [[nodiscard]] const Location* pending_key() const {
    if (frames_.empty() || !frames_.back().has_key) return nullptr;
    return &frames_.back().node.entries.back().key_at;
  }
  /// The value that was complete last. Precondition: one was, in what is open now.
  [[nodiscard]] const Node& last() const;
  [[nodiscard]] std::size_t depth() const { return frames_.size(); }
  [[nodiscard]] std::optional<Node> take() { return std::move(root_); }

 private:
  struct Frame {
    Node node;
    bool has_key = false;
    std::map<std::string, int, std::less<>> lines;  ///< of the keys so far
  };

  void count_node(const Location& at);
  void place(Node node);

  std::vector<Frame> frames_;
  std::optional<Node> root_;
  std::size_t nodes_ = 0;
};

}  // namespace zenflow
