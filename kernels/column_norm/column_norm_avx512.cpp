#include "kernels/simd/avx512.h"
// The body needs the vectors before it.
#include "kernels/column_norm/column_norm_vector.h"

namespace zenflow::kernels {

void column_norms_avx512(const MatrixView<float>& matrix, ColumnNorms norms) {
  norms_of_columns(matrix, norms);
}

void column_norms_avx512(const MatrixView<Bf16>& matrix, ColumnNorms norms) {
  norms_of_columns(matrix, norms);
}

}  // namespace zenflow::kernels
