/// Attention with tensor cores: a block of four warps has 64 queries (or keys), 16 for each warp,
/// and passes over tiles of keys (or queries) in shared memory. Scores live in registers, as the
/// sums of one product and, rounded, the left side of the next.
///
/// Backward has one kernel for the queries' gradients and one for those of keys and values, which
/// each compute the scores again: seven products in place of five, and no atomics.
#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/warp.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 128;
constexpr unsigned kTile = 64;      ///< rows of a block, and keys of a tile
constexpr unsigned kWarpRows = 16;  ///< of the block's rows
constexpr unsigned kHalf = 32;      ///< columns of scores that backward holds at once
constexpr float kLog2E = 1.4426950408889634F;
constexpr float kLn2 = 0.6931471805599453F;

/// A row of a tile in shared memory: 16 bytes longer than a head, so that the eight rows that
/// ldmatrix reads at once lie in different banks.
template <unsigned kD>
inline constexpr unsigned kRow = kD + 8;

template <unsigned kD>
constexpr std::size_t tile_bytes(unsigned rows) {
  return sizeof(Bf16) * rows * kRow<kD>;
}

struct Lane {
  unsigned warp = threadIdx.x / kWarpSize;
  unsigned number = threadIdx.x % kWarpSize;
  unsigned g = number / 4;
  unsigned t = number % 4;
  unsigned matrix = number / 8;  ///< that it names a row of, for ldmatrix
  unsigned row = number % 8;
};

/// Rows [0, rows) of [*, kD], `stride` apart, to shared memory; those from `valid` on are zeros.
template <unsigned kD>
__device__ void load_tile(Bf16* tile, const Bf16* from, std::size_t stride, unsigned rows,
                          std::size_t valid) {
  constexpr unsigned kPacks = kD / 8;
  for (unsigned i = threadIdx.x; i < rows * kPacks; i += kBlockSize) {
    const unsigned row = i / kPacks;
    const unsigned column = i % kPacks * 8;
    Pack<Bf16, 8> pack{};
    if (row < valid) pack = load_pack<8>(from + row * stride + column);
    store_pack(tile + row * kRow<kD> + column, pack);
  }
}

__device__ std::uint32_t load_pair(const Bf16* from) {
  return *reinterpret_cast<const std::uint32_t*>(from);
}

/// The 16 rows of a warp as left sides of products over kD.
template <unsigned kD>
struct LeftRows {
  std::uint32_t at[kD / 16][4];

  /// Rows `stride` apart in global memory; those from `valid` on are zeros.
  __device__ void load(const Bf16* from, std::size_t stride, std::size_t valid, const Lane& lane) {
#pragma unroll
    for (unsigned k = 0; k < kD / 16; ++k) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane.g + (i % 2) * 8;
        const unsigned column = k * 16 + lane.t * 2 + (i / 2) * 8;
        at[k][i] = row < valid ? load_pair(from + row * stride + column) : 0U;
      }
    }
  }
};

/// sums[kN / 8][4] += left * tile^T: 16 rows by kN rows of the tile.
template <unsigned kD, unsigned kN>
__device__ void multiply_rows(float (&sums)[kN / 8][4], const LeftRows<kD>& left, const Bf16* tile,
                              const Lane& lane) {
#pragma unroll
  for (unsigned k = 0; k < kD / 16; ++k) {
#pragma unroll
    for (unsigned n = 0; n < kN / 16; ++n) {
      std::uint32_t b[4];
      load_matrices(b, tile + (n * 16 + lane.matrix / 2 * 8 + lane.row) * kRow<kD> + k * 16 +
                           lane.matrix % 2 * 8);
      mma_16x8x16(sums[2 * n], left.at[k], b[0], b[1]);
      mma_16x8x16(sums[2 * n + 1], left.at[k], b[2], b[3]);
    }
  }
}

