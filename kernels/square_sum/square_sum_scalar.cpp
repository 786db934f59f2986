#include <array>

#include "kernels/square_sum/square_sum_versions.h"

namespace zenflow::kernels {

template <class Element>
double square_sum_scalar(const Element* values, std::size_t n) {
  std::array<double, kSquareSums> sums{};
  for (std::size_t i = 0; i < n; ++i) {
    const double x = to_float(values[i]);
    sums[i % kSquareSums] += x * x;
  }
  return total(sums.data());
}

template double square_sum_scalar(const float*, std::size_t);
template double square_sum_scalar(const Bf16*, std::size_t);

}  // namespace zenflow::kernels
