/// Part of a loop, so that threads can share a kernel's work.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

namespace zenflow::kernels {

/// The numbers [first, last) of rows, columns or elements: all of them, unless said otherwise.
struct Range {
  std::size_t first = 0;
  std::size_t last = std::numeric_limits<std::size_t>::max();

  /// The end of the range in a loop over `count`.
  [[nodiscard]] constexpr std::size_t end(std::size_t count) const { return std::min(last, count); }
};

}  // namespace zenflow::kernels
