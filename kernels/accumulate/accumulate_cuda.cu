#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/accumulate/accumulate_versions.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

template <Accumulation kind, class Grad>
__device__ float next_sum(float sum, Grad gradient, float scale) {
  const float g = to_float(gradient);
  return kind == Accumulation::kFirst ? __fmul_rn(scale, g) : __fmaf_rn(scale, g, sum);
}

/// One thread per pack.
template <unsigned kWidth, Accumulation kind, class Grad>
__global__ void accumulate_kernel(float* sum, const Grad* gradient, float scale,
                                  PackedRange range) {
  const Portion part = portion<kWidth>(range, thread_number());
  sum += part.begin;
  gradient += part.begin;
  if (part.count == kWidth) {
    const auto g = load_pack<kWidth>(gradient);
    Pack<float, kWidth> total{};
    if constexpr (kind == Accumulation::kFurther) {
      total = load_pack<kWidth>(static_cast<const float*>(sum));
    }
    for (unsigned i = 0; i < kWidth; ++i) {
      total.at[i] = next_sum<kind>(total.at[i], g.at[i], scale);
    }
    store_pack(sum, total);
  } else {
    for (unsigned i = 0; i < part.count; ++i) {
      sum[i] = next_sum<kind>(kind == Accumulation::kFirst ? 0.0F : sum[i], gradient[i], scale);
    }
  }
}

template <Accumulation kind, class Grad>
void run(float* sum, const Grad* gradient, float scale, std::size_t n, cudaStream_t stream) {
  if (n == 0) return;  // a grid has at least one block
  with_packs<full_pack<float>()>(
      n,
      [&]<unsigned kWidth>(PackedRange range) {
        launch(accumulate_kernel<kWidth, kind, Grad>,
               blocks_of(pack_count<kWidth>(range), kBlockSize), kBlockSize, 0, stream, sum,
               gradient, scale, range);
      },
      sum, gradient);
}

}  // namespace

template <class Grad>
void accumulate_cuda(float* sum, const Grad* gradient, float scale, std::size_t n,
                     cudaStream_t stream) {
  run<Accumulation::kFurther>(sum, gradient, scale, n, stream);
}

template <class Grad>
void accumulate_first_cuda(float* sum, const Grad* gradient, float scale, std::size_t n,
                           cudaStream_t stream) {
  run<Accumulation::kFirst>(sum, gradient, scale, n, stream);
}

template void accumulate_cuda(float*, const float*, float, std::size_t, cudaStream_t);
template void accumulate_cuda(float*, const Bf16*, float, std::size_t, cudaStream_t);
template void accumulate_first_cuda(float*, const float*, float, std::size_t, cudaStream_t);
template void accumulate_first_cuda(float*, const Bf16*, float, std::size_t, cudaStream_t);

}  // namespace zenflow::kernels
