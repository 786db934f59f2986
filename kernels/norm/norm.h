/// RMSNorm and LayerNorm over the columns of every row, with the residual sum that precedes them.
///
/// Arithmetic, in fp32 from stored values; `stored` rounds to the element type:
///   s[c] = stored(x[c] + delta[c])                 without delta: x[c]
///   mean = (sum of s) / columns                    0 in RMSNorm
///   inverse = 1 / sqrt((sum of (s[c] - mean)^2) / columns + epsilon)
///   n[c] = (s[c] - mean) * inverse
///   y[c] = stored(stored(n[c]) * weight[c] + bias[c])        without bias: no sum
/// Backward, g[c] = dy[c] * weight[c], m = (sum of g) / columns (0 in RMSNorm), p = (sum of
/// g[c] * n[c]) / columns:
///   dx[c] = stored(before + stored(((g[c] - m) - n[c] * p) * inverse))     before: dx[c], or 0
///   d_weight[c] = stored(before + sum over rows of dy * stored(n))
///   d_bias[c] = stored(before + sum over rows of dy)
/// Sources: Zhang & Sennrich 2019, equation 4; Ba et al. 2016; n is rounded as Hugging Face's
/// LlamaRMSNorm does.
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
};

/// All [rows, columns] contiguous; weight and bias [columns]; mean and inverse [rows].
template <class Element>
struct NormForward {
  const Element* x;
  const Element* delta;  ///< null: none
  Element* sum;          ///< where s goes; with delta only; may be x or delta
  const ParameterOf<Element>* weight;
  const ParameterOf<Element>* bias;  ///< null: none
  Element* y;                        ///< neither x, delta nor sum
  float* mean;
  float* inverse;
};

template <class Element>
struct NormBackward {
  const Element* x;  ///< s of the forward pass
  const ParameterOf<Element>* weight;
  const float* mean;
  const float* inverse;
  const Element* dy;
  Element* dx;
  bool adds;  ///< to what is in dx
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
