#include "kernels/cast/cast_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

/// One thread per pack of 16 bytes of fp32.
template <unsigned kWidth, class From, class To>
__global__ void cast_kernel(const From* values, To* results, PackedRange range) {
  const Portion part = portion<kWidth>(range, thread_number());
  values += part.begin;
  results += part.begin;
  if (part.count == kWidth) {
    const auto from = load_pack<kWidth>(values);
    Pack<To, kWidth> to;
    for (unsigned i = 0; i < kWidth; ++i) to.at[i] = stored<To>(to_float(from.at[i]));
    store_pack(results, to);
  } else {
    for (unsigned i = 0; i < part.count; ++i) results[i] = stored<To>(to_float(values[i]));
  }
}

template <class From, class To>
void cast(const From* values, std::size_t n, To* results, cudaStream_t stream) {
  if (n == 0) return;  // a grid has at least one block
  with_packs<full_pack<float>()>(
      n,
      [&]<unsigned kWidth>(PackedRange range) {
        launch(cast_kernel<kWidth, From, To>, blocks_of(pack_count<kWidth>(range), kBlockSize),
               kBlockSize, 0, stream, values, results, range);
      },
      values, results);
}

}  // namespace

void to_bf16_cuda(const float* values, std::size_t n, Bf16* rounded, cudaStream_t stream) {
  cast(values, n, rounded, stream);
}

void to_float_cuda(const Bf16* values, std::size_t n, float* widened, cudaStream_t stream) {
  cast(values, n, widened, stream);
}

}  // namespace zenflow::kernels
