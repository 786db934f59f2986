#include "runtime/offload/layout.h"

#include <algorithm>
#include <cstdint>

#include "sim/offload/column_split.h"

namespace zenflow::runtime {

std::size_t Layout::selected_elements() const {
  std::size_t sum = 0;
  for (const Slice& slice : slices) sum += slice.rows * slice.selected;
  return sum;
}

std::size_t selected_columns(double topk_ratio, std::size_t columns) {
  return static_cast<std::size_t>(
      sim::selected_columns(topk_ratio, static_cast<std::int64_t>(columns)));
}

void set_topk_ratio(Layout& layout, double topk_ratio) {
  for (Slice& slice : layout.slices) {
    if (slice.selectable) slice.selected = selected_columns(topk_ratio, slice.columns);
  }
}

Layout make_layout(const ParameterTable& table, double topk_ratio, bool everything, int rank,
                   int ranks, std::optional<TopkRange> topk_range) {
  std::int64_t total = 0;
  for (const Parameter& parameter : table.parameters) total += parameter.rows * parameter.columns;
  // Rank r owns the rows whose first element lies in its share of all elements.
  const auto share_begin = [&](int r) { return total * r / ranks; };

  Layout layout;
  std::int64_t passed = 0;
  std::size_t index = 0;
  for (const ParameterGroup& group : table.groups) {
    GroupRange range{.first_slice = layout.slices.size()};
    for (; index < group.first + group.count; ++index) {
      const Parameter& parameter = table.parameters[index];
      const sim::ColumnSplit split = sim::split_columns(
          parameter.rows, parameter.columns, parameter.is_matrix, everything ? 1 : topk_ratio);
      const std::int64_t rows = split.rows;
      const std::int64_t columns = split.columns;
      const auto row_at = [&](std::int64_t element) {
        return std::clamp<std::int64_t>((element - passed + columns - 1) / columns, 0, rows);
      };
      const std::int64_t begin = row_at(share_begin(rank));
      const std::int64_t end = rank + 1 == ranks ? rows : row_at(share_begin(rank + 1));
      passed += rows * columns;
      if (end <= begin) continue;
      Slice slice{.parameter = index,
                  .row_begin = static_cast<std::size_t>(begin),
                  .rows = static_cast<std::size_t>(end - begin),
                  .columns = static_cast<std::size_t>(columns),
                  .selected = static_cast<std::size_t>(split.selected),
                  .selectable = split.selectable(),
                  .first = layout.elements};
      const bool varies = slice.selectable && topk_range.has_value();
      slice.least_selected =
          varies ? selected_columns(topk_range->low, slice.columns) : slice.selected;
      slice.most_selected =
          varies ? selected_columns(topk_range->high, slice.columns) : slice.selected;
      layout.elements += slice.elements();
      layout.slices.push_back(slice);
    }
    range.slices = layout.slices.size() - range.first_slice;
    layout.groups.push_back(range);
  }
  return layout;
}

}  // namespace zenflow::runtime
