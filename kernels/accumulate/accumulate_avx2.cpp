#include "kernels/simd/avx2.h"
// The body needs the vectors before it.
#include "kernels/accumulate/accumulate_vector.h"

namespace zenflow::kernels {

template <Accumulation kind, class Grad>
void accumulate_avx2(float* sum, const Grad* gradient, float scale, std::size_t n) {
  accumulate_range<kind>(sum, gradient, scale, n);
}

template void accumulate_avx2<Accumulation::kFirst>(float*, const float*, float, std::size_t);
template void accumulate_avx2<Accumulation::kFirst>(float*, const Bf16*, float, std::size_t);
template void accumulate_avx2<Accumulation::kFurther>(float*, const float*, float, std::size_t);
template void accumulate_avx2<Accumulation::kFurther>(float*, const Bf16*, float, std::size_t);

}  // namespace zenflow::kernels
