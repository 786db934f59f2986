#include "kernels/column_norm/column_norm_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {
namespace {

/// Columns of a thread: each of its two kinds of sums is stored in one access of 16 bytes.
constexpr unsigned kThreadColumns = 4;
/// Four blocks are on a multiprocessor at once (__launch_bounds__).
template <class Element>
constexpr unsigned kBlockSize = sizeof(Element) == 2 ? 256 : 128;
/// Few columns are spread over many processors.
constexpr unsigned kFinishBlockSize = 64;
/// Rows that are on their way to a thread at once. A matrix of 4,096 columns has 1,024 threads with
/// 16 or 8 bytes a row for each block of rows, so that each has to keep many bytes under way.
constexpr unsigned kRowsAtOnce = 16;
static_assert(kNormBlockRows % kRowsAtOnce == 0);
/// Blocks whose sums are on their way to a thread at once.
constexpr unsigned kBlocksAtOnce = 32;

std::size_t row_blocks(std::size_t rows) {
  return (rows + kNormBlockRows - 1) / kNormBlockRows;
}

/// Sums of a block of rows, of [blocks, columns] each.
struct BlockSums {
  float* magnitudes;
  float* squares;
};

template <unsigned kWidth>
struct ColumnSums {
  Pack<float, kWidth> magnitude = {};
  Pack<float, kWidth> square = {};

  template <class Element>
  __device__ void add(const Element* x, unsigned count) {
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      if (i >= count) break;
      const float value = to_float(x[i]);
      magnitude.at[i] = __fadd_rn(magnitude.at[i], fabsf(value));
      square.at[i] = __fadd_rn(square.at[i], __fmul_rn(value, value));
    }
  }
};

/// Adds up `rows` rows of whole packs; the loads of kRowsAtOnce of them come before their sums.
template <unsigned kWidth, class Element>
__device__ void add_rows(ColumnSums<kWidth>& sums, const Element* first, std::size_t row_stride,
                         unsigned rows) {
  for (; rows >= kRowsAtOnce; rows -= kRowsAtOnce, first += kRowsAtOnce * row_stride) {
    Pack<Element, kWidth> x[kRowsAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kRowsAtOnce; ++k) {
      x[k] = load_pack<kWidth>(first + k * row_stride);
    }
    loads_stay_above();
#pragma unroll
    for (unsigned k = 0; k < kRowsAtOnce; ++k) sums.add(x[k].at, kWidth);
  }
  for (; rows > 0; --rows, first += row_stride) sums.add(load_pack<kWidth>(first).at, kWidth);
}

template <unsigned kWidth>
__device__ void store_sums(float* to, const Pack<float, kWidth>& sums, unsigned count) {
  if (count == kWidth && lead_of<kWidth>(to) == 0) {
    store_pack(to, sums);
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    if (i >= count) break;
    to[i] = sums.at[i];
  }
}

/// One thread per pack of columns and block of rows; neighbouring threads have neighbouring packs.
template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize<Element>, 4)
    block_sums_kernel(MatrixView<Element> matrix, unsigned lead, BlockSums out) {
  const PackedRange range{matrix.columns, lead};
  const std::size_t packs = pack_count<kWidth>(range);
  const std::size_t block = thread_number() / packs;
  const std::size_t first_row = block * kNormBlockRows;
  if (first_row >= matrix.rows) return;
  const Portion part = portion<kWidth>(range, thread_number() % packs);
  const std::size_t rest = matrix.rows - first_row;
  const auto rows = static_cast<unsigned>(rest < kNormBlockRows ? rest : kNormBlockRows);
  const Element* first = matrix.values + first_row * matrix.row_stride + part.begin;
  ColumnSums<kWidth> sums;
  // Where it is called with a constant, no register has to hold part.count.
  const auto store = [&](unsigned count) {
    const std::size_t at = block * matrix.columns + part.begin;
    store_sums(out.magnitudes + at, sums.magnitude, count);
    store_sums(out.squares + at, sums.square, count);
  };
  if (part.count == kWidth) {
    add_rows(sums, first, matrix.row_stride, rows);
    store(kWidth);
  } else {
    for (unsigned r = 0; r < rows; ++r) sums.add(first + r * matrix.row_stride, part.count);
    store(part.count);
  }
}

__device__ float canonical(float norm) {
  return isnan(norm) ? kNormNaN : norm;
}

/// Adds `count` numbers from the one of index `at` on, `stride` apart, in order.
__device__ float added_up(const float* values, std::size_t at, std::size_t count,
                          std::size_t stride) {
  float sum = 0.0F;
  std::size_t b = 0;
  for (; b + kBlocksAtOnce <= count; b += kBlocksAtOnce) {
    float x[kBlocksAtOnce];
#pragma unroll
    for (unsigned k = 0; k < kBlocksAtOnce; ++k) x[k] = values[at + (b + k) * stride];
    loads_stay_above();
#pragma unroll
    for (unsigned k = 0; k < kBlocksAtOnce; ++k) sum = __fadd_rn(sum, x[k]);
  }
  for (; b < count; ++b) sum = __fadd_rn(sum, values[at + b * stride]);
  return sum;
}

/// One thread per column.
__global__ void __launch_bounds__(kFinishBlockSize, 8)
    finish_norms_kernel(BlockSums sums, std::size_t blocks, std::size_t columns,
                        ColumnNorms norms) {
  const std::size_t column = thread_number();
  if (column >= columns) return;
  norms.l1[column] = canonical(added_up(sums.magnitudes, column, blocks, columns));
  norms.l2[column] = canonical(__fsqrt_rn(added_up(sums.squares, column, blocks, columns)));
}

template <class Element>
void column_norms(const MatrixView<Element>& matrix, ColumnNorms norms, void* workspace,
                  cudaStream_t stream) {
  if (matrix.columns == 0) return;  // a grid has at least one block
  const std::size_t blocks = row_blocks(matrix.rows);
  auto* magnitudes = static_cast<float*>(workspace);
  const BlockSums sums{magnitudes, magnitudes + blocks * matrix.columns};
  const auto sum_blocks = [&]<unsigned kWidth>(PackedRange range) {
    launch(block_sums_kernel<kWidth, Element>,
           blocks_of(blocks * pack_count<kWidth>(range), kBlockSize<Element>), kBlockSize<Element>,
           0, stream, matrix, range.lead, sums);
  };
  if (blocks > 0) {
    // With two rows as arrays, packs lie alike in all rows.
    with_packs<kThreadColumns>(matrix.columns, sum_blocks, matrix.values,
                               matrix.values + (matrix.rows > 1 ? matrix.row_stride : 0));
  }
  launch(finish_norms_kernel, blocks_of(matrix.columns, kFinishBlockSize), kFinishBlockSize, 0,
         stream, sums, blocks, matrix.columns, norms);
}

}  // namespace

std::size_t column_norm_workspace(std::size_t rows, std::size_t columns) {
  return 2 * sizeof(float) * row_blocks(rows) * columns;
}

void column_norms_cuda(const MatrixView<float>& matrix, ColumnNorms norms, void* workspace,
                       cudaStream_t stream) {
  column_norms(matrix, norms, workspace, stream);
}

void column_norms_cuda(const MatrixView<Bf16>& matrix, ColumnNorms norms, void* workspace,
                       cudaStream_t stream) {
  column_norms(matrix, norms, workspace, stream);
}

}  // namespace zenflow::kernels
