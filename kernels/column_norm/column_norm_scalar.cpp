#include <algorithm>
#include <cmath>

#include "kernels/column_norm/column_norm.h"

namespace zenflow::kernels {
namespace {

constexpr float as_float(float value) {
  return value;
}
constexpr float as_float(Bf16 value) {
  return to_float(value);
}

float canonical(float norm) {
  return std::isnan(norm) ? kNormNaN : norm;
}

/// Row by row, so that memory is read in order; each column still sums its rows in order.
template <class Element>
void column_norms(const MatrixView<Element>& matrix, ColumnNorms norms) {
  std::fill_n(norms.l1, matrix.columns, 0.0F);
  std::fill_n(norms.l2, matrix.columns, 0.0F);
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const Element* row = matrix.values + r * matrix.row_stride;
    for (std::size_t c = 0; c < matrix.columns; ++c) {
      const float x = as_float(row[c]);
      norms.l1[c] += std::fabs(x);
      norms.l2[c] += x * x;
    }
  }
  for (std::size_t c = 0; c < matrix.columns; ++c) {
    norms.l1[c] = canonical(norms.l1[c]);
    norms.l2[c] = canonical(std::sqrt(norms.l2[c]));
  }
}

}  // namespace

void column_norms_scalar(const MatrixView<float>& matrix, ColumnNorms norms) {
  column_norms(matrix, norms);
}

void column_norms_scalar(const MatrixView<Bf16>& matrix, ColumnNorms norms) {
  column_norms(matrix, norms);
}

}  // namespace zenflow::kernels
