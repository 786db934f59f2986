#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/norm/norm_cuda.h"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 128;

/// The row of a warp, and the packs of a lane in it: lane, lane + 32, ...
__device__ std::size_t row_of_warp() {
  return thread_number() / kWarpSize;
}

template <unsigned kWidth, class Element>
__device__ void add_residual(const Element* x, const Element* delta, Element* sum,
                             std::size_t columns) {
  for (std::size_t c = lane_of_warp() * kWidth; c < columns; c += kWarpSize * kWidth) {
    auto a = load_pack<kWidth>(x + c);
    const auto b = load_pack<kWidth>(delta + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      a.at[i] = stored<Element>(to_float(a.at[i]) + to_float(b.at[i]));
    }
    store_pack(sum + c, a);
  }
}

template <unsigned kWidth, class Element>
__device__ float row_sum(const Element* x, std::size_t columns) {
  float sum = 0.0F;
  for (std::size_t c = lane_of_warp() * kWidth; c < columns; c += kWarpSize * kWidth) {
    const auto pack = load_pack<kWidth>(x + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) sum += to_float(pack.at[i]);
  }
  return warp_sum(sum);
}

template <unsigned kWidth, class Element>
__device__ float centred_square_sum(const Element* x, std::size_t columns, float mean) {
  float sum = 0.0F;
  for (std::size_t c = lane_of_warp() * kWidth; c < columns; c += kWarpSize * kWidth) {
    const auto pack = load_pack<kWidth>(x + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      const float centred = to_float(pack.at[i]) - mean;
      sum = __fmaf_rn(centred, centred, sum);
    }
  }
  return warp_sum(sum);
}

/// What the weight multiplies.
template <class Element>
__device__ float normalized(bool rounds, float n) {
  return rounds ? to_float(stored<Element>(n)) : n;
}

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    norm_forward_kernel(NormShape shape, NormForward<Element> v) {
  const std::size_t row = row_of_warp();
  if (row >= shape.rows) return;
  const std::size_t columns = shape.columns;
  const Element* x = v.x + shape.at(row, shape.x_stride);
  const std::size_t out = shape.at(row, shape.y_stride);
  if (v.delta != nullptr) {
    // Each lane reads below what it has written here itself.
    add_residual<kWidth>(x, v.delta + row * columns, v.sum + row * columns, columns);
    x = v.sum + row * columns;
  }
  const auto count = static_cast<float>(columns);
  const float mean = shape.is_layer_norm ? row_sum<kWidth>(x, columns) / count : 0.0F;
  const float square = centred_square_sum<kWidth>(x, columns, mean) / count;
  const float inverse = __fdiv_rn(1.0F, __fsqrt_rn(square + shape.epsilon));
  if (lane_of_warp() == 0) {
    v.mean[row] = mean;
    v.inverse[row] = inverse;
  }
  for (std::size_t c = lane_of_warp() * kWidth; c < columns; c += kWarpSize * kWidth) {
    auto pack = load_pack<kWidth>(x + c);
    const auto weight = load_pack<kWidth>(v.weight + c);
    Pack<Element, kWidth> bias{};
    if (v.bias != nullptr) bias = load_pack<kWidth>(v.bias + c);
    Pack<Element, kWidth> residual{};
    if (v.residual != nullptr) residual = load_pack<kWidth>(v.residual + out + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      const float n =
          normalized<Element>(shape.rounds_normalized, (to_float(pack.at[i]) - mean) * inverse);
      const float scaled = n * (shape.offset + to_float(weight.at[i]));
      pack.at[i] = stored<Element>(v.bias != nullptr ? scaled + to_float(bias.at[i]) : scaled);
      if (v.residual == nullptr) continue;
      pack.at[i] = stored<Element>(to_float(residual.at[i]) + to_float(pack.at[i]));
    }
    store_pack(v.y + out + c, pack);
  }
}

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    norm_backward_kernel(NormShape shape, NormBackward<Element> v) {
  const std::size_t row = row_of_warp();
  if (row >= shape.rows) return;
  const std::size_t columns = shape.columns;
  const Element* const x = v.x + shape.at(row, shape.x_stride);
  const Element* const dy = v.dy + shape.at(row, shape.y_stride);
  Element* const dx = v.dx + shape.at(row, shape.y_stride);
  const float mean = v.mean[row];
  const float inverse = v.inverse[row];
  float sum = 0.0F;
  float products = 0.0F;
  for (std::size_t c = lane_of_warp() * kWidth; c < columns; c += kWarpSize * kWidth) {
    const auto in = load_pack<kWidth>(x + c);
    const auto by_output = load_pack<kWidth>(dy + c);
    const auto weight = load_pack<kWidth>(v.weight + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      const float g = to_float(by_output.at[i]) * (shape.offset + to_float(weight.at[i]));
      sum += g;
      products = __fmaf_rn(g, (to_float(in.at[i]) - mean) * inverse, products);
    }
  }
  const auto count = static_cast<float>(columns);
  const float mean_g = shape.is_layer_norm ? warp_sum(sum) / count : 0.0F;
  const float mean_products = warp_sum(products) / count;
  for (std::size_t c = lane_of_warp() * kWidth; c < columns; c += kWarpSize * kWidth) {
    const auto in = load_pack<kWidth>(x + c);
    const auto by_output = load_pack<kWidth>(dy + c);
    const auto weight = load_pack<kWidth>(v.weight + c);
    Pack<Element, kWidth> out{};
    if (v.adds) out = load_pack<kWidth>(dx + c);
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      const float g = to_float(by_output.at[i]) * (shape.offset + to_float(weight.at[i]));
      const float n = (to_float(in.at[i]) - mean) * inverse;
      const float gradient =
          to_float(stored<Element>(((g - mean_g) - n * mean_products) * inverse));
      out.at[i] = stored<Element>(v.adds ? to_float(out.at[i]) + gradient : gradient);
    }
    store_pack(dx + c, out);
  }
}

