#include <algorithm>
#include <array>

#include "kernels/bias/bias.h"

namespace zenflow::kernels {

template <class Element>
void add_bias_scalar(std::size_t rows, std::size_t columns, std::size_t stride, const Element* bias,
                     Element* y) {
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t c = 0; c < columns; ++c) {
      Element& value = y[r * stride + c];
      value = as_element<Element>(to_float(value) + to_float(bias[c]));
    }
  }
}

template <class Element>
void bias_gradient_scalar(const MatrixView<Element>& dy, bool adds, ParameterOf<Element>* d_bias,
                          Range columns) {
  using Parameter = ParameterOf<Element>;
  constexpr std::size_t kColumnsPerBlock = 64;
  const std::size_t end = columns.end(dy.columns);
  for (std::size_t first = columns.first; first < end; first += kColumnsPerBlock) {
    const std::size_t width = std::min(kColumnsPerBlock, end - first);
    std::array<double, kColumnsPerBlock> sums{};
    for (std::size_t r = 0; r < dy.rows; ++r) {
      const Element* const row = dy.values + r * dy.row_stride + first;
      for (std::size_t c = 0; c < width; ++c) sums[c] += static_cast<double>(to_float(row[c]));
    }
    for (std::size_t c = 0; c < width; ++c) {
      const auto sum = static_cast<float>(sums[c]);
      Parameter& gradient = d_bias[first + c];
      gradient = as_element<Parameter>(adds ? to_float(gradient) + sum : sum);
    }
  }
}

template void add_bias_scalar(std::size_t, std::size_t, std::size_t, const float*, float*);
template void add_bias_scalar(std::size_t, std::size_t, std::size_t, const Bf16*, Bf16*);
template void bias_gradient_scalar(const MatrixView<float>&, bool, float*, Range);
template void bias_gradient_scalar(const MatrixView<Bf16>&, bool, Bf16*, Range);
template void bias_gradient_scalar(const MatrixView<WideBf16>&, bool, Bf16*, Range);

}  // namespace zenflow::kernels
