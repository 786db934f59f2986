/// Time of one matrix product on a GPU by the tiles in which its multiprocessors compute it.
///
///   waves(tile, parts) = ceil(m / rows) ceil(n / columns) parts / multiprocessors, rounded up
///                        unless there are more than 6: then tiles of unequal speed fill the last
///   main loop          = waves multiprocessors 2 rows columns (k / parts) / share(tile)
///                        / (1.1 gemm_efficiency peak), or the operands' bytes / (s W) if longer
///   time               = min over tiles and parts of main loop
///                        + b m n / (2 s W)             half of the result is written after it
///                        + if parts > 1: 8 parts m n / (s W) + 3 us
///                                                       partial results in fp32, and their sum
///                        + 2 us + kernel_launch
///
/// Tiles and the share of the largest ones' rate: 256 x 128 and 128 x 256 1, 128 x 128 0.9,
/// 128 x 64 0.7, 64 x 64 0.5. Parts are powers of two up to 16, of at least 512 along k.
/// gemm_efficiency is what a benchmark's large product reaches with all of that; within it the
/// main loop is 1.1 times as fast.
///
/// Found with the 35 bf16 products of an H100 in openxla/xla, xla/service/gpu/model/
/// matmul_interpolator_data.h (11 to 783 TFLOPS): 3.7 % off in the mean, 13 % at worst.
#pragma once

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

/// What a product [m, k] x [k, n] keeps the GPU busy with, run over and over as by a benchmark.
struct ProductRun {
  Flops busy;       ///< of the main loop, as gemm_efficiency counts them
  Bytes operands;   ///< read while it runs
  Seconds besides;  ///< before and after it, without kernel_launch
};

/// Preconditions: the multiprocessors are stated, the profile has a peak for `dtype`, m, n, k >= 1.
[[nodiscard]] ProductRun product_run(const GpuProfile& gpu, DType dtype, double m, double n,
                                     double k);

}  // namespace zenflow::sim