/// The same with the left rows in shared memory, from `left` on.
template <unsigned kD, unsigned kN>
__device__ void multiply_rows(float (&sums)[kN / 8][4], const Bf16* left, const Bf16* tile,
                              const Lane& lane) {
#pragma unroll
  for (unsigned k = 0; k < kD / 16; ++k) {
    std::uint32_t a[4];
    load_matrices(
        a, left + (lane.matrix % 2 * 8 + lane.row) * kRow<kD> + k * 16 + lane.matrix / 2 * 8);
#pragma unroll
    for (unsigned n = 0; n < kN / 16; ++n) {
      std::uint32_t b[4];
      load_matrices(b, tile + (n * 16 + lane.matrix / 2 * 8 + lane.row) * kRow<kD> + k * 16 +
                           lane.matrix % 2 * 8);
      mma_16x8x16(sums[2 * n], a, b[0], b[1]);
      mma_16x8x16(sums[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// sums[kD / 8][4] += rounded(left) * tile: left is [16, kK], sums of another product.
template <unsigned kD, unsigned kK>
__device__ void multiply_columns(float (&sums)[kD / 8][4], const float (&left)[kK / 8][4],
                                 const Bf16* tile, const Lane& lane) {
#pragma unroll
  for (unsigned k = 0; k < kK / 16; ++k) {
    const float(&low)[4] = left[2 * k];
    const float(&high)[4] = left[2 * k + 1];
    const std::uint32_t a[4] = {bf16_pair(low[0], low[1]), bf16_pair(low[2], low[3]),
                                bf16_pair(high[0], high[1]), bf16_pair(high[2], high[3])};
#pragma unroll
    for (unsigned n = 0; n < kD / 16; ++n) {
      std::uint32_t b[4];
      load_matrices_transposed(b, tile + (k * 16 + lane.matrix % 2 * 8 + lane.row) * kRow<kD> +
                                      n * 16 + lane.matrix / 2 * 8);
      mma_16x8x16(sums[2 * n], a, b[0], b[1]);
      mma_16x8x16(sums[2 * n + 1], a, b[2], b[3]);
    }
  }
}

/// Writes the 16 rows of a warp: row g times factor[0], row g + 8 times factor[1].
template <unsigned kD>
__device__ void store_rows(const float (&sums)[kD / 8][4], const float (&factor)[2], Bf16* to,
                           std::size_t stride, std::size_t valid, const Lane& lane) {
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const unsigned row = lane.g + half * 8;
    if (row >= valid) continue;
#pragma unroll
    for (unsigned n = 0; n < kD / 8; ++n) {
      *reinterpret_cast<std::uint32_t*>(to + row * stride + n * 8 + lane.t * 2) =
          bf16_pair(sums[n][2 * half] * factor[half], sums[n][2 * half + 1] * factor[half]);
    }
  }
}

/// The first tile of keys that the queries of tile number `tile` see.
template <bool kPlain>
__device__ std::size_t first_tile(const AttentionShape& shape, std::size_t tile) {
  return kPlain ? 0 : shape.first_key(tile * kTile) / kTile;
}

/// How many of the rows from `first` on are in a sequence.
__device__ std::size_t rows_left(std::size_t length, std::size_t first) {
  return first < length ? length - first : 0;
}

/// Over the four lanes that share a row.
__device__ float quad_max(float value) {
  value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, 1));
  return fmaxf(value, __shfl_xor_sync(kAllLanes, value, 2));
}
__device__ float quad_sum(float value) {
  value += __shfl_xor_sync(kAllLanes, value, 1);
  return value + __shfl_xor_sync(kAllLanes, value, 2);
}

/// What a place of a tile has, from a product. Without window and cap (kPlain) it is one
/// multiplication.
template <bool kPlain>
struct Score {
  float exponent;  ///< times log2(e)
  float slope;     ///< of the score by the product

  __device__ Score(const AttentionShape& shape, float product)
      : exponent(product * (shape.scale * kLog2E)), slope(shape.scale) {
    if (kPlain || shape.cap <= 0.0F) return;
    const float t = tanhf(product * shape.scale / shape.cap);
    exponent = shape.cap * t * kLog2E;
    slope *= 1.0F - t * t;
  }
};

/// Whether the token at `row` of its sequence sees the key at `key`, which is not after it.
template <bool kPlain>
__device__ bool is_in_window(const AttentionShape& shape, std::size_t row, std::size_t key) {
  return kPlain || shape.window == 0 || row - key < shape.window;
}

/// Exponents become exponentials. Sums are of this lane's columns.
struct OnlineSoftmax {
  float maximum[2] = {-INFINITY, -INFINITY};
  float sum[2] = {0.0F, 0.0F};

  /// exponent(product, row of the block, key of the tile): -INFINITY where the row does not see it.
  template <unsigned kOut, class Exponent>
  __device__ void take(float (&scores)[kTile / 8][4], float (&out)[kOut][4],
                       const Exponent& exponent, const Lane& lane) {
    float larger[2] = {maximum[0], maximum[1]};
    float shift[2];
#pragma unroll
    for (unsigned n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        const unsigned row = lane.warp * kWarpRows + lane.g + i / 2 * 8;
        scores[n][i] = exponent(scores[n][i], row, n * 8 + lane.t * 2 + i % 2);
        larger[i / 2] = fmaxf(larger[i / 2], scores[n][i]);
      }
    }
#pragma unroll
    for (unsigned half = 0; half < 2; ++half) {
      larger[half] = quad_max(larger[half]);
      // A row whose window begins after the tile has seen nothing yet.
      shift[half] = larger[half] == -INFINITY ? 0.0F : larger[half];
      const float shrinks = exp2f(maximum[half] - shift[half]);
      maximum[half] = larger[half];
      sum[half] *= shrinks;
#pragma unroll
      for (unsigned n = 0; n < kOut; ++n) {
        out[n][2 * half] *= shrinks;
        out[n][2 * half + 1] *= shrinks;
      }
    }
#pragma unroll
    for (unsigned n = 0; n < kTile / 8; ++n) {
#pragma unroll
      for (unsigned i = 0; i < 4; ++i) {
        scores[n][i] = exp2f(scores[n][i] - shift[i / 2]);
        sum[i / 2] += scores[n][i];
      }
    }
  }
};

/// grid: tiles of queries (those with most keys first), heads, sequences.
template <unsigned kD, bool kPlain>
__global__ void __launch_bounds__(kBlockSize)
    forward_kernel(AttentionShape shape, AttentionForward<Bf16> v) {
  const Lane lane;
  const std::size_t tile = gridDim.x - 1 - blockIdx.x;
  const std::size_t head = blockIdx.y;
  const std::size_t token = blockIdx.z * shape.length;
  const std::size_t row = shape.row();
  const std::size_t first = tile * kTile + lane.warp * kWarpRows;
  const Bf16* const base = v.qkv + token * row;
  const Bf16* const keys = base + (shape.heads + head / (shape.heads / shape.kv_heads)) * kD;
  auto* const key_tile = dynamic_shared<Bf16>();
  Bf16* const value_tile = key_tile + kTile * kRow<kD>;

  LeftRows<kD> query;
  query.load(base + first * row + head * kD, row, rows_left(shape.length, first), lane);
  OnlineSoftmax softmax;
  float out[kD / 8][4] = {};
  for (std::size_t j = first_tile<kPlain>(shape, tile); j <= tile; ++j) {
    const std::size_t valid = rows_left(shape.length, j * kTile);
    __syncthreads();  // the tiles have been read
    load_tile<kD>(key_tile, keys + j * kTile * row, row, kTile, valid);
    load_tile<kD>(value_tile, keys + (j * kTile * row + shape.kv_heads * kD), row, kTile, valid);
    __syncthreads();
    float scores[kTile / 8][4] = {};
    multiply_rows<kD, kTile>(scores, query, key_tile, lane);
    softmax.take(
        scores, out,
        [&](float product, unsigned at, unsigned key) {
          const bool sees = (j < tile || key <= at) &&
                            is_in_window<kPlain>(shape, tile * kTile + at, j * kTile + key);
          return sees ? Score<kPlain>(shape, product).exponent : -INFINITY;
        },
        lane);
    multiply_columns<kD, kTile>(out, scores, value_tile, lane);
  }
  const float sums[2] = {quad_sum(softmax.sum[0]), quad_sum(softmax.sum[1])};
  const float factors[2] = {1.0F / sums[0], 1.0F / sums[1]};
  store_rows<kD>(out, factors, v.out + (token + first) * shape.out_row() + head * kD,
                 shape.out_row(), rows_left(shape.length, first), lane);
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const std::size_t at = first + lane.g + half * 8;
    if (lane.t == 0 && at < shape.length) {
      v.lse[(token + at) * shape.heads + head] = (softmax.maximum[half] + log2f(sums[half])) * kLn2;
    }
  }
}

