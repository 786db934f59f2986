#include "kernels/activation/activation_cuda.h"
#include "kernels/activation/functions.h"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

/// A pack of an array, of which only the first and the last can be partial.
template <unsigned kWidth, class Element>
__device__ Pack<Element, kWidth> load_part(const Element* from, Portion part) {
  if (part.count == kWidth) return load_pack<kWidth>(from + part.begin);
  Pack<Element, kWidth> pack{};
  for (unsigned i = 0; i < part.count; ++i) pack.at[i] = from[part.begin + i];
  return pack;
}
template <unsigned kWidth, class Element>
__device__ void store_part(Element* to, Portion part, const Pack<Element, kWidth>& pack) {
  if (part.count == kWidth) return store_pack(to + part.begin, pack);
  for (unsigned i = 0; i < part.count; ++i) to[part.begin + i] = pack.at[i];
}

template <unsigned kWidth, class Function, class Element>
__global__ void __launch_bounds__(kBlockSize)
    activation_kernel(PackedRange range, const Element* x, Element* y) {
  const Portion part = portion<kWidth>(range, thread_number());
  if (part.count == 0) return;
  auto pack = load_part<kWidth>(x, part);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    pack.at[i] = stored<Element>(Function::both(to_float(pack.at[i])).value);
  }
  store_part(y, part, pack);
}

template <unsigned kWidth, class Function, class Element>
__global__ void __launch_bounds__(kBlockSize)
    activation_gradient_kernel(PackedRange range, ActivationGradient<Element> v) {
  const Portion part = portion<kWidth>(range, thread_number());
  if (part.count == 0) return;
  const auto x = load_part<kWidth>(v.x, part);
  auto d = load_part<kWidth>(v.dy, part);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    d.at[i] = stored<Element>(to_float(d.at[i]) * Function::both(to_float(x.at[i])).slope);
  }
  store_part(v.dx, part, d);
}

template <unsigned kWidth, class Function, class Element>
__global__ void __launch_bounds__(kBlockSize)
    gated_kernel(PackedRange range, const Element* gate, const Element* up, Element* y) {
  const Portion part = portion<kWidth>(range, thread_number());
  if (part.count == 0) return;
  auto pack = load_part<kWidth>(gate, part);
  const auto factor = load_part<kWidth>(up, part);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    const float value = to_float(stored<Element>(Function::both(to_float(pack.at[i])).value));
    pack.at[i] = stored<Element>(value * to_float(factor.at[i]));
  }
  store_part(y, part, pack);
}

template <unsigned kWidth, class Function, class Element>
__global__ void __launch_bounds__(kBlockSize)
    gated_gradient_kernel(PackedRange range, GatedGradient<Element> v) {
  const Portion part = portion<kWidth>(range, thread_number());
  if (part.count == 0) return;
  auto gate = load_part<kWidth>(v.gate, part);
  const auto up = load_part<kWidth>(v.up, part);
  auto d = load_part<kWidth>(v.dy, part);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    const ValueAndSlope f = Function::both(to_float(gate.at[i]));
    const float dy = to_float(d.at[i]);
    gate.at[i] = stored<Element>(to_float(stored<Element>(dy * to_float(up.at[i]))) * f.slope);
    d.at[i] = stored<Element>(dy * to_float(stored<Element>(f.value)));
  }
  store_part(v.d_gate, part, gate);
  store_part(v.d_up, part, d);
}

/// Calls run.operator()<kWidth, Function>(range).
template <class Element, class Run, class... Elements>
void with_function_and_packs(ActivationFunction f, std::size_t n, const Run& run,
                             const Elements*... arrays) {
  if (n == 0) return;  // a grid has at least one block
  with_function(f, [&](auto function) {
    with_packs<full_pack<Element>()>(
        n,
        [&]<unsigned kWidth>(PackedRange range) {
          run.template operator()<kWidth, decltype(function)>(range);
        },
        arrays...);
  });
}

template <unsigned kWidth>
unsigned blocks_for(PackedRange range) {
  return blocks_of(pack_count<kWidth>(range), kBlockSize);
}

}  // namespace

template <class Element>
void activation_cuda(ActivationFunction f, std::size_t n, const Element* x, Element* y,
                     cudaStream_t stream) {
  with_function_and_packs<Element>(
      f, n,
      [&]<unsigned kWidth, class Function>(PackedRange range) {
        launch(activation_kernel<kWidth, Function, Element>, blocks_for<kWidth>(range), kBlockSize,
               0, stream, range, x, y);
      },
      x, y);
}

template <class Element>
void activation_gradient_cuda(ActivationFunction f, std::size_t n,
                              const ActivationGradient<Element>& v, cudaStream_t stream) {
  with_function_and_packs<Element>(
      f, n,
      [&]<unsigned kWidth, class Function>(PackedRange range) {
        launch(activation_gradient_kernel<kWidth, Function, Element>, blocks_for<kWidth>(range),
               kBlockSize, 0, stream, range, v);
      },
      v.x, v.dy, v.dx);
}

template <class Element>
void gated_cuda(ActivationFunction f, std::size_t n, const Element* gate, const Element* up,
                Element* y, cudaStream_t stream) {
  with_function_and_packs<Element>(
      f, n,
      [&]<unsigned kWidth, class Function>(PackedRange range) {
        launch(gated_kernel<kWidth, Function, Element>, blocks_for<kWidth>(range), kBlockSize, 0,
               stream, range, gate, up, y);
      },
      gate, up, y);
}

template <class Element>
void gated_gradient_cuda(ActivationFunction f, std::size_t n, const GatedGradient<Element>& v,
                         cudaStream_t stream) {
  with_function_and_packs<Element>(
      f, n,
      [&]<unsigned kWidth, class Function>(PackedRange range) {
        launch(gated_gradient_kernel<kWidth, Function, Element>, blocks_for<kWidth>(range),
               kBlockSize, 0, stream, range, v);
      },
      v.gate, v.up, v.dy, v.d_gate, v.d_up);
}

#define ZENFLOW_ACTIVATIONS(Element)                                                        \
  template void activation_cuda(ActivationFunction, std::size_t, const Element*, Element*,  \
                                cudaStream_t);                                              \
  template void activation_gradient_cuda(ActivationFunction, std::size_t,                   \
                                         const ActivationGradient<Element>&, cudaStream_t); \
  template void gated_cuda(ActivationFunction, std::size_t, const Element*, const Element*, \
                           Element*, cudaStream_t);                                         \
  template void gated_gradient_cuda(ActivationFunction, std::size_t,                        \
                                    const GatedGradient<Element>&, cudaStream_t);
ZENFLOW_ACTIVATIONS(float)
ZENFLOW_ACTIVATIONS(Bf16)
#undef ZENFLOW_ACTIVATIONS

}  // namespace zenflow::kernels
