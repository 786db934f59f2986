/// Column norms on the GPU; the arithmetic is that of column_norm.h, bit for bit.
///
/// One thread sums four columns over one block of rows, one thread a column adds up the blocks.
/// Besides the matrix, 16 bytes for each column and block of rows are moved: 1/32 of an fp32 and
/// 1/16 of a bfloat16 matrix's bytes where blocks are full. A matrix whose rows do not all begin
/// alike within four elements is read element by element.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/column_norm/column_norm.h"

namespace zenflow::kernels {

/// Bytes of device memory that the sums of blocks take.
[[nodiscard]] std::size_t column_norm_workspace(std::size_t rows, std::size_t columns);

/// Enqueues the work on `stream` and returns; all pointers are to device memory. `workspace` is
/// column_norm_workspace(rows, columns) bytes, aligned for float, that nothing else uses until the
/// work has completed.
/// Throws Error(kDevice) if a launch fails.
void column_norms_cuda(const MatrixView<float>& matrix, ColumnNorms norms, void* workspace,
                       cudaStream_t stream);
void column_norms_cuda(const MatrixView<Bf16>& matrix, ColumnNorms norms, void* workspace,
                       cudaStream_t stream);

}  // namespace zenflow::kernels
