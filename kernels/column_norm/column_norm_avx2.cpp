#include "kernels/simd/avx2.h"
// The body needs the vectors before it.
#include "kernels/column_norm/column_norm_vector.h"

namespace zenflow::kernels {

void column_norms_avx2(const MatrixView<float>& matrix, ColumnNorms norms) {
  norms_of_columns(matrix, norms);
}

void column_norms_avx2(const MatrixView<Bf16>& matrix, ColumnNorms norms) {
  norms_of_columns(matrix, norms);
}

}  // namespace zenflow::kernels
