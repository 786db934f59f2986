#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/column_norm/column_norm.h"
#include "kernels/column_norm/column_norm_versions.h"

namespace zenflow::kernels {
namespace {

/// Adds the sums of a block to those of the blocks before it.
void move_sums(std::vector<float>& block, float* all) {
  for (std::size_t c = 0; c < block.size(); ++c) all[c] += block[c];
  std::fill(block.begin(), block.end(), 0.0F);
}

/// Row by row, so that memory is read in order; each column still sums its rows in the stated
/// order.
template <class Element>
void norms_of_columns(const MatrixView<Element>& matrix, ColumnNorms norms) {
  std::fill_n(norms.l1, matrix.columns, 0.0F);
  std::fill_n(norms.l2, matrix.columns, 0.0F);
  std::vector<float> magnitudes(matrix.columns);
  std::vector<float> squares(matrix.columns);
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const Element* row = matrix.values + r * matrix.row_stride;
    for (std::size_t c = 0; c < matrix.columns; ++c) {
      const float x = to_float(row[c]);
      magnitudes[c] += std::fabs(x);
      squares[c] += x * x;
    }
    if ((r + 1) % kNormBlockRows == 0 || r + 1 == matrix.rows) {
      move_sums(magnitudes, norms.l1);
      move_sums(squares, norms.l2);
    }
  }
  finish_norms(norms, matrix.columns);
}

}  // namespace

void column_norms_scalar(const MatrixView<float>& matrix, ColumnNorms norms) {
  norms_of_columns(matrix, norms);
}

void column_norms_scalar(const MatrixView<Bf16>& matrix, ColumnNorms norms) {
  norms_of_columns(matrix, norms);
}

}  // namespace zenflow::kernels
