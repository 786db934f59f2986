/// Attention by warps: lane k of a warp scores key (or query) k of 32, then each lane sums its
/// columns over the 32. For shapes that tensor cores do not serve, and for fp32.
#include <cassert>

#include "kernels/attention/attention_cuda.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warp.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 128;
/// Columns of a head that one lane sums.
constexpr unsigned kColumns = kLargestHeadDim / kWarpSize;

template <class Element>
__device__ float dot(const Element* a, const Element* b, std::size_t n) {
  float sum = 0.0F;
  for (std::size_t i = 0; i < n; ++i) sum = __fmaf_rn(to_float(a[i]), to_float(b[i]), sum);
  return sum;
}

/// The columns lane, lane + 32, ... of a row of head_dim.
struct RowSums {
  float at[kColumns] = {};

  template <class Element>
  __device__ void add(float factor, const Element* row, unsigned head_dim) {
#pragma unroll
    for (unsigned i = 0; i < kColumns; ++i) {
      const unsigned c = lane_of_warp() + i * kWarpSize;
      if (c < head_dim) at[i] = __fmaf_rn(factor, to_float(row[c]), at[i]);
    }
  }
  __device__ void scale(float factor) {
#pragma unroll
    for (float& value : at) value *= factor;
  }
  template <class Element>
  __device__ void store(float factor, Element* row, unsigned head_dim) const {
#pragma unroll
    for (unsigned i = 0; i < kColumns; ++i) {
      const unsigned c = lane_of_warp() + i * kWarpSize;
      if (c < head_dim) row[c] = stored<Element>(at[i] * factor);
    }
  }
};

/// What a warp works on: a head of a token.
struct WarpRow {
  std::size_t head;
  std::size_t token;     ///< of the batch
  std::size_t position;  ///< in its sequence
  std::size_t first;     ///< token of the sequence
  bool exists;

  __device__ WarpRow(const AttentionShape& shape, std::size_t heads)
      : head(thread_number() / kWarpSize % heads),
        token(thread_number() / kWarpSize / heads),
        position(token % shape.length),
        first(token - position),
        exists(token < shape.tokens()) {}
};

__device__ std::size_t key_head(const AttentionShape& shape, std::size_t head) {
  return shape.heads + head / (shape.heads / shape.kv_heads);
}

struct Score {
  float value;
  float slope;  ///< by the product, times the scale

  __device__ Score(const AttentionShape& shape, float product)
      : value(product * shape.scale), slope(shape.scale) {
    if (shape.cap <= 0.0F) return;
    const float t = tanhf(value / shape.cap);
    value = shape.cap * t;
    slope *= 1.0F - t * t;
  }
};

template <class Element>
__global__ void __launch_bounds__(kBlockSize)
    forward_kernel(AttentionShape shape, AttentionForward<Element> v) {
  const WarpRow row(shape, shape.heads);
  if (!row.exists) return;
  const auto n = static_cast<unsigned>(shape.head_dim);
  const Element* const query = v.qkv + row.token * shape.row() + row.head * n;
  const Element* const keys = v.qkv + row.first * shape.row() + key_head(shape, row.head) * n;
  const Element* const values = keys + shape.kv_heads * n;
  RowSums sums;
  float maximum = -INFINITY;
  float sum = 0.0F;
  for (std::size_t tile = shape.first_key(row.position); tile <= row.position; tile += kWarpSize) {
    const std::size_t key = tile + lane_of_warp();
    const bool sees = key <= row.position;
    const float score =
        sees ? Score(shape, dot(query, keys + key * shape.row(), n)).value : -INFINITY;
    const float larger = fmaxf(maximum, warp_max(score));
    const float p = expf(score - larger);
    const float shrinks = expf(maximum - larger);
    sum = __fmaf_rn(sum, shrinks, warp_sum(p));
    sums.scale(shrinks);
    maximum = larger;
    const auto count =
        static_cast<int>(row.position - tile < kWarpSize ? row.position - tile + 1 : kWarpSize);
    for (int k = 0; k < count; ++k) {
      const float factor = __shfl_sync(kAllLanes, p, k);
      sums.add(factor, values + (tile + static_cast<unsigned>(k)) * shape.row(), n);
    }
  }
  sums.store(1.0F / sum, v.out + row.token * shape.out_row() + row.head * n, n);
  if (lane_of_warp() == 0) v.lse[row.token * shape.heads + row.head] = maximum + logf(sum);
}

