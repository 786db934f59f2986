#include "kernels/columns/columns_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {
namespace {

/// A block of threads moves a tile: one thread a selected column on the one side, one warp a row
/// of it on the contiguous one.
constexpr unsigned kTileColumns = 256;
constexpr unsigned kTileRows = kTileColumns / kWarpSize;

template <class Element>
constexpr std::size_t kTileBytes = sizeof(Element) * kTileRows* kTileColumns;

/// Where a block's tile lies in [rows, n].
struct Tile {
  std::size_t first_row;
  std::size_t first_column;
  unsigned rows;
  unsigned columns;
};

__device__ Tile tile_of(std::size_t rows, std::size_t n) {
  const std::size_t across = (n + kTileColumns - 1) / kTileColumns;
  Tile tile{blockIdx.x / across * kTileRows, blockIdx.x % across * kTileColumns, kTileRows,
            kTileColumns};
  if (tile.first_row + tile.rows > rows) tile.rows = static_cast<unsigned>(rows - tile.first_row);
  if (tile.first_column + tile.columns > n) {
    tile.columns = static_cast<unsigned>(n - tile.first_column);
  }
  return tile;
}

std::size_t tile_count(std::size_t rows, std::size_t n) {
  return (rows + kTileRows - 1) / kTileRows * ((n + kTileColumns - 1) / kTileColumns);
}

/// Copies `count` elements between a row in shared and one in global memory, by one warp; `move` is
/// called with a pack's place in the row.
template <class Element, class Move>
__device__ void by_packs(const Element* global, unsigned count, const Move& move) {
  constexpr unsigned kWidth = full_pack<Element>();
  const PackedRange range{count, lead_of<kWidth>(global)};
  for (std::size_t p = threadIdx.x % kWarpSize; p < pack_count<kWidth>(range); p += kWarpSize) {
    move(portion<kWidth>(range, p));
  }
}

template <class Element>
__device__ void store_row(const Element* tile_row, unsigned count, Element* out) {
  constexpr unsigned kWidth = full_pack<Element>();
  by_packs(out, count, [&](Portion part) {
    if (part.count == kWidth) {
      Pack<Element, kWidth> pack;
      for (unsigned i = 0; i < kWidth; ++i) pack.at[i] = tile_row[part.begin + i];
      store_pack(out + part.begin, pack);
    } else {
      for (unsigned i = 0; i < part.count; ++i) out[part.begin + i] = tile_row[part.begin + i];
    }
  });
}

template <class Element>
__device__ void load_row(const Element* values, unsigned count, Element* tile_row) {
  constexpr unsigned kWidth = full_pack<Element>();
  by_packs(values, count, [&](Portion part) {
    if (part.count == kWidth) {
      const auto pack = load_pack<kWidth>(values + part.begin);
      for (unsigned i = 0; i < kWidth; ++i) tile_row[part.begin + i] = pack.at[i];
    } else {
      for (unsigned i = 0; i < part.count; ++i) tile_row[part.begin + i] = values[part.begin + i];
    }
  });
}

template <class Element>
__global__ void __launch_bounds__(kTileColumns, 4)
    gather_kernel(MatrixView<Element> matrix, const std::uint32_t* column, std::size_t n,
                  Element* out) {
  auto* elements = dynamic_shared<Element>();  // [kTileRows, kTileColumns]
  const Tile tile = tile_of(matrix.rows, n);
  const unsigned j = threadIdx.x;
  if (j < tile.columns) {
    const Element* from =
        matrix.values + tile.first_row * matrix.row_stride + __ldg(column + tile.first_column + j);
    Element x[kTileRows];  // all on their way before the first is needed
#pragma unroll
    for (unsigned r = 0; r < kTileRows; ++r) {
      if (r < tile.rows) x[r] = from[r * matrix.row_stride];
    }
    loads_stay_above();
#pragma unroll
    for (unsigned r = 0; r < kTileRows; ++r) {
      if (r < tile.rows) elements[r * kTileColumns + j] = x[r];
    }
  }
  __syncthreads();
  const unsigned r = threadIdx.x / kWarpSize;
  if (r >= tile.rows) return;
  store_row(elements + r * kTileColumns, tile.columns,
            out + (tile.first_row + r) * n + tile.first_column);
}

template <class Element>
__global__ void scatter_kernel(const Element* values, std::size_t rows, std::size_t n,
                               const std::uint32_t* column, Element* out, std::size_t row_stride) {
  auto* elements = dynamic_shared<Element>();  // [kTileRows, kTileColumns]
  const Tile tile = tile_of(rows, n);
  const unsigned warp = threadIdx.x / kWarpSize;
  if (warp < tile.rows) {
    load_row(values + (tile.first_row + warp) * n + tile.first_column, tile.columns,
             elements + warp * kTileColumns);
  }
  __syncthreads();
  const unsigned j = threadIdx.x;
  if (j >= tile.columns) return;
  Element* to = out + tile.first_row * row_stride + __ldg(column + tile.first_column + j);
#pragma unroll
  for (unsigned r = 0; r < kTileRows; ++r) {
    if (r < tile.rows) to[r * row_stride] = elements[r * kTileColumns + j];
  }
}

}  // namespace

template <class Element>
void gather_columns_cuda(const MatrixView<Element>& matrix, const std::uint32_t* column,
                         std::size_t n, Element* out, cudaStream_t stream) {
  if (matrix.rows == 0 || n == 0) return;  // a grid has at least one block
  launch(gather_kernel<Element>, blocks_of(tile_count(matrix.rows, n), 1), kTileColumns,
         kTileBytes<Element>, stream, matrix, column, n, out);
}

template <class Element>
void scatter_columns_cuda(const Element* values, std::size_t rows, std::size_t n,
                          const std::uint32_t* column, Element* out, std::size_t row_stride,
                          cudaStream_t stream) {
  if (rows == 0 || n == 0) return;  // a grid has at least one block
  launch(scatter_kernel<Element>, blocks_of(tile_count(rows, n), 1), kTileColumns,
         kTileBytes<Element>, stream, values, rows, n, column, out, row_stride);
}

template void gather_columns_cuda(const MatrixView<float>&, const std::uint32_t*, std::size_t,
                                  float*, cudaStream_t);
template void gather_columns_cuda(const MatrixView<Bf16>&, const std::uint32_t*, std::size_t, Bf16*,
                                  cudaStream_t);
template void scatter_columns_cuda(const float*, std::size_t, std::size_t, const std::uint32_t*,
                                   float*, std::size_t, cudaStream_t);
template void scatter_columns_cuda(const Bf16*, std::size_t, std::size_t, const std::uint32_t*,
                                   Bf16*, std::size_t, cudaStream_t);

}  // namespace zenflow::kernels
