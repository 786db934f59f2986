/// Texts that occur often, kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zenflow::sim {

/// A text's number in its NameTable.
using NameId = std::uint32_t;
/// The empty text, in every table.
inline constexpr NameId kNoName = 0;

/// Numbers are given out in order of first use, so equal input gives equal numbers. A hash table of
/// numbers beside the texts: copies are independent, and no text is stored twice.
class NameTable {
 public:
  /// The number of `text`; a new one if it was not there.
  NameId intern(std::string_view text);
  /// Precondition: `id` is this table's. The reference is valid until the next `intern`.
  [[nodiscard]] const std::string& operator[](NameId id) const { return texts_[id]; }
  /// How many there are, with the empty one.
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  [[nodiscard]] std::size_t slot_of(std::string_view text, std::size_t hash) const;
  void grow();

  std::vector<std::string> texts_{std::string()};
  std::vector<NameId> slots_;  // kNoName: free. Its size is a power of two, at least a third free.
};

}  // namespace zenflow::sim
