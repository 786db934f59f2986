#include "runtime/offload/global_selection.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/cast/cast.h"
#include "sim/offload/column_split.h"

namespace zenflow::runtime {
namespace {

struct Candidate {
  double value;  ///< for an element
  bool is_selected;
  std::size_t column;  ///< of all matrices
  std::size_t rows;

  [[nodiscard]] bool is_ahead_of(const Candidate& other) const {
    if (value != other.value) return value > other.value;
    if (is_selected != other.is_selected) return is_selected;
    return column < other.column;
  }
};

bool is_ahead(const Candidate& a, const Candidate& b) {
  return a.is_ahead_of(b);
}

std::vector<Candidate> candidates_of(const RankedMatrix& matrix, std::span<const float> norms,
                                     NormKind norm) {
  const auto rows = static_cast<double>(matrix.rows);
  const double per_element = norm == NormKind::kL1 ? rows : std::sqrt(rows);
  std::vector<Candidate> all;
  for (std::size_t j = 0; j < matrix.columns; ++j) {
    const float with_sign = norms[matrix.first + j];
    all.push_back({.value = static_cast<double>(std::abs(with_sign)) / per_element,
                   .is_selected = std::signbit(with_sign),
                   .column = matrix.first + j,
                   .rows = matrix.rows});
  }
  return all;
}

}  // namespace

std::vector<RankedMatrix> ranked_matrices(const ParameterTable& table, double topk_ratio) {
  std::vector<RankedMatrix> matrices;
  std::size_t first = 0;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& parameter = table.parameters[i];
    const sim::ColumnSplit split =
        sim::split_columns(parameter.rows, parameter.columns, parameter.is_matrix, topk_ratio);
    if (!split.selectable()) continue;
    matrices.push_back({.parameter = i,
                        .rows = static_cast<std::size_t>(split.rows),
                        .columns = static_cast<std::size_t>(split.columns),
                        .share = static_cast<std::size_t>(split.selected),
                        .first = first});
    first += matrices.back().columns;
  }
  return matrices;
}

std::vector<RankedMatrix> matrices_of(const ParameterTable& table) {
  std::vector<RankedMatrix> matrices;
  std::size_t first = 0;
  for (std::size_t i = 0; i < table.parameters.size(); ++i) {
    const Parameter& parameter = table.parameters[i];
    if (!parameter.is_matrix || parameter.columns == 1) continue;
    matrices.push_back({.parameter = i,
                        .rows = static_cast<std::size_t>(parameter.rows),
                        .columns = static_cast<std::size_t>(parameter.columns),
                        .first = first});
    first += matrices.back().columns;
  }
  return matrices;
}

std::size_t columns_of(std::span<const RankedMatrix> matrices) {
  return matrices.empty() ? 0 : matrices.back().first + matrices.back().columns;
}

std::size_t elements_of(std::span<const RankedMatrix> matrices) {
  std::size_t sum = 0;
  for (const RankedMatrix& one : matrices) sum += one.rows * one.columns;
  return sum;
}

std::size_t selected_elements(std::span<const RankedMatrix> matrices) {
  std::size_t sum = 0;
  for (const RankedMatrix& one : matrices) sum += one.rows * one.share;
  return sum;
}

namespace {

/// By rank, the first column of those that it knows, which lie together.
std::vector<std::size_t> first_columns(std::span<const RankedMatrix> matrices,
                                       std::span<const int> owners, int ranks) {
  std::vector<std::size_t> first(static_cast<std::size_t>(ranks) + 1, columns_of(matrices));
  std::size_t rank = 0;
  for (const RankedMatrix& matrix : matrices) {
    const auto owner = static_cast<std::size_t>(owners[matrix.parameter]);
    for (; rank <= owner; ++rank) first[rank] = matrix.first;
  }
  return first;
}

}  // namespace

void exchange_norms(Communicator& ranks, std::span<const RankedMatrix> matrices,
                    std::span<const int> owners, ElementType type, std::span<float> norms) {
  std::vector<std::size_t> first = first_columns(matrices, owners, ranks.size());
  for (std::size_t& one : first) one *= bytes_per_element(type);
  if (type == ElementType::kFloat32) {
    ranks.gather_norms(first, std::as_writable_bytes(norms));
    return;
  }
  std::vector<kernels::Bf16> rounded(norms.size());
  kernels::to_bf16(norms.data(), norms.size(), rounded.data());
  ranks.gather_norms(first, std::as_writable_bytes(std::span(rounded)));
  kernels::to_float(rounded.data(), rounded.size(), norms.data());
}

std::vector<bool> select_from_all(std::span<const RankedMatrix> matrices,
                                  std::span<const float> norms, NormKind norm) {
  std::vector<bool> selected(columns_of(matrices), false);
  std::size_t left = selected_elements(matrices);
  std::vector<Candidate> others;  // than the largest and the smallest of each
  for (const RankedMatrix& matrix : matrices) {
    std::vector<Candidate> own = candidates_of(matrix, norms, norm);
    const auto largest = std::min_element(own.begin(), own.end(), is_ahead);
    selected[largest->column] = true;
    left -= matrix.rows;
    own.erase(largest);
    own.erase(std::max_element(own.begin(), own.end(), is_ahead));
    others.insert(others.end(), own.begin(), own.end());
  }
  std::sort(others.begin(), others.end(), is_ahead);
  for (const Candidate& one : others) {
    if (one.rows > left) continue;
    selected[one.column] = true;
    left -= one.rows;
  }
  return selected;
}

}  // namespace zenflow::runtime
