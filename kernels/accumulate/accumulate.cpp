#include "kernels/accumulate/accumulate.h"

#include <cassert>

#include "kernels/accumulate/accumulate_versions.h"

namespace zenflow::kernels {
namespace {

template <Accumulation kind, class Grad>
void run(float* sum, const Grad* gradient, float scale, std::size_t n, Isa isa) {
  if constexpr (kIsX86) {
    if (isa == Isa::kAvx512) return accumulate_avx512<kind>(sum, gradient, scale, n);
    if (isa == Isa::kAvx2) return accumulate_avx2<kind>(sum, gradient, scale, n);
  }
  assert(isa == Isa::kScalar);
  accumulate_scalar<kind>(sum, gradient, scale, n);
}

}  // namespace

template <class Grad>
void accumulate(float* sum, const Grad* gradient, float scale, std::size_t n, Isa isa) {
  run<Accumulation::kFurther>(sum, gradient, scale, n, isa);
}

template <class Grad>
void accumulate_first(float* sum, const Grad* gradient, float scale, std::size_t n, Isa isa) {
  run<Accumulation::kFirst>(sum, gradient, scale, n, isa);
}

template void accumulate(float*, const float*, float, std::size_t, Isa);
template void accumulate(float*, const Bf16*, float, std::size_t, Isa);
template void accumulate_first(float*, const float*, float, std::size_t, Isa);
template void accumulate_first(float*, const Bf16*, float, std::size_t, Isa);

}  // namespace zenflow::kernels
