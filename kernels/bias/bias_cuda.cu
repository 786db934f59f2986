#include "kernels/bias/bias_cuda.h"
#include "kernels/cuda/column_sums.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

template <unsigned kWidth, class Element>
__global__ void __launch_bounds__(kBlockSize)
    add_bias_kernel(std::size_t rows, std::size_t columns, std::size_t stride, const Element* bias,
                    Element* y) {
  const std::size_t packs = columns / kWidth;
  const std::size_t row = thread_number() / packs;
  if (row >= rows) return;
  const std::size_t column = thread_number() % packs * kWidth;
  auto pack = load_pack<kWidth>(y + row * stride + column);
  const auto added = load_pack<kWidth>(bias + column);
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    pack.at[i] = stored<Element>(to_float(pack.at[i]) + to_float(added.at[i]));
  }
  store_pack(y + row * stride + column, pack);
}

template <class Element>
struct BiasTerms {
  static constexpr unsigned kSums = 1;
  MatrixView<Element> dy;

  template <unsigned kWidth>
  using Row = Pack<Element, kWidth>;

  template <unsigned kWidth>
  __device__ Row<kWidth> load(std::size_t row, std::size_t column) const {
    return load_pack<kWidth>(dy.values + row * dy.row_stride + column);
  }
  template <unsigned kWidth>
  __device__ void add(const Row<kWidth>& row, float (&sums)[kSums][kWidth]) const {
#pragma unroll
    for (unsigned i = 0; i < kWidth; ++i) sums[0][i] += to_float(row.at[i]);
  }
};

/// Whether packs lie alike in all rows and fill them.
template <unsigned kWidth, class... Elements>
bool packs_fill(std::size_t columns, std::size_t stride, const Elements*... arrays) {
  return columns % kWidth == 0 && rows_fit_packs<kWidth>(stride, arrays...);
}

}  // namespace

template <class Element>
void add_bias_cuda(std::size_t rows, std::size_t columns, std::size_t stride, const Element* bias,
                   Element* y, cudaStream_t stream) {
  if (rows == 0 || columns == 0) return;
  const auto run = [&]<unsigned kWidth>() {
    launch(add_bias_kernel<kWidth, Element>, blocks_of(rows * (columns / kWidth), kBlockSize),
           kBlockSize, 0, stream, rows, columns, stride, bias, y);
  };
  constexpr unsigned kFull = full_pack<Element>();
  if (packs_fill<kFull>(columns, stride, bias, y)) {
    run.template operator()<kFull>();
  } else {
    run.template operator()<1>();
  }
}

std::size_t bias_gradient_workspace(std::size_t rows, std::size_t columns) {
  return column_sums_workspace(rows, columns, 1);
}

template <class Element>
void bias_gradient_cuda(const MatrixView<Element>& dy, bool adds, Element* d_bias, void* workspace,
                        cudaStream_t stream) {
  if (dy.columns == 0) return;
  auto* const partial = static_cast<float*>(workspace);
  const BiasTerms<Element> terms{dy};
  constexpr unsigned kFull = full_pack<Element>();
  if (packs_fill<kFull>(dy.columns, dy.row_stride, dy.values)) {
    partial_sums<kFull>(terms, dy.rows, dy.columns, partial, stream);
  } else {
    partial_sums<1>(terms, dy.rows, dy.columns, partial, stream);
  }
  finish_sums(partial, dy.rows, dy.columns, adds, d_bias, stream);
}

template void add_bias_cuda(std::size_t, std::size_t, std::size_t, const float*, float*,
                            cudaStream_t);
template void add_bias_cuda(std::size_t, std::size_t, std::size_t, const Bf16*, Bf16*,
                            cudaStream_t);
template void bias_gradient_cuda(const MatrixView<float>&, bool, float*, void*, cudaStream_t);
template void bias_gradient_cuda(const MatrixView<Bf16>&, bool, Bf16*, void*, cudaStream_t);

}  // namespace zenflow::kernels