template <class Element>
__global__ void __launch_bounds__(kBlockSize)
    delta_kernel(AttentionShape shape, AttentionBackward<Element> v) {
  const WarpRow row(shape, shape.heads);
  if (!row.exists) return;
  const std::size_t at = row.token * shape.out_row() + row.head * shape.head_dim;
  float sum = 0.0F;
  for (std::size_t c = lane_of_warp(); c < shape.head_dim; c += kWarpSize) {
    sum = __fmaf_rn(to_float(v.out[at + c]), to_float(v.d_out[at + c]), sum);
  }
  sum = warp_sum(sum);
  if (lane_of_warp() == 0) v.delta[row.token * shape.heads + row.head] = sum;
}

template <class Element>
__global__ void __launch_bounds__(kBlockSize)
    query_gradient_kernel(AttentionShape shape, AttentionBackward<Element> v) {
  const WarpRow row(shape, shape.heads);
  if (!row.exists) return;
  const auto n = static_cast<unsigned>(shape.head_dim);
  const std::size_t query = row.token * shape.row() + row.head * n;
  const Element* const d_out = v.d_out + row.token * shape.out_row() + row.head * n;
  const Element* const keys = v.qkv + row.first * shape.row() + key_head(shape, row.head) * n;
  const Element* const values = keys + shape.kv_heads * n;
  const float lse = v.lse[row.token * shape.heads + row.head];
  const float delta = v.delta[row.token * shape.heads + row.head];
  RowSums sums;
  for (std::size_t tile = shape.first_key(row.position); tile <= row.position; tile += kWarpSize) {
    const std::size_t key = tile + lane_of_warp();
    float ds = 0.0F;
    if (key <= row.position) {
      const Score score(shape, dot(v.qkv + query, keys + key * shape.row(), n));
      const float p = expf(score.value - lse);
      ds = p * (dot(d_out, values + key * shape.row(), n) - delta) * score.slope;
    }
    const auto count =
        static_cast<int>(row.position - tile < kWarpSize ? row.position - tile + 1 : kWarpSize);
    for (int k = 0; k < count; ++k) {
      const float factor = __shfl_sync(kAllLanes, ds, k);
      sums.add(factor, keys + (tile + static_cast<unsigned>(k)) * shape.row(), n);
    }
  }
  sums.store(1.0F, v.d_qkv + query, n);
}

/// A warp for each key head of a token: sums over the queries that see it, head by head.
template <class Element>
__global__ void __launch_bounds__(kBlockSize)
    key_gradient_kernel(AttentionShape shape, AttentionBackward<Element> v) {
  const WarpRow row(shape, shape.kv_heads);
  if (!row.exists) return;
  const auto n = static_cast<unsigned>(shape.head_dim);
  const std::size_t key = row.token * shape.row() + (shape.heads + row.head) * n;
  const std::size_t value = key + shape.kv_heads * n;
  const std::size_t group = shape.heads / shape.kv_heads;
  const std::size_t end = shape.end_of_queries(row.position);
  RowSums key_sums;
  RowSums value_sums;
  for (std::size_t head = row.head * group; head < (row.head + 1) * group; ++head) {
    for (std::size_t tile = row.position; tile < end; tile += kWarpSize) {
      const std::size_t token = row.first + tile + lane_of_warp();
      float p = 0.0F;
      float ds = 0.0F;
      if (tile + lane_of_warp() < end) {
        const Element* const query = v.qkv + token * shape.row() + head * n;
        const Element* const d_out = v.d_out + token * shape.out_row() + head * n;
        const std::size_t at = token * shape.heads + head;
        const Score score(shape, dot(query, v.qkv + key, n));
        p = expf(score.value - v.lse[at]);
        ds = p * (dot(d_out, v.qkv + value, n) - v.delta[at]) * score.slope;
      }
      const auto count = static_cast<int>(end - tile < kWarpSize ? end - tile : kWarpSize);
      for (int k = 0; k < count; ++k) {
        const std::size_t other = row.first + tile + static_cast<unsigned>(k);
        key_sums.add(__shfl_sync(kAllLanes, ds, k), v.qkv + other * shape.row() + head * n, n);
        value_sums.add(__shfl_sync(kAllLanes, p, k), v.d_out + other * shape.out_row() + head * n,
                       n);
      }
    }
  }
  key_sums.store(1.0F, v.d_qkv + key, n);
  value_sums.store(1.0F, v.d_qkv + value, n);
}