/// p and ds of a place: they take the places of the product and of dp.
template <bool kPlain>
__device__ void probability_and_gradient(const AttentionShape& shape, float& product, float& by_p,
                                         float lse, float delta, bool sees) {
  const Score<kPlain> score(shape, product);
  const float p = sees ? exp2f(score.exponent - lse * kLog2E) : 0.0F;
  product = p;
  by_p = p * (by_p - delta) * score.slope;
}

template <unsigned kD, bool kPlain>
__global__ void __launch_bounds__(kBlockSize)
    query_gradient_kernel(AttentionShape shape, AttentionBackward<Bf16> v) {
  const Lane lane;
  const std::size_t tile = gridDim.x - 1 - blockIdx.x;
  const std::size_t head = blockIdx.y;
  const std::size_t token = blockIdx.z * shape.length;
  const std::size_t row = shape.row();
  const std::size_t first = tile * kTile + lane.warp * kWarpRows;
  const std::size_t valid_rows = rows_left(shape.length, first);
  const Bf16* const base = v.qkv + token * row;
  const Bf16* const keys = base + (shape.heads + head / (shape.heads / shape.kv_heads)) * kD;
  auto* const key_tile = dynamic_shared<Bf16>();
  Bf16* const value_tile = key_tile + kTile * kRow<kD>;

  LeftRows<kD> query;
  query.load(base + first * row + head * kD, row, valid_rows, lane);
  LeftRows<kD> by_out;
  by_out.load(v.d_out + (token + first) * shape.out_row() + head * kD, shape.out_row(), valid_rows,
              lane);
  float lse[2] = {};
  float delta[2] = {};
#pragma unroll
  for (unsigned half = 0; half < 2; ++half) {
    const std::size_t at = first + lane.g + half * 8;
    if (at >= shape.length) continue;
    lse[half] = v.lse[(token + at) * shape.heads + head];
    delta[half] = v.delta[(token + at) * shape.heads + head];
  }
  float gradient[kD / 8][4] = {};
  for (std::size_t j = first_tile<kPlain>(shape, tile); j <= tile; ++j) {
    const std::size_t valid = rows_left(shape.length, j * kTile);
    __syncthreads();  // the tiles have been read
    load_tile<kD>(key_tile, keys + j * kTile * row, row, kTile, valid);
    load_tile<kD>(value_tile, keys + (j * kTile * row + shape.kv_heads * kD), row, kTile, valid);
    __syncthreads();
#pragma unroll 1
    for (unsigned part = 0; part < kTile; part += kHalf) {
      float scores[kHalf / 8][4] = {};
      float by_p[kHalf / 8][4] = {};
      multiply_rows<kD, kHalf>(scores, query, key_tile + part * kRow<kD>, lane);
      multiply_rows<kD, kHalf>(by_p, by_out, value_tile + part * kRow<kD>, lane);
#pragma unroll
      for (unsigned n = 0; n < kHalf / 8; ++n) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          const unsigned key = part + n * 8 + lane.t * 2 + i % 2;
          const unsigned at = lane.warp * kWarpRows + lane.g + i / 2 * 8;
          const bool sees = (j < tile || key <= at) &&
                            is_in_window<kPlain>(shape, tile * kTile + at, j * kTile + key);
          probability_and_gradient<kPlain>(shape, scores[n][i], by_p[n][i], lse[i / 2],
                                           delta[i / 2], sees);
        }
      }
      multiply_columns<kD, kHalf>(gradient, by_p, key_tile + part * kRow<kD>, lane);
    }
  }
  const float one[2] = {1.0F, 1.0F};
  store_rows<kD>(gradient, one, v.d_qkv + (token + first) * row + head * kD, row, valid_rows, lane);
}

