/// Attention on the GPU; the arithmetic is that of attention.h.
///
/// Two implementations. With tensor cores: bf16 with head_dim 64 or 128 and arrays at multiples of
/// 16 bytes, in tiles of 64 queries by 64 keys whose scores stay in registers (mma.sync, as Ampere
/// and later have it). Without: every other shape and fp32, one warp for each row, correct rather
/// than fast.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/attention/attention.h"

namespace zenflow::kernels {

/// The largest head_dim that there is; more is refused by assertion.
inline constexpr std::size_t kLargestHeadDim = 256;

/// Enqueue on `stream` and return; all pointers are to device memory. There is Element = float and
/// Bf16. Throw Error(kDevice) if a launch fails.
template <class Element>
void attention_forward_cuda(const AttentionShape& shape, const AttentionForward<Element>& values,
                            cudaStream_t stream);
template <class Element>
void attention_backward_cuda(const AttentionShape& shape, const AttentionBackward<Element>& values,
                             cudaStream_t stream);

/// Whether the two functions above use tensor cores for it.
[[nodiscard]] bool attention_uses_tensor_cores(const AttentionShape& shape,
                                               const AttentionForward<Bf16>& values);

// The parts of the two implementations; for the functions above and for tests.
void attention_forward_tiles(const AttentionShape& shape, const AttentionForward<Bf16>& values,
                             cudaStream_t stream);
/// `delta` is there already.
void attention_backward_tiles(const AttentionShape& shape, const AttentionBackward<Bf16>& values,
                              cudaStream_t stream);

}  // namespace zenflow::kernels
