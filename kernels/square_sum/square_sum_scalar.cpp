#include <array>

#include "kernels/square_sum/square_sum_versions.h"

namespace zenflow::kernels {

template <class Element>
double square_sum_scalar(const Element* values, std::size_t n) {
  return sum_of_blocks(values, n, [](const Element* block, std::size_t length) {
    std::array<double, kSquareSums> sums{};
    for (std::size_t i = 0; i < length; ++i) {
      const double x = to_float(block[i]);
      sums[i % kSquareSums] += x * x;
    }
    return total(sums.data());
  });
}

template double square_sum_scalar(const float*, std::size_t);
template double square_sum_scalar(const Bf16*, std::size_t);

}  // namespace zenflow::kernels
