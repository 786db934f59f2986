/// Gather and scatter of columns on the GPU: what columns.h says, copied by tiles.
///
/// Neighbouring threads read or write neighbouring selected columns, so that those which share a
/// sector of 32 bytes cost it once; what is contiguous moves 16 bytes a thread. No kernel moves
/// less than the sectors that hold a selected element, and the contiguous side; scattering into a
/// part of a sector makes the memory read it, too.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/columns/columns.h"

namespace zenflow::kernels {

/// Enqueue the work on `stream` and return; all pointers are to device memory. Arguments as in
/// columns.h, except that scatter_columns_cuda does not define what a column named twice holds.
/// There is Element = float and Bf16. Throw Error(kDevice) if the launch fails.
template <class Element>
void gather_columns_cuda(const MatrixView<Element>& matrix, const std::uint32_t* column,
                         std::size_t n, Element* out, cudaStream_t stream);
template <class Element>
void scatter_columns_cuda(const Element* values, std::size_t rows, std::size_t n,
                          const std::uint32_t* column, Element* out, std::size_t row_stride,
                          cudaStream_t stream);

}  // namespace zenflow::kernels
