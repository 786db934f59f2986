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

/// One of the arrays of a launch.
template <class Element>
struct Array {
  const Element* values;
  std::size_t n;
  double* sum;
  std::size_t first_block;  ///< of the launch; its blocks' sums lie there
};

/// What kernels take as a parameter, which is 4 KiB at most.
template <class Element>
struct Arrays {
  static constexpr unsigned kMost = 64;

  Array<Element> at[kMost];
  unsigned count;
  std::size_t blocks;  ///< of all of them

  [[nodiscard]] __host__ __device__ std::size_t blocks_of(unsigned a) const {
    return (a + 1 < count ? at[a + 1].first_block : blocks) - at[a].first_block;
  }
};
static_assert(sizeof(Arrays<float>) <= 4096);

/// The array that a block belongs to: the last one that begins at it or before.
template <class Element>
__device__ unsigned array_of(const Arrays<Element>& arrays, std::size_t block) {
  unsigned first = 0;
  unsigned end = arrays.count;
  while (end - first > 1) {
    const unsigned middle = (first + end) / 2;
    if (arrays.at[middle].first_block <= block) {
      first = middle;
    } else {
      end = middle;
    }
  }
  return first;
}

/// Elements [at, at + kWidth) of `values`, [n]; zeros in the place of what is not there.
template <unsigned kWidth, class Element>
__device__ Pack<Element, kWidth> pack_or_zeros(const Element* values, std::size_t at,
                                               std::size_t n) {
  Pack<Element, kWidth> x{};
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    if (at + i < n) x.at[i] = values[at + i];
  }
  return x;
}

/// Adds the squares of a thread's elements of a block, those from `at` on, kSquareSums apart, to
/// its sums. Of a block that is not `kWhole`, or lies askew, elements are read one by one; zeros
/// change no sum.
template <bool kWhole, unsigned kWidth, class Element>
__device__ void add_squares(const Element* values, std::size_t at, std::size_t n,
                            double (&sums)[kWidth]) {
  for (unsigned p = 0; p < kPacks && (kWhole || at + p * kSquareSums < n); p += kPacksAtOnce) {
    Pack<Element, kWidth> x[kPacksAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kPacksAtOnce; ++k) {
      const std::size_t from = at + (p + k) * kSquareSums;
      if constexpr (kWhole) {
        x[k] = load_pack<kWidth>(values + from);
      } else {
        x[k] = pack_or_zeros<kWidth>(values, from, n);
      }
    }
    loads_stay_above();
#pragma unroll
    for (unsigned k = 0; k < kPacksAtOnce; ++k) {
#pragma unroll
      for (unsigned i = 0; i < kWidth; ++i) sums[i] = with_square(sums[i], to_float(x[k].at[i]));
    }
  }
}