unsigned warps(std::size_t rows) {
  return blocks_of(rows * kWarpSize, kBlockSize);
}

template <class Element>
bool fits_tiles(const AttentionShape& shape, const Element* a, const Element* b) {
  constexpr unsigned kPack = full_pack<Element>();
  return (shape.head_dim == 64 || shape.head_dim == 128) && lead_of<kPack>(a) == 0 &&
         lead_of<kPack>(b) == 0;
}

template <class Element>
void backward_by_warps(const AttentionShape& shape, const AttentionBackward<Element>& v,
                       cudaStream_t stream) {
  launch(query_gradient_kernel<Element>, warps(shape.tokens() * shape.heads), kBlockSize, 0, stream,
         shape, v);
  launch(key_gradient_kernel<Element>, warps(shape.tokens() * shape.kv_heads), kBlockSize, 0,
         stream, shape, v);
}

}  // namespace

bool attention_uses_tensor_cores(const AttentionShape& shape, const AttentionForward<Bf16>& v) {
  return fits_tiles(shape, v.qkv, v.out);
}

template <class Element>
void attention_forward_cuda(const AttentionShape& shape, const AttentionForward<Element>& v,
                            cudaStream_t stream) {
  assert(shape.head_dim <= kLargestHeadDim);
  if (shape.tokens() == 0) return;
  if constexpr (std::is_same_v<Element, Bf16>) {
    if (fits_tiles(shape, v.qkv, v.out)) return attention_forward_tiles(shape, v, stream);
  }
  launch(forward_kernel<Element>, warps(shape.tokens() * shape.heads), kBlockSize, 0, stream, shape,
         v);
}

template <class Element>
void attention_backward_cuda(const AttentionShape& shape, const AttentionBackward<Element>& v,
                             cudaStream_t stream) {
  assert(shape.head_dim <= kLargestHeadDim);
  if (shape.tokens() == 0) return;
  launch(delta_kernel<Element>, warps(shape.tokens() * shape.heads), kBlockSize, 0, stream, shape,
         v);
  if constexpr (std::is_same_v<Element, Bf16>) {
    if (fits_tiles(shape, v.qkv, v.d_out) && lead_of<full_pack<Bf16>()>(v.d_qkv) == 0) {
      return attention_backward_tiles(shape, v, stream);
    }
  }
  backward_by_warps(shape, v, stream);
}

template void attention_forward_cuda(const AttentionShape&, const AttentionForward<float>&,
                                     cudaStream_t);
template void attention_forward_cuda(const AttentionShape&, const AttentionForward<Bf16>&,
                                     cudaStream_t);
template void attention_backward_cuda(const AttentionShape&, const AttentionBackward<float>&,
                                      cudaStream_t);
template void attention_backward_cuda(const AttentionShape&, const AttentionBackward<Bf16>&,
                                      cudaStream_t);

}  // namespace zenflow::kernels
