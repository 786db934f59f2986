/// Column norms on vectors: the body of column_norm_avx2.cpp and column_norm_avx512.cpp, which
/// include the vectors of their instruction set (kernels/simd/) before it.
#pragma once

#include <algorithm>
#include <cstddef>

#include "kernels/column_norm/column_norm_versions.h"

namespace zenflow::kernels {
namespace {

/// A block's sums of a tile stay in the first level cache (16 KiB) while its rows go by. Those of
/// all blocks are looked at once a block.
constexpr std::size_t kTileColumns = 2048;
/// Rows that are added while a block of sums is in registers: sums are read and written once for
/// so many elements, and so many rows are read side by side.
constexpr std::size_t kTileRows = 4;
static_assert(kNormBlockRows % kTileRows == 0);

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

/// Adds the rows from `row` on, at most kNormBlockRows of them.
template <class Element>
ZENFLOW_TARGET void add_block(const Element* row, std::size_t row_stride, ColumnNorms sums,
                              std::size_t rows, std::size_t columns) {
  std::size_t r = 0;
  for (; r + kTileRows <= rows; r += kTileRows) {
    add_rows<kTileRows>(row + r * row_stride, row_stride, sums, columns);
  }
  for (; r < rows; ++r) add_rows<1>(row + r * row_stride, row_stride, sums, columns);
}

template <class Extent>
ZENFLOW_INLINE void add_sums(float* all, const float* block, Extent extent) {
  const Block old = load<Order::kSequential>(static_cast<const float*>(all), extent);
  const Block more = load<Order::kSequential>(block, extent);
  store<Order::kSequential>(all, {add(old.first, more.first), add(old.second, more.second)},
                            extent);
}

/// Adds the sums of a block of rows, [n], to those of the blocks before it.
ZENFLOW_TARGET inline void add_sums(float* all, const float* block, std::size_t n) {
  std::size_t c = 0;
  for (; c + kBlock <= n; c += kBlock) add_sums(all + c, block + c, Whole{});
  if (c < n) add_sums(all + c, block + c, Part{n - c});
}

template <class Element>
ZENFLOW_TARGET void norms_of_columns(const MatrixView<Element>& matrix, ColumnNorms norms) {
  float magnitudes[kTileColumns];
  float squares[kTileColumns];
  std::fill_n(norms.l1, matrix.columns, 0.0F);
  std::fill_n(norms.l2, matrix.columns, 0.0F);
  for (std::size_t first = 0; first < matrix.columns; first += kTileColumns) {
    const std::size_t columns = std::min(kTileColumns, matrix.columns - first);
    for (std::size_t r = 0; r < matrix.rows; r += kNormBlockRows) {
      std::fill_n(magnitudes, columns, 0.0F);
      std::fill_n(squares, columns, 0.0F);
      add_block(matrix.values + r * matrix.row_stride + first, matrix.row_stride,
                {magnitudes, squares}, std::min(kNormBlockRows, matrix.rows - r), columns);
      add_sums(norms.l1 + first, magnitudes, columns);
      add_sums(norms.l2 + first, squares, columns);
    }
  }
  finish_norms(norms, matrix.columns);
}

}  // namespace
}  // namespace zenflow::kernels
