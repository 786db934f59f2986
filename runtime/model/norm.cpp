#include "runtime/model/norm.h"

#include <array>
#include <cmath>

namespace zenflow::runtime {
namespace {

double mean_of(const float* x, std::int64_t columns) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < columns; ++c) sum += static_cast<double>(x[c]);
  return sum / static_cast<double>(columns);
}

double mean_square(const float* x, std::int64_t columns, double mean) {
  double sum = 0.0;
  for (std::int64_t c = 0; c < columns; ++c) {
    const double centred = static_cast<double>(x[c]) - mean;
    sum += centred * centred;
  }
  return sum / static_cast<double>(columns);
}

/// One row of dx, summed to what is there.
void input_gradient(const Execution& run, NormShape shape, const float* weight, const float* x,
                    float mean, float inverse, const float* dy, float* dx) {
  const Rounding rounded = run.rounding();
  double sum = 0.0;
  double products = 0.0;
  for (std::int64_t c = 0; c < shape.columns; ++c) {
    const float g = dy[c] * weight[c];
    sum += static_cast<double>(g);
    products += static_cast<double>(g * ((x[c] - mean) * inverse));
  }
  const auto columns = static_cast<double>(shape.columns);
  const float mean_g = shape.is_layer_norm ? static_cast<float>(sum / columns) : 0.0F;
  const auto mean_products = static_cast<float>(products / columns);
  for (std::int64_t c = 0; c < shape.columns; ++c) {
    const float n = (x[c] - mean) * inverse;
    const float gradient = (dy[c] * weight[c] - mean_g - n * mean_products) * inverse;
    dx[c] = rounded(dx[c] + rounded(gradient));
  }
}

constexpr std::int64_t kColumnsPerBlock = 64;

void weight_gradients(const Execution& run, NormShape shape, std::int64_t rows, const float* x,
                      NormStatistics statistics, const float* dy, NormGradients gradients) {
  const Rounding rounded = run.rounding();
  for_ranges(run.pool, shape.columns, kColumnsPerBlock, [&](std::int64_t first, std::int64_t last) {
    std::array<double, kColumnsPerBlock> weight{};
    std::array<double, kColumnsPerBlock> bias{};
    for (std::int64_t r = 0; r < rows; ++r) {
      const float mean = statistics.mean[r];
      const float inverse = statistics.inverse_deviation[r];
      for (std::int64_t c = first; c < last; ++c) {
        const std::int64_t at = r * shape.columns + c;
        const auto i = static_cast<std::size_t>(c - first);
        const float n = rounded((x[at] - mean) * inverse);
        weight[i] += static_cast<double>(dy[at] * n);
        bias[i] += static_cast<double>(dy[at]);
      }
    }
    for (std::int64_t c = first; c < last; ++c) {
      const auto i = static_cast<std::size_t>(c - first);
      gradients.d_weight[c] = static_cast<float>(weight[i]);
      if (gradients.d_bias != nullptr) gradients.d_bias[c] = static_cast<float>(bias[i]);
    }
  });
}

}  // namespace

void norm_forward(const Execution& run, NormShape shape, NormWeights weights, std::int64_t rows,
                  const float* x, float* y, NormStatistics statistics) {
  const Rounding rounded = run.rounding();
  const std::int64_t columns = shape.columns;
  for_ranges(run.pool, rows, rows_per_block(columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      const float* const in = x + r * columns;
      float* const out = y + r * columns;
      const double exact_mean = shape.is_layer_norm ? mean_of(in, columns) : 0.0;
      const double variance = mean_square(in, columns, exact_mean);
      const auto mean = static_cast<float>(exact_mean);
      const auto inverse =
          static_cast<float>(1.0 / std::sqrt(variance + static_cast<double>(shape.epsilon)));
      statistics.mean[r] = mean;
      statistics.inverse_deviation[r] = inverse;
      for (std::int64_t c = 0; c < columns; ++c) {
        const float scaled = rounded((in[c] - mean) * inverse) * weights.weight[c];
        out[c] = rounded(weights.bias != nullptr ? scaled + weights.bias[c] : scaled);
      }
    }
  });
}

void norm_backward(const Execution& run, NormShape shape, const float* weight, std::int64_t rows,
                   const float* x, NormStatistics statistics, const float* dy,
                   NormGradients gradients) {
  const std::int64_t columns = shape.columns;
  for_ranges(run.pool, rows, rows_per_block(columns), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t r = first; r < last; ++r) {
      input_gradient(run, shape, weight, x + r * columns, statistics.mean[r],
                     statistics.inverse_deviation[r], dy + r * columns, gradients.dx + r * columns);
    }
  });
  weight_gradients(run, shape, rows, x, statistics, dy, gradients);
}

}  // namespace zenflow::runtime
