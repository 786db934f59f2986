/// Column norms on the GPU; the arithmetic is that of column_norm.h, bit for bit.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/column_norm/column_norm.h"

namespace zenflow::kernels {

/// Enqueues the work on `stream` and returns; all pointers are to device memory.
/// Throws Error(kDevice) if the launch fails. Precondition: columns < 2^39.
void column_norms_cuda(const MatrixView<float>& matrix, ColumnNorms norms, cudaStream_t stream);
void column_norms_cuda(const MatrixView<Bf16>& matrix, ColumnNorms norms, cudaStream_t stream);

}  // namespace zenflow::kernels
