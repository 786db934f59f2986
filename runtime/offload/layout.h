/// Which parameters this rank updates, and where their numbers lie.
///
/// A parameter has one owner, which reduces its gradient, so that a column's norm needs no
/// exchange. A vector of n counts as n rows of one column. Slices lie one after the other in the
/// order of the parameters, and so group by group.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/model_config/parameters.h"
#include "runtime/offload/topk_range.h"

namespace zenflow::runtime {

struct Slice {
  std::size_t parameter = 0;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t selected = 0;        ///< columns updated on the device
  std::size_t least_selected = 0;  ///< at any topk_ratio that the run may have
  std::size_t most_selected = 0;
  bool selectable = false;  ///< a matrix with selected and deferred columns, at any such ratio
  bool decays = true;       ///< loses weight by AdamW's weight_decay
  std::size_t first = 0;    ///< element of the partition where the slice begins

  [[nodiscard]] std::size_t elements() const { return rows * columns; }
  [[nodiscard]] std::size_t deferred() const { return columns - selected; }
  [[nodiscard]] std::size_t most_deferred() const { return columns - least_selected; }
};

struct GroupRange {
  std::size_t first_slice = 0;
  std::size_t slices = 0;
};

struct Layout {
  std::vector<Slice> slices;
  std::vector<GroupRange> groups;  ///< of the table's groups
  std::size_t elements = 0;        ///< of the partition
  /// The most that are selected at once: fewer than the slices' own mosts where columns of all
  /// matrices compete.
  std::size_t most_selected_elements = 0;
  /// Any slice may have any width, within the above: what is selected lies without gaps.
  bool widths_vary = false;

  [[nodiscard]] std::size_t selected_elements() const;
  [[nodiscard]] std::size_t deferred_elements() const { return elements - selected_elements(); }
};

/// Columns selected of a matrix with `columns`: sim/offload/column_split.h, by which runs are
/// predicted too.
[[nodiscard]] std::size_t selected_columns(double topk_ratio, std::size_t columns);

/// By parameter: sim/offload/column_split.h.
[[nodiscard]] std::vector<int> parameter_owners(const ParameterTable& table, int ranks);

/// The partition of rank `rank` of `ranks`. Vectors are selected whole where anything is, as
/// DeepSpeed has it; with `everything`, all columns are. `topk_range`: of ratios that may follow.
/// `topk_is_global`: columns of all matrices compete, from the second selection on.
/// `decays_vectors`: norms and biases lose weight, too. Precondition: 0 <= rank < ranks,
/// `topk_range` has topk_ratio, and is not given if they compete.
[[nodiscard]] Layout make_layout(const ParameterTable& table, double topk_ratio, bool everything,
                                 int rank, int ranks, std::optional<TopkRange> topk_range = {},
                                 bool topk_is_global = false, bool decays_vectors = false);
/// Another ratio of its range.
void set_topk_ratio(Layout& layout, double topk_ratio);

}  // namespace zenflow::runtime
