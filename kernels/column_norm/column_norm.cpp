#include "kernels/column_norm/column_norm.h"

#include <cassert>

#include "kernels/column_norm/column_norm_versions.h"

namespace zenflow::kernels {
namespace {

template <class Element>
void run(const MatrixView<Element>& matrix, ColumnNorms norms, Isa isa) {
  if constexpr (kIsX86) {
    if (isa == Isa::kAvx512) return column_norms_avx512(matrix, norms);
    if (isa == Isa::kAvx2) return column_norms_avx2(matrix, norms);
  }
  assert(isa == Isa::kScalar);
  column_norms_scalar(matrix, norms);
}

}  // namespace

void column_norms(const MatrixView<float>& matrix, ColumnNorms norms, Isa isa) {
  run(matrix, norms, isa);
}

void column_norms(const MatrixView<Bf16>& matrix, ColumnNorms norms, Isa isa) {
  run(matrix, norms, isa);
}

}  // namespace zenflow::kernels
