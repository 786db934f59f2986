/// RMSNorm and LayerNorm over the columns of every row, with the residual sum that precedes them.
///
/// Arithmetic, in fp32 from stored values; `stored` rounds to the element type:
///   s[c] = stored(x[c] + delta[c])                 without delta: x[c]
///   mean = (sum of s) / columns                    0 in RMSNorm
///   inverse = 1 / sqrt((sum of (s[c] - mean)^2) / columns + epsilon)
///   n[c] = (s[c] - mean) * inverse
///   r[c] = stored(n[c])                            without `rounds_normalized`: n[c]
///   y[c] = stored(r[c] * (offset + weight[c]) + bias[c])     without bias: no sum
///   y[c] = stored(residual[c] + y[c])              without residual: as it is
/// Backward, g[c] = dy[c] * (offset + weight[c]), m = (sum of g) / columns (0 in RMSNorm), p = (sum
/// of g[c] * n[c]) / columns:
///   dx[c] = stored(before + stored(((g[c] - m) - n[c] * p) * inverse))     before: dx[c], or 0
///   d_weight[c] = stored(before + sum over rows of dy * r)
///   d_bias[c] = stored(before + sum over rows of dy)
/// Sources: Zhang & Sennrich 2019, equation 4; Ba et al. 2016. Hugging Face's LlamaRMSNorm rounds
/// n, its Olmo2RMSNorm does not, and its GemmaRMSNorm has an offset of 1 besides.
///
/// The order of sums is the implementation's: the reference has them in double, rounded to fp32
/// before they are added to anything, others in fp32 within columns (or rows) * 2^-24 relative to
/// the sum of magnitudes. Everything else is the same.
#pragma once

#include <cstddef>

#include "kernels/bf16/stored.h"
#include "kernels/range.h"

namespace zenflow::kernels {

struct NormShape {
  std::size_t rows;
  std::size_t columns;
  bool is_layer_norm;  ///< else RMSNorm
  float epsilon;
  bool rounds_normalized = true;
  float offset = 0.0F;  ///< of the weight
  /// Rows may be parts of a token's: the heads of its queries. They are then next to each other,
  /// and tokens `x_stride` and `y_stride` elements apart. 0: all rows are contiguous.
  std::size_t rows_per_token = 1;
  std::size_t x_stride = 0;  ///< of x
  std::size_t y_stride = 0;  ///< of y and its gradient, and of dx

  /// Where a row begins, in an array whose tokens are `stride` apart.
  [[nodiscard]] constexpr std::size_t at(std::size_t row, std::size_t stride) const {
    if (stride == 0) return row * columns;
    return row / rows_per_token * stride + row % rows_per_token * columns;
  }
};

/// All [rows, columns], laid out as NormShape says; weight and bias [columns]; mean and inverse
/// [rows].
template <class Element>
struct NormForward {
  const Element* x;
  const Element* delta;  ///< null: none; contiguous, as x is then
  Element* sum;          ///< where s goes; with delta only; may be x or delta
  const ParameterOf<Element>* weight;
  const ParameterOf<Element>* bias;  ///< null: none
  Element* y;                        ///< neither x, delta nor sum
  float* mean;
  float* inverse;
  const Element* residual = nullptr;  ///< null: none; laid out as y, and may be y
};

template <class Element>
struct NormBackward {
  const Element* x;  ///< s of the forward pass
  const ParameterOf<Element>* weight;
  const float* mean;
  const float* inverse;
  const Element* dy;
  Element* dx;  ///< may be dy, unless it `adds`
  bool adds;    ///< to what is in dx
};

template <class Element>
struct NormWeightGradients {
  const Element* x;
  const float* mean;
  const float* inverse;
  const Element* dy;
  ParameterOf<Element>* d_weight;
  ParameterOf<Element>* d_bias;  ///< null: none
  bool adds;
};

// The references, which are the host's operations, too. There is Element = float, Bf16 and
// WideBf16.
template <class Element>
void norm_forward_scalar(const NormShape& shape, const NormForward<Element>& values,
                         Range rows = {});
template <class Element>
void norm_backward_scalar(const NormShape& shape, const NormBackward<Element>& values,
                          Range rows = {});
template <class Element>
void norm_weight_gradients_scalar(const NormShape& shape,
                                  const NormWeightGradients<Element>& values, Range columns = {});

}  // namespace zenflow::kernels
