/// The part of the offload rule that runtime and simulator share: which columns of a parameter are
/// selected, which are deferred, and when they are selected anew.
///
/// A matrix with C columns has int(k C) selected, at least one if k > 0; a vector is one
/// column, selected if k > 0, as DeepSpeed has it. The published schedules take the share k of
/// everything instead.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace zenflow::sim {

/// The size of the device's buffer, and of the pinned one, through which state goes when columns
/// change place.
inline constexpr std::int64_t kExchangeBytes = std::int64_t{16} << 20;

/// Columns selected of a matrix with `columns`: the integer part of the share, but one at least
/// where the share is not 0, as DeepSpeed has it since #8274.
[[nodiscard]] std::int64_t selected_columns(double topk_ratio, std::int64_t columns);

/// A matrix, or a vector as a column of its own.
struct ColumnSplit {
  std::int64_t rows = 1;
  std::int64_t columns = 1;
  std::int64_t selected = 0;  ///< columns

  [[nodiscard]] std::int64_t elements() const { return rows * columns; }
  [[nodiscard]] std::int64_t deferred() const { return columns - selected; }
  /// Whether columns are chosen: there are some of both kinds.
  [[nodiscard]] bool selectable() const { return selected > 0 && selected < columns; }
};
/// Splits a parameter [rows, columns]. `topk_ratio` 1 or more: everything is selected.
[[nodiscard]] ColumnSplit split_columns(std::int64_t rows, std::int64_t columns, bool is_matrix,
                                        double topk_ratio);

/// The rank that owns each parameter, which reduces its gradient and updates it: that in whose
/// share of all elements, in the order of the parameters, its middle lies. Source of such a cut:
/// DeepSpeed's stages 1 and 2, which cut within parameters, too. `elements`: by parameter.
[[nodiscard]] std::vector<int> parameter_owners(std::span<const std::int64_t> elements, int ranks);

/// Whether a window that ends before `next_step` selects columns anew: they change place between
/// two windows. `select_interval` 0: they are selected once.
[[nodiscard]] constexpr bool selection_due(std::int64_t next_step, std::int64_t last_selection,
                                           std::int64_t select_interval) {
  return select_interval > 0 && next_step - last_selection >= select_interval;
}

}  // namespace zenflow::sim
