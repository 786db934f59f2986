/// Sums of squares on the GPU; the arithmetic is that of square_sum.h, bit for bit.
#pragma once

#include <span>

#include <cuda_runtime_api.h>

#include "kernels/square_sum/square_sum.h"

namespace zenflow::kernels {

/// One array whose sum is wanted: pointers are to device memory.
template <class Element>
struct SquareSumOf {
  const Element* values;  ///< [n]
  std::size_t n;
  double* sum;
};

/// The most bytes of device memory that square_sums_cuda uses for `arrays` arrays with `elements`
/// elements in all: a double for each of their blocks.
[[nodiscard]] std::size_t square_sums_workspace(std::size_t elements, std::size_t arrays);

/// Enqueues *sum = the sum of squares of `values` for each of `arrays` on `stream` and returns.
/// Arrays are taken together, some 60 a kernel: each alone would leave most of a GPU idle for as
/// long as one of its threads takes, some 10 us. `workspace` is square_sums_workspace of them,
/// aligned for double, that nothing else uses until the work has completed. `values` that do not
/// begin at a multiple of 16 bytes are read element by element. There is Element = float and Bf16.
/// Throws Error(kDevice) if a launch fails.
template <class Element>
void square_sums_cuda(std::span<const SquareSumOf<Element>> arrays, void* workspace,
                      cudaStream_t stream);

}  // namespace zenflow::kernels
