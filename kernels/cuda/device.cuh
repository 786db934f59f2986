/// What device code here shares: the number of a thread, dynamic shared memory, values as they are
/// stored.
#pragma once

#include <cstddef>
#include <type_traits>

#include <cuda_runtime.h>

#include "kernels/bf16/bf16.h"

namespace zenflow::kernels {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

/// This thread's among all of a one-dimensional grid.
__device__ inline std::size_t thread_number() {
  return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
}

/// The block's dynamic shared memory. Arrays whose size is known could be static; here they are
/// sized by the launch, as that is what AddressSanitizer checks under the emulator.
template <class T>
__device__ T* dynamic_shared() {
#if defined(ZENFLOW_CUDA_EMULATOR)
  return static_cast<T*>(emulated_dynamic_shared());
#else
  extern __shared__ __align__(16) unsigned char zenflow_dynamic_shared[];
  return reinterpret_cast<T*>(zenflow_dynamic_shared);
#endif
}

/// Loads above stay above. Without it nvcc moves each load down to its use, to save registers, and
/// a thread has few of them under way. ptxas does the same unless __launch_bounds__ also states how
/// few blocks have to fit on a multiprocessor (seen in CUDA 13.0).
__device__ inline void loads_stay_above() {
  asm volatile("" ::: "memory");
}

template <class Element>
__device__ Element stored(float value) {
  if constexpr (std::is_same_v<Element, Bf16>) {
    return round_to_bf16(value);
  } else {
    return value;
  }
}

}  // namespace zenflow::kernels
