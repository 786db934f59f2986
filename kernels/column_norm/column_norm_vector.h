/// Column norms on vectors: the body of column_norm_avx2.cpp and column_norm_avx512.cpp, which
/// include the vectors of their instruction set (kernels/simd/) before it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/column_norm/column_norm_versions.h"

namespace zenflow::kernels {
namespace {

/// The sums of a tile stay in the first level cache (16 KiB) while its rows go by.
constexpr std::size_t kTileColumns = 2048;
/// Rows that are added while a block of sums is in registers: sums are read and written once for
/// so many elements, and so many rows are read side by side.
constexpr std::size_t kTileRows = 4;

/// Adds columns [c, c + extent) of `rows` rows, of which the first starts at `row`.
template <std::size_t rows, class Element, class Extent>
ZENFLOW_INLINE void add_rows(const Element* row, std::size_t row_stride, ColumnNorms sums,
                             std::size_t c, Extent extent) {
  Block magnitudes = load<Order::kSequential>(sums.l1 + c, extent);
  Block squares = load<Order::kSequential>(sums.l2 + c, extent);
  for (std::size_t r = 0; r < rows; ++r) {
    const Block x = load<Order::kSequential>(row + r * row_stride + c, extent);
    magnitudes.first = add(magnitudes.first, magnitude(x.first));
    magnitudes.second = add(magnitudes.second, magnitude(x.second));
    squares.first = add(squares.first, multiply(x.first, x.first));
    squares.second = add(squares.second, multiply(x.second, x.second));
  }
  store<Order::kSequential>(sums.l1 + c, magnitudes, extent);
  store<Order::kSequential>(sums.l2 + c, squares, extent);
}

template <std::size_t rows, class Element>
ZENFLOW_TARGET void add_rows(const Element* row, std::size_t row_stride, ColumnNorms sums,
                             std::size_t columns) {
  std::size_t c = 0;
  for (; c + kBlock <= columns; c += kBlock) add_rows<rows>(row, row_stride, sums, c, Whole{});
  if (c < columns) add_rows<rows>(row, row_stride, sums, c, Part{columns - c});
}

template <class Element>
ZENFLOW_TARGET void norms_of_columns(const MatrixView<Element>& matrix, ColumnNorms norms) {
  std::fill_n(norms.l1, matrix.columns, 0.0F);
  std::fill_n(norms.l2, matrix.columns, 0.0F);
  for (std::size_t first = 0; first < matrix.columns; first += kTileColumns) {
    const std::size_t columns = std::min(kTileColumns, matrix.columns - first);
    const ColumnNorms sums{norms.l1 + first, norms.l2 + first};
    std::size_t r = 0;
    for (; r + kTileRows <= matrix.rows; r += kTileRows) {
      add_rows<kTileRows>(matrix.values + r * matrix.row_stride + first, matrix.row_stride, sums,
                          columns);
    }
    for (; r < matrix.rows; ++r) {
      add_rows<1>(matrix.values + r * matrix.row_stride + first, matrix.row_stride, sums, columns);
    }
  }
  finish_norms(norms, matrix.columns);
}

}  // namespace
}  // namespace zenflow::kernels
