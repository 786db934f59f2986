#include "kernels/bf16/stored.h"
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
void bias_gradient_scalar(const MatrixView<Element>& dy, bool adds, Element* d_bias) {
  for (std::size_t c = 0; c < dy.columns; ++c) {
    double sum = adds ? static_cast<double>(to_float(d_bias[c])) : 0.0;
    for (std::size_t r = 0; r < dy.rows; ++r) {
      sum += static_cast<double>(to_float(dy.values[r * dy.row_stride + c]));
    }
    d_bias[c] = as_element<Element>(static_cast<float>(sum));
  }
}

template void add_bias_scalar(std::size_t, std::size_t, std::size_t, const float*, float*);
template void add_bias_scalar(std::size_t, std::size_t, std::size_t, const Bf16*, Bf16*);
template void bias_gradient_scalar(const MatrixView<float>&, bool, float*);
template void bias_gradient_scalar(const MatrixView<Bf16>&, bool, Bf16*);

}  // namespace zenflow::kernels
