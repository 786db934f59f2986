#include "runtime/offload/layout.h"

#include <algorithm>
#include <cstdint>

#include "runtime/offload/global_selection.h"
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

std::vector<int> parameter_owners(const ParameterTable& table, int ranks) {
  std::vector<std::int64_t> elements;
  for (const Parameter& parameter : table.parameters) elements.push_back(parameter.elements());
  return sim::parameter_owners(elements, ranks);
}

Layout make_layout(const ParameterTable& table, double topk_ratio, bool everything, int rank,
                   int ranks, std::optional<TopkRange> topk_range, bool topk_is_global,
                   bool decays_vectors) {
  const std::vector<int> owners = parameter_owners(table, ranks);
  Layout layout;
  std::size_t index = 0;
  for (const ParameterGroup& group : table.groups) {
    GroupRange range{.first_slice = layout.slices.size()};
    for (; index < group.first + group.count; ++index) {
      const Parameter& parameter = table.parameters[index];
      const sim::ColumnSplit split = sim::split_columns(
          parameter.rows, parameter.columns, parameter.is_matrix, everything ? 1 : topk_ratio);
      const std::int64_t rows = split.rows;
      const std::int64_t columns = split.columns;
      if (owners[index] != rank) continue;
      Slice slice{.parameter = index,
                  .rows = static_cast<std::size_t>(rows),
                  .columns = static_cast<std::size_t>(columns),
                  .selected = static_cast<std::size_t>(split.selected),
                  .selectable = split.selectable(),
                  .decays = parameter.is_matrix || decays_vectors,
                  .first = layout.elements};
      const bool varies = slice.selectable && topk_range.has_value();
      slice.least_selected =
          varies ? selected_columns(topk_range->low, slice.columns) : slice.selected;
      slice.most_selected =
          varies ? selected_columns(topk_range->high, slice.columns) : slice.selected;
      if (slice.selectable && topk_is_global) {
        slice.least_selected = 1;
        slice.most_selected = slice.columns - 1;
      }
      layout.elements += slice.elements();
      layout.slices.push_back(slice);
    }
    range.slices = layout.slices.size() - range.first_slice;
    layout.groups.push_back(range);
  }
  layout.widths_vary = topk_is_global;
  std::size_t varying = 0;
  for (const Slice& slice : layout.slices) {
    const std::size_t most = slice.rows * slice.most_selected;
    (slice.selectable && topk_is_global ? varying : layout.most_selected_elements) += most;
  }
  if (varying > 0) {  // all that is selected of the model may come to be one rank's
    layout.most_selected_elements +=
        std::min(varying, selected_elements(ranked_matrices(table, topk_ratio)));
  }
  return layout;
}

}  // namespace zenflow::runtime
