#include <algorithm>
#include <cmath>

#include "kernels/column_norm/column_norm.h"
#include "kernels/column_norm/column_norm_versions.h"

namespace zenflow::kernels {
namespace {

/// Row by row, so that memory is read in order; each column still sums its rows in order.
template <class Element>
void norms_of_columns(const MatrixView<Element>& matrix, ColumnNorms norms) {
  std::fill_n(norms.l1, matrix.columns, 0.0F);
  std::fill_n(norms.l2, matrix.columns, 0.0F);
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const Element* row = matrix.values + r * matrix.row_stride;
    for (std::size_t c = 0; c < matrix.columns; ++c) {
      const float x = to_float(row[c]);
      norms.l1[c] += std::fabs(x);
      norms.l2[c] += x * x;
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
