/// The CUDA kernels' host functions with the scalar arithmetic, which is the same bits, instead of
/// kernels: for the thread sanitizer, which sees no switches of fibers.
#include <algorithm>

#include "kernels/accumulate/accumulate.h"
#include "kernels/accumulate/accumulate_cuda.h"
#include "kernels/adamw/adamw_cuda.h"
#include "kernels/column_norm/column_norm_cuda.h"
#include "kernels/columns/columns.h"
#include "kernels/columns/columns_cuda.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/mapped_copy/mapped_copy_cuda.h"
#include "kernels/square_sum/square_sum.h"
#include "kernels/square_sum/square_sum_cuda.h"
#include "tests/emulator/streams.h"

namespace zenflow::kernels {
namespace {

void launch(cudaStream_t stream, std::function<void()> work) {
  cuda_check(emulator::enqueue(stream, std::move(work)), "kernel launch");
}

/// As large as a kernel's could be, and used: too small a one is found.
constexpr std::size_t kWorkspace = 96;

void use(void* workspace) {
  std::fill_n(static_cast<std::byte*>(workspace), kWorkspace, std::byte{0xA5});
}

}  // namespace

void mapped_copy_cuda(void* to, const void* from, std::size_t bytes, cudaStream_t stream) {
  launch(stream, [=] {
    std::copy_n(static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to));
  });
}

template <class Grad>
void accumulate_cuda(float* sum, const Grad* gradient, float scale, std::size_t n,
                     cudaStream_t stream) {
  launch(stream, [=] { accumulate(sum, gradient, scale, n); });
}
template void accumulate_cuda(float*, const float*, float, std::size_t, cudaStream_t);
template void accumulate_cuda(float*, const Bf16*, float, std::size_t, cudaStream_t);

template <class Grad>
void accumulate_first_cuda(float* sum, const Grad* gradient, float scale, std::size_t n,
                           cudaStream_t stream) {
  launch(stream, [=] { accumulate_first(sum, gradient, scale, n); });
}
template void accumulate_first_cuda(float*, const float*, float, std::size_t, cudaStream_t);
template void accumulate_first_cuda(float*, const Bf16*, float, std::size_t, cudaStream_t);

template <class Grad, class Out>
void adamw_columns_cuda(const AdamWSettings& settings, ColumnCorrections corrections,
                        float gradient_scale, std::size_t rows, std::size_t columns,
                        AdamWState<float, float> state, const Grad* gradient,
                        ColumnScatter<Out> out, cudaStream_t stream) {
  launch(stream, [=] {
    adamw_columns(settings, corrections, gradient_scale, rows, columns, state, gradient, out);
  });
}
template void adamw_columns_cuda(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                                 std::size_t, AdamWState<float, float>, const float*,
                                 ColumnScatter<float>, cudaStream_t);
template void adamw_columns_cuda(const AdamWSettings&, ColumnCorrections, float, std::size_t,
                                 std::size_t, AdamWState<float, float>, const Bf16*,
                                 ColumnScatter<Bf16>, cudaStream_t);

std::size_t column_norm_workspace(std::size_t, std::size_t) {
  return kWorkspace;
}
void column_norms_cuda(const MatrixView<float>& matrix, ColumnNorms norms, void* workspace,
                       cudaStream_t stream) {
  launch(stream, [=] {
    use(workspace);
    column_norms(matrix, norms);
  });
}
void column_norms_cuda(const MatrixView<Bf16>& matrix, ColumnNorms norms, void* workspace,
                       cudaStream_t stream) {
  launch(stream, [=] {
    use(workspace);
    column_norms(matrix, norms);
  });
}

template <class Element>
void gather_columns_cuda(const MatrixView<Element>& matrix, const std::uint32_t* column,
                         std::size_t n, Element* out, cudaStream_t stream) {
  launch(stream, [=] { gather_columns(matrix, column, n, out); });
}
template void gather_columns_cuda(const MatrixView<float>&, const std::uint32_t*, std::size_t,
                                  float*, cudaStream_t);
template void gather_columns_cuda(const MatrixView<Bf16>&, const std::uint32_t*, std::size_t, Bf16*,
                                  cudaStream_t);

template <class Element>
void scatter_columns_cuda(const Element* values, std::size_t rows, std::size_t n,
                          const std::uint32_t* column, Element* out, std::size_t row_stride,
                          cudaStream_t stream) {
  launch(stream, [=] { scatter_columns(values, rows, n, column, out, row_stride); });
}
template void scatter_columns_cuda(const float*, std::size_t, std::size_t, const std::uint32_t*,
                                   float*, std::size_t, cudaStream_t);
template void scatter_columns_cuda(const Bf16*, std::size_t, std::size_t, const std::uint32_t*,
                                   Bf16*, std::size_t, cudaStream_t);

std::size_t square_sums_workspace(std::size_t, std::size_t) {
  return kWorkspace;
}
template <class Element>
void square_sums_cuda(std::span<const SquareSumOf<Element>> arrays, void* workspace,
                      cudaStream_t stream) {
  launch(stream, [workspace, all = std::vector(arrays.begin(), arrays.end())] {
    use(workspace);
    for (const SquareSumOf<Element>& one : all) *one.sum = square_sum(one.values, one.n);
  });
}
template void square_sums_cuda(std::span<const SquareSumOf<float>>, void*, cudaStream_t);
template void square_sums_cuda(std::span<const SquareSumOf<Bf16>>, void*, cudaStream_t);

}  // namespace zenflow::kernels
