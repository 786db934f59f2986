/// Makes a block of a profile's document out of a block of a node's parts.
#pragma once

#include <string>
#include <string_view>

#include "sim/config/document.h"
#include "sim/config/reader.h"

namespace zenflow::sim {

void put_entry(Node& map, std::string_view key, Node value);
/// `{value: ..., source: ...}`
[[nodiscard]] Node number_node(const std::string& value, const std::string& source,
                               const Location& at);
/// What the user states where a profile has a number: `{value, source}`, or the value alone.
[[nodiscard]] Node stated_number(const ValueReader& value);
/// "stated in FILE:LINE:COLUMN", or the override.
[[nodiscard]] std::string stated_in(const Node& node);
/// "25 GB/s"
[[nodiscard]] std::string rate_text(double bytes_per_second);

/// Every key that the part has must be asked for, as a part of its own or as a number of the
/// profile.
class PartBlock {
 public:
  explicit PartBlock(MapReader from);

  [[nodiscard]] MapReader& from() { return from_; }
  [[nodiscard]] bool states(std::string_view key) const;
  /// The profile's number: as stated, else `value` by the rule that `source` says.
  void number(std::string_view key, const std::string& value, const std::string& source);
  void number(std::string_view key, Node otherwise);
  /// The profile's number, which must be stated.
  void stated(std::string_view key);
  /// The profile's number if it is stated.
  void optional(std::string_view key);
  void text(std::string_view key, const std::string& otherwise);
  void raw(std::string_view key, Node value) { put_entry(to_, key, std::move(value)); }

  /// What a number that is there already says. Precondition: it is there.
  [[nodiscard]] ValueReader value(std::string_view key) const;
  [[nodiscard]] double bandwidth(std::string_view key) const;
  /// The block. Throws Error(kInput) at a key that nothing has asked for.
  [[nodiscard]] Node take();

 private:
  MapReader from_;
  Node to_;
};

}  // namespace zenflow::sim
