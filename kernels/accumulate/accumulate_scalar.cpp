#include <cmath>

#include "kernels/accumulate/accumulate_versions.h"

namespace zenflow::kernels {

template <Accumulation kind, class Grad>
void accumulate_scalar(float* sum, const Grad* gradient, float scale, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float g = to_float(gradient[i]);
    sum[i] = kind == Accumulation::kFirst ? scale * g : std::fma(scale, g, sum[i]);
  }
}

template void accumulate_scalar<Accumulation::kFirst>(float*, const float*, float, std::size_t);
template void accumulate_scalar<Accumulation::kFirst>(float*, const Bf16*, float, std::size_t);
template void accumulate_scalar<Accumulation::kFurther>(float*, const float*, float, std::size_t);
template void accumulate_scalar<Accumulation::kFurther>(float*, const Bf16*, float, std::size_t);

}  // namespace zenflow::kernels
