#include "kernels/square_sum/square_sum.h"

#include <cassert>

#include "kernels/square_sum/square_sum_versions.h"

namespace zenflow::kernels {

template <class Element>
double square_sum(const Element* values, std::size_t n, Isa isa) {
  if constexpr (kIsX86) {
    if (isa == Isa::kAvx512) return square_sum_avx512(values, n);
    if (isa == Isa::kAvx2) return square_sum_avx2(values, n);
  }
  assert(isa == Isa::kScalar);
  return square_sum_scalar(values, n);
}

template double square_sum(const float*, std::size_t, Isa);
template double square_sum(const Bf16*, std::size_t, Isa);

}  // namespace zenflow::kernels
