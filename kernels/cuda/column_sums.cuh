/// Sums over the rows of a matrix, one or several for each column, in two steps: blocks of
/// kSumBlockRows rows are added up in order, and then the sums of the blocks: eight sums, of which
/// number k adds the blocks k, k + 8, ..., added up in order. fp32 throughout; no atomics, so equal
/// inputs give equal bits.
#pragma once

#include <cstddef>

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"
#include "kernels/cuda/warp.cuh"

namespace zenflow::kernels {

inline constexpr unsigned kSumBlockRows = 64;
inline constexpr unsigned kSumThreads = 128;
inline constexpr unsigned kFinishColumns = 32;
inline constexpr unsigned kFinishSums = 8;

inline std::size_t sum_blocks(std::size_t rows) {
  return (rows + kSumBlockRows - 1) / kSumBlockRows;
}
/// Bytes for `sums` sums of each column.
inline std::size_t column_sums_workspace(std::size_t rows, std::size_t columns, unsigned sums) {
  return sizeof(float) * sums * sum_blocks(rows) * columns;
}

/// Rows that are on their way to a thread at once: a block of rows takes as long as they take to
/// come, however few blocks there are.
inline constexpr unsigned kSumRowsAtOnce = 8;
static_assert(kSumBlockRows % kSumRowsAtOnce == 0);

/// One thread per pack of columns and block of rows. `Terms` has kSums, Row<kWidth>,
/// load<kWidth>(row, column), which gives one, and add(row, sums[kSums][kWidth]).
/// partial: [kSums, blocks, columns].
template <unsigned kWidth, class Terms>
__global__ void __launch_bounds__(kSumThreads, 2)
    partial_sums_kernel(Terms terms, std::size_t rows, std::size_t columns, float* partial) {
  const std::size_t packs = columns / kWidth;
  const std::size_t block = thread_number() / packs;
  const std::size_t first = block * kSumBlockRows;
  if (first >= rows) return;
  const std::size_t column = thread_number() % packs * kWidth;
  const std::size_t end = first + kSumBlockRows < rows ? first + kSumBlockRows : rows;
  float sums[Terms::kSums][kWidth] = {};
  std::size_t r = first;
  for (; r + kSumRowsAtOnce <= end; r += kSumRowsAtOnce) {
    typename Terms::template Row<kWidth> loaded[kSumRowsAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kSumRowsAtOnce; ++k) {
      loaded[k] = terms.template load<kWidth>(r + k, column);
    }
    loads_stay_above();
#pragma unroll
    for (unsigned k = 0; k < kSumRowsAtOnce; ++k) terms.add(loaded[k], sums);
  }
  for (; r < end; ++r) terms.add(terms.template load<kWidth>(r, column), sums);
  const std::size_t blocks = (rows + kSumBlockRows - 1) / kSumBlockRows;
#pragma unroll
  for (unsigned s = 0; s < Terms::kSums; ++s) {
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      partial[(s * blocks + block) * columns + column + i] = sums[s][i];
    }
  }
}

/// out[columns] = or += the sums of `blocks` blocks.
template <class Element>
__global__ void __launch_bounds__(kFinishColumns* kFinishSums)
    finish_sums_kernel(const float* partial, std::size_t blocks, std::size_t columns, bool adds,
                       Element* out) {
  auto* const shared = dynamic_shared<float>();
  const std::size_t column = std::size_t{blockIdx.x} * kFinishColumns + threadIdx.x;
  float sum = 0.0F;
  if (column < columns) {
    for (std::size_t b = threadIdx.y; b < blocks; b += kFinishSums) {
      sum += partial[b * columns + column];
    }
  }
  shared[threadIdx.y * kFinishColumns + threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  for (unsigned k = 1; k < kFinishSums; ++k) sum += shared[k * kFinishColumns + threadIdx.x];
  out[column] = stored<Element>(adds ? to_float(out[column]) + sum : sum);
}

template <class Element>
void finish_sums(const float* partial, std::size_t rows, std::size_t columns, bool adds,
                 Element* out, LaunchStream stream) {
  launch(finish_sums_kernel<Element>, blocks_of(columns, kFinishColumns),
         dim3(kFinishColumns, kFinishSums), sizeof(float) * kFinishColumns * kFinishSums, stream,
         partial, sum_blocks(rows), columns, adds, out);
}

template <unsigned kWidth, class Terms>
void partial_sums(const Terms& terms, std::size_t rows, std::size_t columns, float* partial,
                  LaunchStream stream) {
  if (rows == 0) return;  // no blocks: the sums are 0
  launch(partial_sums_kernel<kWidth, Terms>,
         blocks_of(sum_blocks(rows) * (columns / kWidth), kSumThreads), kSumThreads, 0, stream,
         terms, rows, columns, partial);
}

}  // namespace zenflow::kernels
