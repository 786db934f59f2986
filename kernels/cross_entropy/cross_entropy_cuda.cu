#include "kernels/cross_entropy/cross_entropy_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warp.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;
constexpr unsigned kWarps = kBlockSize / kWarpSize;

/// The maximum of the logits seen so far, its first place, and the sum of exp(x - maximum).
struct Online {
  float maximum = -INFINITY;
  float sum = 0.0F;
  unsigned place = 0xFFFFFFFFU;

  /// Precondition: places ascend.
  __device__ void add(float x, unsigned at) {
    if (x > maximum || place == 0xFFFFFFFFU) {
      sum = place == 0xFFFFFFFFU ? 1.0F : __fmaf_rn(sum, expf(maximum - x), 1.0F);
      maximum = x;
      place = at;
    } else {
      sum += expf(x - maximum);
    }
  }
  __device__ void merge(const Online& other) {
    if (other.place == 0xFFFFFFFFU) return;
    if (place == 0xFFFFFFFFU) {
      *this = other;
      return;
    }
    const bool takes = other.maximum > maximum || (other.maximum == maximum && other.place < place);
    const float larger = takes ? other.maximum : maximum;
    sum = __fmaf_rn(sum, expf(maximum - larger), other.sum * expf(other.maximum - larger));
    maximum = larger;
    if (takes) place = other.place;
  }
};

__device__ Online merged_over_block(Online online) {
  auto* const of_warps = dynamic_shared<Online>();
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    Online other;
    other.maximum = __shfl_xor_sync(kAllLanes, online.maximum, apart);
    other.sum = __shfl_xor_sync(kAllLanes, online.sum, apart);
    other.place = __shfl_xor_sync(kAllLanes, online.place, apart);
    online.merge(other);
  }
  if (lane_of_warp() == 0) of_warps[threadIdx.x / kWarpSize] = online;
  __syncthreads();
  Online all = of_warps[0];
  for (unsigned w = 1; w < kWarps; ++w) all.merge(of_warps[w]);
  return all;
}

__device__ float capped(float logit, float cap) {
  return cap > 0.0F ? cap * tanhf(logit / cap) : logit;
}

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize) cross_entropy_kernel(LogitRows<Element> all) {
  const std::size_t row = blockIdx.x;
  Element* const x = all.logits + row * all.stride;
  const std::size_t whole = all.classes / kWidth * kWidth;
  Online online;
  for (std::size_t c = std::size_t{threadIdx.x} * kWidth; c < whole; c += kBlockSize * kWidth) {
    const auto pack = load_pack<kWidth>(x + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      online.add(capped(to_float(pack.at[i]), all.cap), static_cast<unsigned>(c + i));
    }
  }
  // The last classes do not fill a pack: they are fewer than the threads of a block.
  const std::size_t rest = whole + threadIdx.x;
  if (rest < all.classes)
    online.add(capped(to_float(x[rest]), all.cap), static_cast<unsigned>(rest));

  const Online row_online = merged_over_block(online);
  const float lse = row_online.maximum + logf(row_online.sum);
  const std::int32_t target = all.targets[row];
  const bool counts = target != kIgnoredClass;
  if (threadIdx.x == 0) {
    all.losses[row] = counts ? RowLoss{lse - capped(to_float(x[target]), all.cap),
                                       row_online.place == static_cast<unsigned>(target) ? 1U : 0U}
                             : RowLoss{0.0F, 0U};
  }
  if (!all.writes_gradient) return;
  __syncthreads();  // the target's logit has been read
  const auto gradient = [&](Element logit, std::size_t c) {
    if (!counts) return stored<Element>(0.0F);
    const float one_hot = c == static_cast<std::size_t>(target) ? 1.0F : 0.0F;
    const float capped_logit = capped(to_float(logit), all.cap);
    const float by_capped = (expf(capped_logit - lse) - one_hot) * all.scale;
    const float share = all.cap > 0.0F ? capped_logit / all.cap : 0.0F;
    return stored<Element>(by_capped * (1.0F - share * share));
  };
  for (std::size_t c = std::size_t{threadIdx.x} * kWidth; c < whole; c += kBlockSize * kWidth) {
    auto pack = load_pack<kWidth>(x + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) pack.at[i] = gradient(pack.at[i], c + i);
    store_pack(x + c, pack);
  }
  if (rest < all.classes) x[rest] = gradient(x[rest], rest);
}

template <class Element>
__global__ void __launch_bounds__(kBlockSize) squared_error_kernel(OutputRows<Element> all) {
  const std::size_t row = thread_number();
  if (row >= all.rows) return;
  Element& output = all.outputs[row * all.stride];
  const float error = to_float(output) - all.values[row];
  all.losses[row] = {error * error, 0};
  if (all.writes_gradient) output = stored<Element>(2.0F * error * all.scale);
}

__global__ void __launch_bounds__(kBlockSize)
    sum_losses_kernel(const RowLoss* losses, std::size_t rows, LossSum* out) {
  auto* const of_warps = dynamic_shared<LossSum>();
  double loss = 0.0;
  unsigned long long correct = 0;
  for (std::size_t r = threadIdx.x; r < rows; r += kBlockSize) {
    loss += static_cast<double>(losses[r].loss);
    correct += losses[r].correct;
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    loss += __shfl_xor_sync(kAllLanes, loss, apart);
    correct += __shfl_xor_sync(kAllLanes, correct, apart);
  }
  if (lane_of_warp() == 0) of_warps[threadIdx.x / kWarpSize] = {loss, correct};
  __syncthreads();
  if (threadIdx.x != 0) return;
  LossSum total{0.0, 0};
  for (unsigned w = 0; w < kWarps; ++w) {
    total.loss += of_warps[w].loss;
    total.correct += of_warps[w].correct;
  }
  *out = total;
}

}  // namespace

template <class Element>
void cross_entropy_cuda(const LogitRows<Element>& rows, cudaStream_t stream) {
  if (rows.rows == 0 || rows.classes == 0) return;
  with_row_packs<Element>(
      rows.stride,
      [&]<unsigned kWidth>() {
        launch(cross_entropy_kernel<kWidth, Element>, blocks_of(rows.rows, 1), kBlockSize,
               sizeof(Online) * kWarps, stream, rows);
      },
      rows.logits);
}

template <class Element>
void squared_error_cuda(const OutputRows<Element>& rows, cudaStream_t stream) {
  if (rows.rows == 0) return;
  launch(squared_error_kernel<Element>, blocks_of(rows.rows, kBlockSize), kBlockSize, 0, stream,
         rows);
}

void sum_losses_cuda(const RowLoss* losses, std::size_t rows, LossSum* sum, cudaStream_t stream) {
  launch(sum_losses_kernel, 1, kBlockSize, sizeof(LossSum) * kWarps, stream, losses, rows, sum);
}

template void cross_entropy_cuda(const LogitRows<float>&, cudaStream_t);
template void cross_entropy_cuda(const LogitRows<Bf16>&, cudaStream_t);
template void squared_error_cuda(const OutputRows<float>&, cudaStream_t);
template void squared_error_cuda(const OutputRows<Bf16>&, cudaStream_t);

}  // namespace zenflow::kernels
