#include "kernels/adamw/adamw_cuda.h"
#include "kernels/adamw/adamw_versions.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

struct Parameter {
  float p;
  float m;
  float v;
};

__device__ Parameter updated(const AdamWFactors& f, float step_size, float inverse_sqrt_correction2,
                             Parameter old, float gradient) {
  const float g = __fmul_rn(f.gradient_scale, gradient);
  const float m = __fmaf_rn(f.beta1, old.m, __fmul_rn(f.one_minus_beta1, g));
  const float v = __fmaf_rn(f.beta2, old.v, __fmul_rn(__fmul_rn(f.one_minus_beta2, g), g));
  const float d = __fmaf_rn(__fsqrt_rn(v), inverse_sqrt_correction2, f.epsilon);
  const float w = __fmaf_rn(-f.decay, old.p, old.p);
  return {__fmaf_rn(-step_size, __fdiv_rn(m, d), w), m, v};
}

template <unsigned kWidth>
struct State {
  Pack<float, kWidth> p;
  Pack<float, kWidth> m;
  Pack<float, kWidth> v;
};

template <unsigned kWidth, class Grad, class Out>
__device__ State<kWidth> load_state(const AdamWColumnsCall<Grad, Out>& call, Portion part,
                                    Pack<Grad, kWidth>& gradient) {
  State<kWidth> state{};
  const AdamWState<const float, const float> from{call.state.parameters + part.begin,
                                                  call.state.first_moment + part.begin,
                                                  call.state.second_moment + part.begin};
  if (part.count == kWidth) {
    state.p = load_pack<kWidth>(from.parameters);
    state.m = load_pack<kWidth>(from.first_moment);
    state.v = load_pack<kWidth>(from.second_moment);
    gradient = load_pack<kWidth>(call.gradient + part.begin);
    return state;
  }
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    if (i >= part.count) break;  // a constant index keeps the packs in registers
    state.p.at[i] = from.parameters[i];
    state.m.at[i] = from.first_moment[i];
    state.v.at[i] = from.second_moment[i];
    gradient.at[i] = call.gradient[part.begin + i];
  }
  return state;
}

template <unsigned kWidth, class Grad, class Out>
__device__ void store_state(const AdamWColumnsCall<Grad, Out>& call, Portion part,
                            const State<kWidth>& state) {
  const AdamWState<float, float> to{call.state.parameters + part.begin,
                                    call.state.first_moment + part.begin,
                                    call.state.second_moment + part.begin};
  if (part.count == kWidth) {
    store_pack(to.parameters, state.p);
    store_pack(to.first_moment, state.m);
    store_pack(to.second_moment, state.v);
    return;
  }
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    if (i >= part.count) break;
    to.parameters[i] = state.p.at[i];
    to.first_moment[i] = state.m.at[i];
    to.second_moment[i] = state.v.at[i];
  }
}

/// Stores the new weights of a warp, in `staged` by their place among the warp's kWidth * 32, where
/// they belong. Neighbouring lanes take neighbouring columns: those in one sector are one write.
template <unsigned kWidth, class Grad, class Out>
__device__ void scatter(const AdamWColumnsCall<Grad, Out>& call, PackedRange range,
                        const float* staged) {
  const unsigned lane = threadIdx.x % kWarpSize;
  const std::size_t first = (thread_number() - lane) * kWidth;  // counted with range.lead
#pragma unroll
  for (unsigned k = 0; k < kWidth; ++k) {
    const unsigned place = k * kWarpSize + lane;
    const std::size_t at = first + place;
    if (at < range.lead || at >= range.lead + range.n) continue;
    const std::size_t row = (at - range.lead) / call.columns;
    const std::size_t j = (at - range.lead) % call.columns;
    const std::size_t column = call.out.column == nullptr ? j : __ldg(call.out.column + j);
    call.out.values[row * call.out.row_stride + column] = stored<Out>(staged[place]);
  }
}

/// One thread per pack of elements, rows after each other.
template <unsigned kWidth, class Grad, class Out>
__global__ void adamw_columns_kernel(AdamWColumnsCall<Grad, Out> call, PackedRange range) {
  const Portion part = portion<kWidth>(range, thread_number());
  Pack<Grad, kWidth> gradient{};
  State<kWidth> state = load_state<kWidth>(call, part, gradient);
  std::size_t j = part.begin % call.columns;
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    if (i >= part.count) break;
    const Parameter now =
        updated(call.factors, __ldg(call.corrections.step_size + j),
                __ldg(call.corrections.inverse_sqrt_correction2 + j),
                {state.p.at[i], state.m.at[i], state.v.at[i]}, to_float(gradient.at[i]));
    state.p.at[i] = now.p;
    state.m.at[i] = now.m;
    state.v.at[i] = now.v;
    j = j + 1 == call.columns ? 0 : j + 1;
  }
  store_state(call, part, state);
  if (call.out.values == nullptr) return;
  // The first element of a partial pack may be in the middle of it.
  const unsigned skipped = part.begin == 0 ? range.lead : 0;
  float* staged = dynamic_shared<float>() + threadIdx.x / kWarpSize * kWarpSize * kWidth;
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    if (i >= part.count) break;
    staged[threadIdx.x % kWarpSize * kWidth + skipped + i] = state.p.at[i];
  }
  __syncwarp();
  scatter<kWidth>(call, range, staged);
}

}  // namespace

template <class Grad, class Out>
void adamw_columns_cuda(const AdamWSettings& settings, ColumnCorrections corrections,
                        float gradient_scale, std::size_t rows, std::size_t columns,
                        AdamWState<float, float> state, const Grad* gradient,
                        ColumnScatter<Out> out, cudaStream_t stream) {
  if (rows == 0 || columns == 0) return;  // a grid has at least one block
  const AdamWColumnsCall<Grad, Out> call{
      factors_of(settings, gradient_scale), corrections, rows, columns, state, gradient, out};
  with_packs<full_pack<float>()>(
      rows * columns,
      [&]<unsigned kWidth>(PackedRange range) {
        launch(adamw_columns_kernel<kWidth, Grad, Out>,
               blocks_of(pack_count<kWidth>(range), kBlockSize), kBlockSize,
               sizeof(float) * kWidth * kBlockSize, stream, call, range);
      },
      state.parameters, state.first_moment, state.second_moment, gradient);
}

template void adamw_columns_cuda(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                                 std::size_t, AdamWState<float, float>, const float*,
                                 ColumnScatter<float>, cudaStream_t);
template void adamw_columns_cuda(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                                 std::size_t, AdamWState<float, float>, const float*,
                                 ColumnScatter<Bf16>, cudaStream_t);
template void adamw_columns_cuda(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                                 std::size_t, AdamWState<float, float>, const Bf16*,
                                 ColumnScatter<float>, cudaStream_t);
template void adamw_columns_cuda(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                                 std::size_t, AdamWState<float, float>, const Bf16*,
                                 ColumnScatter<Bf16>, cudaStream_t);

}  // namespace zenflow::kernels
