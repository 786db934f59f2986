#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/square_sum/square_sum_cuda.h"
#include "kernels/square_sum/square_sum_versions.h"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;
/// Packs that are on their way to a thread at once.
constexpr unsigned kPacksAtOnce = 8;
constexpr unsigned kPacks = kSquareBlock / kSquareSums;  // of a thread
static_assert(kPacks % kPacksAtOnce == 0);

std::size_t square_blocks(std::size_t n) {
  return (n + kSquareBlock - 1) / kSquareBlock;
}

__device__ double with_square(double sum, float x) {
  return __fma_rn(x, x, sum);  // rounds once: the product is exact
}

/// The 32 sums of an array block belong to kSquareSums / kWidth neighbouring threads, kWidth each:
/// every access of theirs is to as many bytes in a row as 32 elements are.
template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize, 2)
    block_sums_kernel(const Element* values, std::size_t n, double* block_sums) {
  constexpr unsigned kThreads = kSquareSums / kWidth;
  const std::size_t block = thread_number() / kThreads;
  const auto thread = static_cast<unsigned>(thread_number() % kThreads);
  const std::size_t begin = block * kSquareBlock + thread * kWidth;
  double sums[kWidth] = {};
  if ((block + 1) * kSquareBlock <= n) {
    for (unsigned p = 0; p < kPacks; p += kPacksAtOnce) {
      Pack<Element, kWidth> x[kPacksAtOnce];
#pragma unroll
      for (unsigned k = 0; k < kPacksAtOnce; ++k) {
        x[k] = load_pack<kWidth>(values + begin + (p + k) * kSquareSums);
      }
      loads_stay_above();
#pragma unroll
      for (unsigned k = 0; k < kPacksAtOnce; ++k) {
#pragma unroll
        for (unsigned i = 0; i < kWidth; ++i) sums[i] = with_square(sums[i], to_float(x[k].at[i]));
      }
    }
  } else {
    for (std::size_t at = begin; at < n; at += kSquareSums) {
#pragma unroll
      for (unsigned i = 0; i < kWidth; ++i) {
        if (at + i < n) sums[i] = with_square(sums[i], to_float(values[at + i]));
      }
    }
  }
  // The threads add theirs one after the other. All lanes take part, also those past the last
  // block.
  double total = 0.0;
  for (unsigned t = 0; t < kThreads; ++t) {
    double mine = total;
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) mine = __dadd_rn(mine, sums[i]);
    total = __shfl_sync(kAllLanes, mine, static_cast<int>(t), static_cast<int>(kThreads));
  }
  if (thread == 0 && block * kSquareBlock < n) block_sums[block] = total;
}

/// Steps 2 and 3, by one block of kSquareLanes threads.
__global__ void total_kernel(const double* block_sums, std::size_t blocks, double* sum) {
  double* lanes = dynamic_shared<double>();  // [kSquareLanes]
  const unsigned k = threadIdx.x;
  double mine = 0.0;
#pragma unroll 8
  for (std::size_t b = k; b < blocks; b += kSquareLanes) mine = __dadd_rn(mine, block_sums[b]);
  lanes[k] = mine;
  __syncthreads();
  if (k < kSquareSums) {
    mine = 0.0;
    for (unsigned i = k; i < kSquareLanes; i += kSquareSums) mine = __dadd_rn(mine, lanes[i]);
    lanes[k] = mine;  // no other thread reads it before the barrier
  }
  __syncthreads();
  if (k != 0) return;
  mine = lanes[0];
  for (unsigned i = 1; i < kSquareSums; ++i) mine = __dadd_rn(mine, lanes[i]);
  *sum = mine;
}

}  // namespace

std::size_t square_sum_workspace(std::size_t n) {
  return sizeof(double) * square_blocks(n);
}

template <class Element>
void square_sum_cuda(const Element* values, std::size_t n, double* sum, void* workspace,
                     cudaStream_t stream) {
  auto* block_sums = static_cast<double*>(workspace);
  const std::size_t blocks = square_blocks(n);
  const auto sum_blocks = [&]<unsigned kWidth>() {
    launch(block_sums_kernel<kWidth, Element>,
           blocks_of(blocks * (kSquareSums / kWidth), kBlockSize), kBlockSize, 0, stream, values, n,
           block_sums);
  };
  constexpr unsigned kWide = full_pack<Element>();
  if (blocks > 0) {
    if (lead_of<kWide>(values) == 0) {
      sum_blocks.template operator()<kWide>();
    } else {
      sum_blocks.template operator()<1>();
    }
  }
  launch(total_kernel, 1, kSquareLanes, sizeof(double) * kSquareLanes, stream, block_sums, blocks,
         sum);
}

template void square_sum_cuda(const float*, std::size_t, double*, void*, cudaStream_t);
template void square_sum_cuda(const Bf16*, std::size_t, double*, void*, cudaStream_t);

}  // namespace zenflow::kernels
