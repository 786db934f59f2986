#include "sim/calibrate/tile_fit.h"

#include <algorithm>

#include "sim/cost/product_cost.h"

namespace zenflow::sim {

double fit_gemm_efficiency(GpuProfile gpu, DType dtype, std::span<const TimedProduct> products) {
  Seconds measured{};
  for (const TimedProduct& one : products) measured += one.time;
  const auto predicted = [&](double efficiency) {
    gpu.gemm_efficiency = efficiency;
    const FlopsPerSecond rate = efficiency * gpu.peak.at(dtype);
    const BytesPerSecond stream = gpu.streaming_efficiency * gpu.memory_bandwidth;
    Seconds sum{};
    for (const TimedProduct& one : products) {
      const ProductRun run = product_run(gpu, dtype, one.m, one.n, one.k);
      sum += std::max(run.busy / rate, run.operands / stream) + run.besides + gpu.kernel_launch;
    }
    return sum;
  };
  constexpr int kHalvings = 40;
  double low = 0.01;
  double high = 1;
  for (int halving = 0; halving < kHalvings; ++halving) {
    const double middle = (low + high) / 2;
    (predicted(middle) > measured ? low : high) = middle;
  }
  return high;
}

}  // namespace zenflow::sim