/// The terms of the weight's sum, and of the bias's with kSumCount == 2.
template <class Element, unsigned kSumCount>
struct WeightTerms {
  static constexpr unsigned kSums = kSumCount;
  const Element* x;
  const Element* dy;
  const float* mean;
  const float* inverse;
  NormShape shape;

  template <unsigned kWidth>
  struct Row {
    Pack<Element, kWidth> x;
    Pack<Element, kWidth> dy;
    float mean;
    float inverse;
  };

  template <unsigned kWidth>
  __device__ Row<kWidth> load(std::size_t row, std::size_t column) const {
    return {load_pack<kWidth>(x + shape.at(row, shape.x_stride) + column),
            load_pack<kWidth>(dy + shape.at(row, shape.y_stride) + column), mean[row],
            inverse[row]};
  }
  template <unsigned kWidth>
  __device__ void add(const Row<kWidth>& row, float (&sums)[kSums][kWidth]) const {
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) {
      const float n = (to_float(row.x.at[i]) - row.mean) * row.inverse;
      const float d = to_float(row.dy.at[i]);
      sums[0][i] = __fmaf_rn(d, normalized<Element>(shape.rounds_normalized, n), sums[0][i]);
      if constexpr (kSums == 2) sums[1][i] += d;
    }
  }
};

/// As with_row_packs, for rows that are parts of tokens.
template <class Element, class Run, class... Elements>
void with_packs_of(const NormShape& shape, const Run& run, const Elements*... arrays) {
  constexpr unsigned kFull = full_pack<Element>();
  if (shape.x_stride % kFull == 0 && shape.y_stride % kFull == 0) {
    with_row_packs<Element>(shape.columns, run, arrays...);
  } else {
    run.template operator()<1>();
  }
}

template <unsigned kSums, class Element>
void sum_weight_gradients(const NormShape& shape, const NormWeightGradients<Element>& v,
                          float* partial, cudaStream_t stream) {
  const WeightTerms<Element, kSums> terms{v.x, v.dy, v.mean, v.inverse, shape};
  with_packs_of<Element>(
      shape,
      [&]<unsigned kWidth>() {
        partial_sums<kWidth>(terms, shape.rows, shape.columns, partial, stream);
      },
      v.x, v.dy);
}

}  // namespace

template <class Element>
void norm_forward_cuda(const NormShape& shape, const NormForward<Element>& values,
                       cudaStream_t stream) {
  if (shape.rows == 0 || shape.columns == 0) return;
  with_packs_of<Element>(
      shape,
      [&]<unsigned kWidth>() {
        launch(norm_forward_kernel<kWidth, Element>, blocks_of(shape.rows * kWarpSize, kBlockSize),
               kBlockSize, 0, stream, shape, values);
      },
      values.x, values.delta, values.sum, values.weight, values.bias, values.y, values.residual);
}

template <class Element>
void norm_backward_cuda(const NormShape& shape, const NormBackward<Element>& values,
                        cudaStream_t stream) {
  if (shape.rows == 0 || shape.columns == 0) return;
  with_packs_of<Element>(
      shape,
      [&]<unsigned kWidth>() {
        launch(norm_backward_kernel<kWidth, Element>, blocks_of(shape.rows * kWarpSize, kBlockSize),
               kBlockSize, 0, stream, shape, values);
      },
      values.x, values.weight, values.dy, values.dx);
}

std::size_t norm_weight_gradients_workspace(const NormShape& shape) {
  return column_sums_workspace(shape.rows, shape.columns, 2);
}

template <class Element>
void norm_weight_gradients_cuda(const NormShape& shape, const NormWeightGradients<Element>& values,
                                void* workspace, cudaStream_t stream) {
  if (shape.columns == 0) return;
  auto* const partial = static_cast<float*>(workspace);
  if (values.d_bias == nullptr) {
    sum_weight_gradients<1>(shape, values, partial, stream);
  } else {
    sum_weight_gradients<2>(shape, values, partial, stream);
    finish_sums(partial + sum_blocks(shape.rows) * shape.columns, shape.rows, shape.columns,
                values.adds, values.d_bias, stream);
  }
  finish_sums(partial, shape.rows, shape.columns, values.adds, values.d_weight, stream);
}

#define ZENFLOW_NORMS(Element)                                                                    \
  template void norm_forward_cuda(const NormShape&, const NormForward<Element>&, cudaStream_t);   \
  template void norm_backward_cuda(const NormShape&, const NormBackward<Element>&, cudaStream_t); \
  template void norm_weight_gradients_cuda(const NormShape&, const NormWeightGradients<Element>&, \
                                           void*, cudaStream_t);
ZENFLOW_NORMS(float)
ZENFLOW_NORMS(Bf16)
#undef ZENFLOW_NORMS

}  // namespace zenflow::kernels
