/// Rotary positions on the GPU; the arithmetic is that of rotary.h, bit for bit.
///
/// One thread for a pack of up to 16 bytes of a head's lower half and the pack it turns with.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/rotary/rotary.h"

namespace zenflow::kernels {

/// Enqueues on `stream` and returns; all pointers are to device memory. There is Element = float
/// and Bf16. Throws Error(kDevice) if the launch fails.
template <class Element>
void rotary_cuda(const RotaryShape& shape, RotaryAngles angles, RotaryDirection direction,
                 Element* x, cudaStream_t stream);

}  // namespace zenflow::kernels
