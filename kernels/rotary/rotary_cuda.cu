#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/rotary/rotary_cuda.h"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    rotary_kernel(RotaryShape shape, RotaryAngles angles, float sign, Element* x) {
  const std::size_t half = shape.turned / 2;
  const std::size_t packs = half / kWidth;
  const std::size_t pack = thread_number() % packs;
  const std::size_t head = thread_number() / packs % shape.heads;
  const std::size_t row = thread_number() / packs / shape.heads;
  if (row >= shape.rows) return;
  Element* const at = x + row * shape.stride + head * shape.head_dim + pack * kWidth;
  const std::size_t angle = row % shape.length * half + pack * kWidth;
  auto low = load_pack<kWidth>(at);
  auto high = load_pack<kWidth>(at + half);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    const float a = to_float(low.at[i]);
    const float b = to_float(high.at[i]);
    const float cosine = angles.cosine[angle + i];
    const float sine = angles.sine[angle + i];
    low.at[i] = stored<Element>(a * cosine - (sign * b) * sine);
    high.at[i] = stored<Element>(b * cosine + (sign * a) * sine);
  }
  store_pack(at, low);
  store_pack(at + half, high);
}

}  // namespace

template <class Element>
void rotary_cuda(const RotaryShape& shape, RotaryAngles angles, RotaryDirection direction,
                 Element* x, cudaStream_t stream) {
  if (shape.rows == 0 || shape.heads == 0 || shape.turned == 0) return;
  const float sign = direction == RotaryDirection::kForward ? 1.0F : -1.0F;
  const std::size_t half = shape.turned / 2;
  const auto run = [&]<unsigned kWidth>() {
    launch(rotary_kernel<kWidth, Element>,
           blocks_of(shape.rows * shape.heads * (half / kWidth), kBlockSize), kBlockSize, 0, stream,
           shape, angles, sign, x);
  };
  constexpr unsigned kFull = full_pack<Element>();
  if (half % kFull == 0 && shape.head_dim % kFull == 0 && rows_fit_packs<kFull>(shape.stride, x)) {
    run.template operator()<kFull>();
  } else {
    run.template operator()<1>();
  }
}

template void rotary_cuda(const RotaryShape&, RotaryAngles, RotaryDirection, float*, cudaStream_t);
template void rotary_cuda(const RotaryShape&, RotaryAngles, RotaryDirection, Bf16*, cudaStream_t);

}  // namespace zenflow::kernels
