/// Tensor cores: a warp's product of bfloat16 tiles with fp32 sums, and how tiles get from shared
/// memory into the registers that it reads. The instructions are those of PTX for sm_80 and later.
///
/// With g = lane / 4 and t = lane % 4, by PTX's documentation of mma.m16n8k16 and ldmatrix:
///   A [16, 16]  registers 0..3 hold (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8), each with
///               the next column in its upper half
///   B [16, 8]   registers 0, 1 hold (2t, g), (2t + 8, g), each with the next row in its upper half
///   C [16, 8]   values 0..3 are (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1)
///   ldmatrix    lanes 8m to 8m + 7 name the rows of matrix m, of 8 elements each; register m of a
///               lane gets (g, 2t) of it with the next column, transposed (2t, g) with the next row
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "kernels/bf16/bf16.h"
#if defined(ZENFLOW_CUDA_EMULATOR)
#include <emulated_mma.h>
#endif

namespace zenflow::kernels {

/// c += a * b.
__device__ inline void mma_16x8x16(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                   std::uint32_t b1) {
#if defined(ZENFLOW_CUDA_EMULATOR)
  emulated_mma_16x8x16(c, a, b0, b1);
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
      "{%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/// Four matrices of 8 rows of 8; `row` is this lane's row, in shared memory at a multiple of 16
/// bytes.
__device__ inline void load_matrices(std::uint32_t (&out)[4], const Bf16* row) {
#if defined(ZENFLOW_CUDA_EMULATOR)
  emulated_ldmatrix(out, row, false);
#else
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
#endif
}
__device__ inline void load_matrices_transposed(std::uint32_t (&out)[4], const Bf16* row) {
#if defined(ZENFLOW_CUDA_EMULATOR)
  emulated_ldmatrix(out, row, true);
#else
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
#endif
}

/// Two neighbours, rounded, as a register holds them: the first in the lower half. The bits of a
/// NaN are not defined.
__device__ inline std::uint32_t bf16_pair(float first, float second) {
#if defined(ZENFLOW_CUDA_EMULATOR)
  return std::uint32_t{round_to_bf16(first).bits} |
         (std::uint32_t{round_to_bf16(second).bits} << 16U);
#else
  std::uint32_t pair = 0;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#endif
}

}  // namespace zenflow::kernels
