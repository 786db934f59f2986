/// Sums and maxima over a warp, and rows that move in whole packs.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/pack.cuh"

namespace zenflow::kernels {

/// Every lane gets the same bits: lanes are added in pairs 16, 8, 4, 2 and 1 apart.
__device__ inline float warp_sum(float value) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) value += __shfl_xor_sync(kAllLanes, value, apart);
  return value;
}

__device__ inline float warp_max(float value) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, apart));
  }
  return value;
}

__device__ inline unsigned lane_of_warp() {
  return threadIdx.x % kWarpSize;
}

/// Whether every row of arrays that begin at `arrays`, rows `stride` elements apart, begins at a
/// multiple of `kWidth` elements in memory. Null arrays are no obstacle.
template <unsigned kWidth, class... Elements>
[[nodiscard]] bool rows_fit_packs(std::size_t stride, const Elements*... arrays) {
  return stride % kWidth == 0 && (... && (lead_of<kWidth>(arrays) == 0));
}

/// Calls run.operator()<16 bytes>() if rows fit packs, run.operator()<1>() otherwise.
template <class Element, class Run, class... Elements>
void with_row_packs(std::size_t stride, const Run& run, const Elements*... arrays) {
  if (rows_fit_packs<full_pack<Element>()>(stride, arrays...)) {
    run.template operator()<full_pack<Element>()>();
  } else {
    run.template operator()<1>();
  }
}

}  // namespace zenflow::kernels
