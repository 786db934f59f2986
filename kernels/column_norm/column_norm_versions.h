/// What the versions of the column norms for each instruction set share; not for callers.
#pragma once

#include <cmath>

#include "kernels/column_norm/column_norm.h"

namespace zenflow::kernels {

void column_norms_avx2(const MatrixView<float>& matrix, ColumnNorms norms);
void column_norms_avx2(const MatrixView<Bf16>& matrix, ColumnNorms norms);
void column_norms_avx512(const MatrixView<float>& matrix, ColumnNorms norms);
void column_norms_avx512(const MatrixView<Bf16>& matrix, ColumnNorms norms);

/// From the sums of magnitudes and of squares to the norms.
inline void finish_norms(ColumnNorms norms, std::size_t columns) {
  for (std::size_t c = 0; c < columns; ++c) {
    if (std::isnan(norms.l1[c])) norms.l1[c] = kNormNaN;
    norms.l2[c] = std::isnan(norms.l2[c]) ? kNormNaN : std::sqrt(norms.l2[c]);
  }
}

}  // namespace zenflow::kernels
