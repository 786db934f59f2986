// The efficiency of a GPU's products by tiles, from products whose times are made with one.
#include "sim/calibrate/tile_fit.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "sim/cost/product_cost.h"

namespace zenflow::sim {
namespace {

GpuProfile gpu() {
  GpuProfile gpu;
  gpu.multiprocessors = 132;
  gpu.peak = {{DType::kBf16, FlopsPerSecond(1e15)}};
  gpu.memory_bandwidth = BytesPerSecond(4e12);
  gpu.streaming_efficiency = 0.9;
  gpu.kernel_launch = Seconds(3e-6);
  return gpu;
}

std::vector<TimedProduct> timed(double efficiency, double slower = 1) {
  std::vector<TimedProduct> products = {
      {4096, 4096, 4096, {}}, {4096, 11008, 4096, {}}, {4096, 768, 768, {}}};
  for (TimedProduct& one : products) {
    const ProductRun run = product_run(gpu(), DType::kBf16, one.m, one.n, one.k);
    one.time = slower * (std::max(run.busy / FlopsPerSecond(efficiency * 1e15),
                                  run.operands / BytesPerSecond(3.6e12)) +
                         run.besides + gpu().kernel_launch);
  }
  return products;
}

TEST(TileFit, FindsTheEfficiencyThatTheTimesWereMadeWith) {
  for (const double efficiency : {0.3, 0.69, 0.95}) {
    EXPECT_NEAR(fit_gemm_efficiency(gpu(), DType::kBf16, timed(efficiency)), efficiency, 1e-6);
  }
}

TEST(TileFit, SlowerProductsHaveALowerOneAndNoneIsAboveOne) {
  EXPECT_LT(fit_gemm_efficiency(gpu(), DType::kBf16, timed(0.8, 1.2)), 0.8);
  EXPECT_NEAR(fit_gemm_efficiency(gpu(), DType::kBf16, timed(0.9, 0.1)), 1, 1e-9);
}

}  // namespace
}  // namespace zenflow::sim
