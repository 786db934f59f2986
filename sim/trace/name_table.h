/// Texts that occur often, kept once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/trace/number_table.h"

namespace zenflow::sim {

/// A text's number in its NameTable.
using NameId = std::uint32_t;
/// The empty text, in every table.
inline constexpr NameId kNoName = 0;

/// Numbers are given out in order of first use, so equal input gives equal numbers.
class NameTable {
 public:
  /// The number of `text`; a new one if it was not there.
  NameId intern(std::string_view text);
  /// Precondition: `id` is this table's. The reference is valid until the next `intern`.
  [[nodiscard]] const std::string& operator[](NameId id) const { return texts_[id]; }
  /// How many there are, with the empty one.
  [[nodiscard]] std::size_t size() const { return texts_.size(); }

 private:
  std::vector<std::string> texts_{std::string()};
  NumberTable numbers_;
};

}  // namespace zenflow::sim
