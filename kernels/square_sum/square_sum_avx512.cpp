#include "kernels/simd/avx512.h"
// The body needs the vectors before it.
#include "kernels/square_sum/square_sum_vector.h"

namespace zenflow::kernels {

template <class Element>
double square_sum_avx512(const Element* values, std::size_t n) {
  return square_sum_range(values, n);
}

template double square_sum_avx512(const float*, std::size_t);
template double square_sum_avx512(const Bf16*, std::size_t);

}  // namespace zenflow::kernels
