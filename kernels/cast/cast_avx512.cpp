#include "kernels/simd/avx512.h"
// The body needs the vectors before it.
#include "kernels/cast/cast_vector.h"

namespace zenflow::kernels {

template <class From, class To>
void cast_avx512(const From* values, std::size_t n, To* results) {
  cast_range(values, n, results);
}

template void cast_avx512(const float*, std::size_t, Bf16*);
template void cast_avx512(const Bf16*, std::size_t, float*);

}  // namespace zenflow::kernels
