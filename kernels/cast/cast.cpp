#include "kernels/cast/cast.h"

#include <cassert>

#include "kernels/cast/cast_versions.h"

namespace zenflow::kernels {
namespace {

template <class From, class To>
void run(const From* values, std::size_t n, To* results, Isa isa) {
  if constexpr (kIsX86) {
    if (isa == Isa::kAvx512) return cast_avx512(values, n, results);
    if (isa == Isa::kAvx2) return cast_avx2(values, n, results);
  }
  assert(isa == Isa::kScalar);
  cast_scalar(values, n, results);
}

}  // namespace

void to_bf16(const float* values, std::size_t n, Bf16* rounded, Isa isa) {
  run(values, n, rounded, isa);
}

void to_float(const Bf16* values, std::size_t n, float* widened, Isa isa) {
  run(values, n, widened, isa);
}

}  // namespace zenflow::kernels
