/// A vector added to every row, and its gradient.
///
/// Arithmetic, in fp32 from stored values: y[r, c] = stored(y[r, c] + bias[c]), bit for bit in
/// every implementation; d_bias[c] = stored(before + sum over rows of dy[r, c]), before: d_bias[c]
/// or 0. The reference sums in double and rounds to fp32 before it adds, CUDA sums as
/// column_sums.cuh says, within rows * 2^-24 relative to the sum of magnitudes.
#pragma once

#include <cstddef>

#include "kernels/bf16/stored.h"
#include "kernels/matrix_view.h"
#include "kernels/range.h"

namespace zenflow::kernels {

// The references. There is Element = float and Bf16; of the gradient, which is the host's
// operation, too, also WideBf16.
/// y[rows, columns], rows `stride` elements apart.
template <class Element>
void add_bias_scalar(std::size_t rows, std::size_t columns, std::size_t stride, const Element* bias,
                     Element* y);
template <class Element>
void bias_gradient_scalar(const MatrixView<Element>& dy, bool adds, ParameterOf<Element>* d_bias,
                          Range columns = {});

}  // namespace zenflow::kernels
