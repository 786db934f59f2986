/// What a GPU's products say of its gemm_efficiency, by the tiles of sim/cost/product_cost.h.
#pragma once

#include <span>

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

/// A product [m, k] x [k, n], and how long it took when it ran over and over.
struct TimedProduct {
  double m;
  double n;
  double k;
  Seconds time;
};

/// The efficiency with which all products together take as long as they took; from 0.01 to 1.
/// Preconditions: `gpu` states multiprocessors, kernel_launch, memory's rate and a peak of `dtype`.
[[nodiscard]] double fit_gemm_efficiency(GpuProfile gpu, DType dtype,
                                         std::span<const TimedProduct> products);

}  // namespace zenflow::sim
