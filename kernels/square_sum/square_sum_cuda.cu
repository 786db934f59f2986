#include <algorithm>

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
/// Sums of blocks, or of step 2, that are on their way to a thread at once.
constexpr unsigned kSumsAtOnce = 32;
static_assert(kSquareSums == kWarpSize && kSquareLanes % kWarpSize == 0);

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

/// The sum of values[first], values[first + kStride], ... below `n`, in order. A zero in the place
/// of what is not there changes no sum: none is -0.
template <unsigned kStride>
__device__ double added_up(const double* values, std::size_t n, std::size_t first) {
  double sum = 0.0;
  for (; first < n; first += std::size_t{kSumsAtOnce} * kStride) {
    double x[kSumsAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kSumsAtOnce; ++k) {
      const std::size_t at = first + std::size_t{k} * kStride;
      x[k] = at < n ? values[at] : 0.0;
    }
    loads_stay_above();
#pragma unroll
    for (unsigned k = 0; k < kSumsAtOnce; ++k) sum = __dadd_rn(sum, x[k]);
  }
  return sum;
}

/// Step 2, one warp a block, so that many multiprocessors read. Lane k of the 1,024 takes the place
/// of block k's sum, which no other one reads. Precondition: there are more blocks than lanes.
__global__ void __launch_bounds__(kWarpSize, 1)
    lanes_kernel(double* block_sums, std::size_t blocks) {
  const std::size_t k = thread_number();
  block_sums[k] = added_up<kSquareLanes>(block_sums, blocks, k);
}

/// Step 3, by one warp. A lane that is not there would be 0.
__global__ void __launch_bounds__(kWarpSize, 1)
    total_kernel(const double* lanes, std::size_t count, double* sum) {
  const double mine = added_up<kSquareSums>(lanes, count, threadIdx.x);
  double total = __shfl_sync(kAllLanes, mine, 0);
#pragma unroll
  for (unsigned k = 1; k < kSquareSums; ++k) {
    total = __dadd_rn(total, __shfl_sync(kAllLanes, mine, static_cast<int>(k)));
  }
  if (threadIdx.x == 0) *sum = total;
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
  // With no more blocks than lanes, each is a lane's only one.
  if (blocks > kSquareLanes) {
    launch(lanes_kernel, blocks_of(kSquareLanes, kWarpSize), kWarpSize, 0, stream, block_sums,
           blocks);
  }
  launch(total_kernel, 1, kWarpSize, 0, stream, block_sums, std::min(blocks, kSquareLanes), sum);
}

template void square_sum_cuda(const float*, std::size_t, double*, void*, cudaStream_t);
template void square_sum_cuda(const Bf16*, std::size_t, double*, void*, cudaStream_t);

}  // namespace zenflow::kernels