/// grid: tiles of keys, key heads, sequences. Scores are transposed: a warp has 16 keys.
template <unsigned kD, bool kPlain>
__global__ void __launch_bounds__(kBlockSize)
    key_gradient_kernel(AttentionShape shape, AttentionBackward<Bf16> v) {
  const Lane lane;
  const std::size_t kv_head = blockIdx.y;
  const std::size_t token = blockIdx.z * shape.length;
  const std::size_t row = shape.row();
  const std::size_t tile = std::size_t{blockIdx.x} * kTile;
  const std::size_t first = tile + lane.warp * kWarpRows;
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t key_column = (shape.heads + kv_head) * kD;
  const std::size_t value_column = key_column + shape.kv_heads * kD;
  const Bf16* const base = v.qkv + token * row;
  auto* const value_tile = dynamic_shared<Bf16>();
  Bf16* const query_tile = value_tile + kTile * kRow<kD>;
  Bf16* const by_out_tile = query_tile + kHalf * kRow<kD>;
  auto* const lse = reinterpret_cast<float*>(by_out_tile + kHalf * kRow<kD>);
  float* const delta = lse + kHalf;

  LeftRows<kD> keys;
  keys.load(base + first * row + key_column, row, rows_left(shape.length, first), lane);
  load_tile<kD>(value_tile, base + tile * row + value_column, row, kTile,
                rows_left(shape.length, tile));
  const std::size_t last_key =
      tile + kTile - 1 < shape.length ? tile + kTile - 1 : shape.length - 1;
  const std::size_t end = kPlain ? shape.length : shape.end_of_queries(last_key);
  float by_key[kD / 8][4] = {};
  float by_value[kD / 8][4] = {};
  for (std::size_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    for (std::size_t q = tile; q < end; q += kHalf) {
      const std::size_t valid = rows_left(shape.length, q);
      __syncthreads();  // the tiles have been read
      load_tile<kD>(query_tile, base + q * row + head * kD, row, kHalf, valid);
      load_tile<kD>(by_out_tile, v.d_out + (token + q) * shape.out_row() + head * kD,
                    shape.out_row(), kHalf, valid);
      if (threadIdx.x < kHalf) {
        const bool exists = threadIdx.x < valid;
        const std::size_t at = (token + q + threadIdx.x) * shape.heads + head;
        lse[threadIdx.x] = exists ? v.lse[at] : INFINITY;  // no probability
        delta[threadIdx.x] = exists ? v.delta[at] : 0.0F;
      }
      __syncthreads();
      float scores[kHalf / 8][4] = {};
      float by_p[kHalf / 8][4] = {};
      multiply_rows<kD, kHalf>(scores, keys, query_tile, lane);
      multiply_rows<kD, kHalf>(by_p, value_tile + lane.warp * kWarpRows * kRow<kD>, by_out_tile,
                               lane);
#pragma unroll
      for (unsigned n = 0; n < kHalf / 8; ++n) {
#pragma unroll
        for (unsigned i = 0; i < 4; ++i) {
          const unsigned column = n * 8 + lane.t * 2 + i % 2;
          const unsigned key = lane.warp * kWarpRows + lane.g + i / 2 * 8;
          const bool sees = (q >= tile + kTile || key <= q - tile + column) &&
                            is_in_window<kPlain>(shape, q + column, tile + key);
          probability_and_gradient<kPlain>(shape, scores[n][i], by_p[n][i], lse[column],
                                           delta[column], sees);
        }
      }
      multiply_columns<kD, kHalf>(by_value, scores, by_out_tile, lane);
      multiply_columns<kD, kHalf>(by_key, by_p, query_tile, lane);
    }
  }
  const float one[2] = {1.0F, 1.0F};
  const std::size_t valid_rows = rows_left(shape.length, first);
  Bf16* const to = v.d_qkv + (token + first) * row;
  store_rows<kD>(by_key, one, to + key_column, row, valid_rows, lane);
  store_rows<kD>(by_value, one, to + value_column, row, valid_rows, lane);
}

