#include "sim/offload/column_split.h"

#include <algorithm>
#include <numeric>

namespace zenflow::sim {

std::int64_t selected_columns(double topk_ratio, std::int64_t columns) {
  if (topk_ratio <= 0) return 0;
  // 0.3 * 10 is just below 3: a ratio given in decimals means the whole number it names.
  const auto whole =
      static_cast<std::int64_t>(topk_ratio * static_cast<double>(columns) * (1 + 1e-12));
  return std::clamp<std::int64_t>(whole, std::min<std::int64_t>(1, columns), columns);
}

ColumnSplit split_columns(std::int64_t rows, std::int64_t columns, bool is_matrix,
                          double topk_ratio) {
  if (!is_matrix) return {rows * columns, 1, topk_ratio > 0 ? 1 : 0};
  return {rows, columns, selected_columns(topk_ratio, columns)};
}

std::vector<int> parameter_owners(std::span<const std::int64_t> elements, int ranks) {
  const std::int64_t total = std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
  std::vector<int> owners;
  std::int64_t passed = 0;
  for (const std::int64_t one : elements) {
    const double middle = static_cast<double>(passed) + 0.5 * static_cast<double>(one);
    const double share = middle / static_cast<double>(total) * ranks;
    owners.push_back(std::min(ranks - 1, static_cast<int>(share)));
    passed += one;
  }
  return owners;
}

}  // namespace zenflow::sim
