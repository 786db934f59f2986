/// Selected columns of a matrix, taken out into a matrix of their own and put back.
///
/// Copies, so there is no arithmetic and one implementation for the host: each element costs the
/// cache line that it lies in, and no instruction set brings those sooner.
///
/// Rows stand alone: for a range of rows move `values`, `out` and the like by whole rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bf16/bf16.h"
#include "kernels/matrix_view.h"

namespace zenflow::kernels {

/// out[r * n + j] = matrix(r, column[j]). `column` is [n], every entry below matrix.columns, in any
/// order, repeated or not; `out` is [matrix.rows, n], contiguous, and does not overlap the matrix.
/// There is Element = float and Bf16.
template <class Element>
void gather_columns(const MatrixView<Element>& matrix, const std::uint32_t* column, std::size_t n,
                    Element* out);

/// out[r * row_stride + column[j]] = values[r * n + j]: the reverse. `values` is [rows, n],
/// contiguous; columns not named keep what they hold; of a column named twice the last counts.
template <class Element>
void scatter_columns(const Element* values, std::size_t rows, std::size_t n,
                     const std::uint32_t* column, Element* out, std::size_t row_stride);

}  // namespace zenflow::kernels