/// The 32 sums of an array's block belong to kSquareSums / kWidth neighbouring threads, kWidth
/// each: every access of theirs is to as many bytes in a row as 32 elements are.
template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize, 2)
    block_sums_kernel(const __grid_constant__ Arrays<Element> arrays, double* block_sums) {
  constexpr unsigned kThreads = kSquareSums / kWidth;
  const std::size_t block = thread_number() / kThreads;
  const auto thread = static_cast<unsigned>(thread_number() % kThreads);
  double sums[kWidth] = {};
  if (block < arrays.blocks) {
    const Array<Element>& array = arrays.at[array_of(arrays, block)];
    const std::size_t first = (block - array.first_block) * kSquareBlock;
    const std::size_t at = first + thread * kWidth;
    if (first + kSquareBlock <= array.n && lead_of<kWidth>(array.values) == 0) {
      add_squares<true>(array.values, at, array.n, sums);
    } else {
      add_squares<false>(array.values, at, array.n, sums);
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
  if (thread == 0 && block < arrays.blocks) block_sums[block] = total;
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

/// Step 2, one warp a block, so that many multiprocessors read, for array blockIdx.y. Lane k of the
/// 1,024 takes the place of block k's sum, which no other one reads. With no more blocks than
/// lanes each is a lane's only one, and stays.
template <class Element>
__global__ void __launch_bounds__(kWarpSize, 1)
    lanes_kernel(const __grid_constant__ Arrays<Element> arrays, double* block_sums) {
  const unsigned a = blockIdx.y;
  const std::size_t blocks = arrays.blocks_of(a);
  if (blocks <= kSquareLanes) return;
  double* const sums = block_sums + arrays.at[a].first_block;
  const std::size_t k = blockIdx.x * std::size_t{kWarpSize} + threadIdx.x;
  sums[k] = added_up<kSquareLanes>(sums, blocks, k);
}

/// Step 3, by one warp for each array. A lane that is not there would be 0.
template <class Element>
__global__ void __launch_bounds__(kWarpSize, 1)
    totals_kernel(const __grid_constant__ Arrays<Element> arrays, const double* block_sums) {
  const unsigned a = blockIdx.x;
  const std::size_t blocks = arrays.blocks_of(a);
  const double mine =
      added_up<kSquareSums>(block_sums + arrays.at[a].first_block,
                            blocks < kSquareLanes ? blocks : kSquareLanes, threadIdx.x);
  double total = __shfl_sync(kAllLanes, mine, 0);
#pragma unroll
  for (unsigned k = 1; k < kSquareSums; ++k) {
    total = __dadd_rn(total, __shfl_sync(kAllLanes, mine, static_cast<int>(k)));
  }
  if (threadIdx.x == 0) *arrays.at[a].sum = total;
}

/// The first of `arrays`, as many as a launch takes.
template <class Element>
Arrays<Element> of_one_launch(std::span<const SquareSumOf<Element>> arrays) {
  Arrays<Element> found{};
  for (const SquareSumOf<Element>& one :
       arrays.first(std::min<std::size_t>(arrays.size(), Arrays<Element>::kMost))) {
    found.at[found.count++] = {one.values, one.n, one.sum, found.blocks};
    found.blocks += square_blocks(one.n);
  }
  return found;
}

template <class Element>
void sum_squares(const Arrays<Element>& arrays, double* block_sums, cudaStream_t stream) {
  constexpr unsigned kWide = full_pack<Element>();
  if (arrays.blocks > 0) {
    launch(block_sums_kernel<kWide, Element>,
           blocks_of(arrays.blocks * (kSquareSums / kWide), kBlockSize), kBlockSize, 0, stream,
           arrays, block_sums);
  }
  bool has_many = false;
  for (unsigned a = 0; a < arrays.count; ++a) has_many |= arrays.blocks_of(a) > kSquareLanes;
  if (has_many) {
    launch(lanes_kernel<Element>, {blocks_of(kSquareLanes, kWarpSize), arrays.count}, kWarpSize, 0,
           stream, arrays, block_sums);
  }
  launch(totals_kernel<Element>, arrays.count, kWarpSize, 0, stream, arrays, block_sums);
}

}  // namespace

std::size_t square_sums_workspace(std::size_t elements, std::size_t arrays) {
  return sizeof(double) * (square_blocks(elements) + arrays);  // each array ends with a part of one
}

template <class Element>
void square_sums_cuda(std::span<const SquareSumOf<Element>> arrays, void* workspace,
                      cudaStream_t stream) {
  auto* block_sums = static_cast<double*>(workspace);
  while (!arrays.empty()) {
    const Arrays<Element> together = of_one_launch(arrays);
    sum_squares(together, block_sums, stream);
    block_sums += together.blocks;
    arrays = arrays.subspan(together.count);
  }
}

template void square_sums_cuda(std::span<const SquareSumOf<float>>, void*, cudaStream_t);
template void square_sums_cuda(std::span<const SquareSumOf<Bf16>>, void*, cudaStream_t);

}  // namespace zenflow::kernels
