#include "kernels/column_norm/column_norm_cuda.h"
#include "kernels/cuda/launch.cuh"

namespace zenflow::kernels {
namespace {

constexpr unsigned kBlockSize = 256;

__device__ float as_float(float value) {
  return value;
}
__device__ float as_float(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16U);
}

__device__ float canonical(float norm) {
  return isnan(norm) ? __uint_as_float(0x7FC00000U) : norm;
}

/// One thread per column, rows in ascending order: neighbouring threads read neighbouring
/// elements, and the order of summation is the reference's.
template <class Element>
__global__ void column_norms_kernel(MatrixView<Element> matrix, ColumnNorms norms) {
  const std::size_t column = std::size_t{blockIdx.x} * kBlockSize + threadIdx.x;
  if (column >= matrix.columns) return;
  float l1 = 0.0F;
  float squares = 0.0F;
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const float x = as_float(matrix.values[r * matrix.row_stride + column]);
    l1 = __fadd_rn(l1, fabsf(x));
    squares = __fadd_rn(squares, __fmul_rn(x, x));
  }
  norms.l1[column] = canonical(l1);
  norms.l2[column] = canonical(__fsqrt_rn(squares));
}

template <class Element>
void column_norms(const MatrixView<Element>& matrix, ColumnNorms norms, cudaStream_t stream) {
  if (matrix.columns == 0) return;  // a grid has at least one block
  const auto blocks = static_cast<unsigned>((matrix.columns + kBlockSize - 1) / kBlockSize);
  launch(column_norms_kernel<Element>, blocks, kBlockSize, 0, stream, matrix, norms);
}

}  // namespace

void column_norms_cuda(const MatrixView<float>& matrix, ColumnNorms norms, cudaStream_t stream) {
  column_norms(matrix, norms, stream);
}

void column_norms_cuda(const MatrixView<Bf16>& matrix, ColumnNorms norms, cudaStream_t stream) {
  column_norms(matrix, norms, stream);
}

}  // namespace zenflow::kernels
