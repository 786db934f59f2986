#include "kernels/simd/avx512.h"
// The body needs the vectors before it.
#include "tests/bench/streaming_vector.h"

namespace zenflow::kernels::testing {

void stream_avx512(std::size_t n, AdamWState<float, float> state, const float* gradient, float zero,
                   Prefetching prefetching) {
  if (prefetching == Prefetching::kYes) {
    stream<Prefetching::kYes>(n, state, gradient, zero);
  } else {
    stream<Prefetching::kNo>(n, state, gradient, zero);
  }
}

}  // namespace zenflow::kernels::testing