dim3 grid_of(const AttentionShape& shape, std::size_t heads) {
  return {blocks_of(shape.length, kTile), static_cast<unsigned>(heads),
          static_cast<unsigned>(shape.sequences)};
}

template <unsigned kD, bool kPlain>
void forward(const AttentionShape& shape, const AttentionForward<Bf16>& v, cudaStream_t stream) {
  launch(forward_kernel<kD, kPlain>, grid_of(shape, shape.heads), kBlockSize,
         2 * tile_bytes<kD>(kTile), stream, shape, v);
}

template <unsigned kD, bool kPlain>
void backward(const AttentionShape& shape, const AttentionBackward<Bf16>& v, cudaStream_t stream) {
  launch(query_gradient_kernel<kD, kPlain>, grid_of(shape, shape.heads), kBlockSize,
         2 * tile_bytes<kD>(kTile), stream, shape, v);
  launch(key_gradient_kernel<kD, kPlain>, grid_of(shape, shape.kv_heads), kBlockSize,
         tile_bytes<kD>(kTile) + 2 * tile_bytes<kD>(kHalf) + 2 * kHalf * sizeof(float), stream,
         shape, v);
}

/// Calls run.operator()<head_dim, without window and cap>().
template <class Run>
void with_kind(const AttentionShape& shape, const Run& run) {
  const bool is_plain = shape.cap <= 0.0F && (shape.window == 0 || shape.window >= shape.length);
  if (shape.head_dim == 64 && is_plain) return run.template operator()<64, true>();
  if (shape.head_dim == 64) return run.template operator()<64, false>();
  if (is_plain) return run.template operator()<128, true>();
  run.template operator()<128, false>();
}

}  // namespace

void attention_forward_tiles(const AttentionShape& shape, const AttentionForward<Bf16>& values,
                             cudaStream_t stream) {
  with_kind(shape, [&]<unsigned kD, bool kPlain>() { forward<kD, kPlain>(shape, values, stream); });
}

void attention_backward_tiles(const AttentionShape& shape, const AttentionBackward<Bf16>& values,
                              cudaStream_t stream) {
  with_kind(shape,
            [&]<unsigned kD, bool kPlain>() { backward<kD, kPlain>(shape, values, stream); });
}

}  // namespace zenflow::kernels
