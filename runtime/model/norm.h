/// RMSNorm and LayerNorm over the columns of every row.
///
/// With m the row's mean (0 in RMSNorm), s the mean of (x - m)^2 and n = (x - m) / sqrt(s +
/// epsilon):
///   y = n * weight + bias (no bias in RMSNorm)
///   dx = (g - mean(g) - n * mean(g * n)) / sqrt(s + epsilon)     g = dy * weight
/// where mean(g) is absent in RMSNorm. Sources: Zhang & Sennrich 2019, equation 4; Ba et al. 2016.
/// In bf16, n is rounded before it is scaled, as Hugging Face's LlamaRMSNorm does.
#pragma once

#include <cstdint>

#include "runtime/model/numerics.h"

namespace zenflow::runtime {

struct NormShape {
  std::int64_t columns;
  bool is_layer_norm;  ///< else RMSNorm
  float epsilon;
};

/// fp32, [columns] each.
struct NormWeights {
  const float* weight;
  const float* bias = nullptr;
};

/// [rows] each: kept from forward for backward.
struct NormStatistics {
  float* mean;
  float* inverse_deviation;
};

/// y[rows, columns] from x; y may not be x.
void norm_forward(const Execution& run, NormShape shape, NormWeights weights, std::int64_t rows,
                  const float* x, float* y, NormStatistics statistics);

/// dx[rows, columns] += the gradient by x; d_weight and d_bias [columns], fp32, are written, d_bias
/// only for LayerNorm.
struct NormGradients {
  float* dx;
  float* d_weight;
  float* d_bias = nullptr;
};
void norm_backward(const Execution& run, NormShape shape, const float* weight, std::int64_t rows,
                   const float* x, NormStatistics statistics, const float* dy,
                   NormGradients gradients);

}  // namespace zenflow::runtime
