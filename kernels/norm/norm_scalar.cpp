#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/norm/norm.h"

namespace zenflow::kernels {
namespace {

template <class Element>
double mean_of(const Element* x, std::size_t columns) {
  double sum = 0.0;
  for (std::size_t c = 0; c < columns; ++c) sum += static_cast<double>(to_float(x[c]));
  return sum / static_cast<double>(columns);
}

template <class Element>
double mean_square(const Element* x, std::size_t columns, double mean) {
  double sum = 0.0;
  for (std::size_t c = 0; c < columns; ++c) {
    const double centred = static_cast<double>(to_float(x[c])) - mean;
    sum += centred * centred;
  }
  return sum / static_cast<double>(columns);
}

/// What the weight multiplies.
template <class Element>
float normalized(const NormShape& shape, float n) {
  return shape.rounds_normalized ? rounded_to<Element>(n) : n;
}

template <class Element>
void forward_row(const NormShape& shape, const NormForward<Element>& v, std::size_t row) {
  const std::size_t first = shape.at(row, shape.x_stride);
  const std::size_t out = shape.at(row, shape.y_stride);
  const Element* x = v.x + first;
  if (v.delta != nullptr) {
    for (std::size_t c = 0; c < shape.columns; ++c) {
      v.sum[first + c] = as_element<Element>(to_float(x[c]) + to_float(v.delta[first + c]));
    }
    x = v.sum + first;
  }
  const double exact_mean = shape.is_layer_norm ? mean_of(x, shape.columns) : 0.0;
  const double square = mean_square(x, shape.columns, exact_mean);
  const auto mean = static_cast<float>(exact_mean);
  const auto inverse =
      static_cast<float>(1.0 / std::sqrt(square + static_cast<double>(shape.epsilon)));
  v.mean[row] = mean;
  v.inverse[row] = inverse;
  for (std::size_t c = 0; c < shape.columns; ++c) {
    const float n = normalized<Element>(shape, (to_float(x[c]) - mean) * inverse);
    const float scaled = n * (shape.offset + to_float(v.weight[c]));
    const float y = v.bias != nullptr ? scaled + to_float(v.bias[c]) : scaled;
    v.y[out + c] =
        v.residual == nullptr
            ? as_element<Element>(y)
            : as_element<Element>(to_float(v.residual[out + c]) + rounded_to<Element>(y));
  }
}

template <class Element>
void backward_row(const NormShape& shape, const NormBackward<Element>& v, std::size_t row) {
  const Element* const x = v.x + shape.at(row, shape.x_stride);
  const Element* const dy = v.dy + shape.at(row, shape.y_stride);
  Element* const dx = v.dx + shape.at(row, shape.y_stride);
  const float mean = v.mean[row];
  const float inverse = v.inverse[row];
  double sum = 0.0;
  double products = 0.0;
  for (std::size_t c = 0; c < shape.columns; ++c) {
    const float g = to_float(dy[c]) * (shape.offset + to_float(v.weight[c]));
    const float n = (to_float(x[c]) - mean) * inverse;
    sum += static_cast<double>(g);
    products += static_cast<double>(g * n);
  }
  const auto columns = static_cast<double>(shape.columns);
  const float mean_g = shape.is_layer_norm ? static_cast<float>(sum / columns) : 0.0F;
  const auto mean_products = static_cast<float>(products / columns);
  for (std::size_t c = 0; c < shape.columns; ++c) {
    const float g = to_float(dy[c]) * (shape.offset + to_float(v.weight[c]));
    const float n = (to_float(x[c]) - mean) * inverse;
    const float gradient = rounded_to<Element>(((g - mean_g) - n * mean_products) * inverse);
    const float before = v.adds ? to_float(dx[c]) : 0.0F;
    dx[c] = as_element<Element>(before + gradient);
  }
}

constexpr std::size_t kColumnsPerBlock = 64;

/// Sums over rows of a few columns; rows ascend in each of them.
using ColumnSums = std::array<double, kColumnsPerBlock>;

/// `width` columns of a row, from `first` on.
template <class Element>
void add_row(const NormShape& shape, const NormWeightGradients<Element>& v, std::size_t row,
             std::size_t first, std::size_t width, ColumnSums& weight, ColumnSums& bias) {
  const Element* const x = v.x + shape.at(row, shape.x_stride) + first;
  const Element* const by_y = v.dy + shape.at(row, shape.y_stride) + first;
  for (std::size_t c = 0; c < width; ++c) {
    const float n = normalized<Element>(shape, (to_float(x[c]) - v.mean[row]) * v.inverse[row]);
    const float dy = to_float(by_y[c]);
    weight[c] += static_cast<double>(dy * n);
    bias[c] += static_cast<double>(dy);
  }
}

template <class Parameter>
void store(const ColumnSums& sums, std::size_t columns, bool adds, Parameter* gradient) {
  for (std::size_t c = 0; c < columns; ++c) {
    const auto sum = static_cast<float>(sums[c]);
    gradient[c] = as_element<Parameter>(adds ? to_float(gradient[c]) + sum : sum);
  }
}

}  // namespace

template <class Element>
void norm_forward_scalar(const NormShape& shape, const NormForward<Element>& values, Range rows) {
  for (std::size_t r = rows.first; r < rows.end(shape.rows); ++r) forward_row(shape, values, r);
}

template <class Element>
void norm_backward_scalar(const NormShape& shape, const NormBackward<Element>& values, Range rows) {
  for (std::size_t r = rows.first; r < rows.end(shape.rows); ++r) backward_row(shape, values, r);
}

template <class Element>
void norm_weight_gradients_scalar(const NormShape& shape, const NormWeightGradients<Element>& v,
                                  Range columns) {
  const std::size_t end = columns.end(shape.columns);
  for (std::size_t first = columns.first; first < end; first += kColumnsPerBlock) {
    const std::size_t width = std::min(kColumnsPerBlock, end - first);
    ColumnSums weight{};
    ColumnSums bias{};
    for (std::size_t r = 0; r < shape.rows; ++r) {
      add_row(shape, v, r, first, width, weight, bias);
    }
    store(weight, width, v.adds, v.d_weight + first);
    if (v.d_bias != nullptr) store(bias, width, v.adds, v.d_bias + first);
  }
}

#define ZENFLOW_NORMS(Element)                                                               \
  template void norm_forward_scalar(const NormShape&, const NormForward<Element>&, Range);   \
  template void norm_backward_scalar(const NormShape&, const NormBackward<Element>&, Range); \
  template void norm_weight_gradients_scalar(const NormShape&,                               \
                                             const NormWeightGradients<Element>&, Range);
ZENFLOW_NORMS(float)
ZENFLOW_NORMS(Bf16)
ZENFLOW_NORMS(WideBf16)
#undef ZENFLOW_NORMS

}  // namespace zenflow::kernels
