#include "kernels/columns/columns.h"

namespace zenflow::kernels {

template <class Element>
void gather_columns(const MatrixView<Element>& matrix, const std::uint32_t* column, std::size_t n,
                    Element* out) {
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const Element* row = matrix.values + r * matrix.row_stride;
    for (std::size_t j = 0; j < n; ++j) out[r * n + j] = row[column[j]];
  }
}

template <class Element>
void scatter_columns(const Element* values, std::size_t rows, std::size_t n,
                     const std::uint32_t* column, Element* out, std::size_t row_stride) {
  for (std::size_t r = 0; r < rows; ++r) {
    Element* row = out + r * row_stride;
    for (std::size_t j = 0; j < n; ++j) row[column[j]] = values[r * n + j];
  }
}

template void gather_columns(const MatrixView<float>&, const std::uint32_t*, std::size_t, float*);
template void gather_columns(const MatrixView<Bf16>&, const std::uint32_t*, std::size_t, Bf16*);
template void scatter_columns(const float*, std::size_t, std::size_t, const std::uint32_t*, float*,
                              std::size_t);
template void scatter_columns(const Bf16*, std::size_t, std::size_t, const std::uint32_t*, Bf16*,
                              std::size_t);

}  // namespace zenflow::kernels
