#include "sim/cost/selection_cost.h"

#include <gtest/gtest.h>

namespace zenflow::sim {
namespace {

GpuProfile gpu() {
  GpuProfile profile;
  profile.memory_bandwidth = BytesPerSecond(2e12);
  profile.streaming_efficiency = 0.5;  // 1 TB/s
  profile.kernel_launch = Seconds(1e-6);
  return profile;
}

// 5e8 bf16 gradients are 1 GB: 1 ms at 1 TB/s, and 1 us for the kernel.
TEST(SelectionCost, NormsReadEveryGradientOnce) {
  EXPECT_DOUBLE_EQ(column_norm_time(gpu(), DType::kBf16, 5e8).value(), 1.001e-3);
}

// A million columns: 4 MB of norms, passed over four times, 16 us; and 1 us.
TEST(SelectionCost, TopKPassesOverTheNormsFourTimes) {
  EXPECT_NEAR(top_k_time(gpu(), 1'000'000).value(), 17e-6, 1e-15);
}

// Ring over 4: 2 x 3 hops of 10 us, and 2 x 3/4 x 4 MB at 100 GB/s = 60 us: 120 us. The tree, 2 x 2
// hops and 2 x 4 MB, also takes 40 + 80 = 120 us.
TEST(SelectionCost, ExchangeIsAnAllReduceOfFourBytesAColumn) {
  const Communicator four{4, BytesPerSecond(100e9), Seconds(10e-6)};
  EXPECT_NEAR(norm_exchange_time(four, 1'000'000).value(), 120e-6, 1e-15);
  const Communicator one{1, BytesPerSecond(0), Seconds(0)};
  EXPECT_EQ(norm_exchange_time(one, 1'000'000).value(), 0.0);
}

}  // namespace
}  // namespace zenflow::sim
