/// What rank 0 makes of when all ranks came to their exchanges.
#include "runtime/tune/rank_tuning.h"

#include <cstddef>
#include <vector>

#include <gtest/gtest.h>

namespace zenflow::runtime {
namespace {

/// Two steps of two groups on two ranks; the second rank comes to each exchange a little later, and
/// leaves some earlier.
TEST(ExchangeSamples, AreOfTheGroupsInTheOrderOfAStep) {
  const std::vector<GroupSize> groups = {{100, 1}, {3000, 5}};
  const std::vector<double> first = {0, 2, 2, 5, 5, 9, 9, 14, 20, 22, 22, 25, 25, 29, 29, 34};
  const std::vector<double> second = {1,  2,  2.5, 4,  5.5, 9,  10, 13,  //
                                      21, 22, 22,  24, 26,  29, 30, 33};
  std::vector<double> stays = first;
  stays.insert(stays.end(), second.begin(), second.end());
  const std::vector<sim::CollectiveSample> samples = exchange_samples(stays, 2, groups);
  ASSERT_EQ(samples.size(), 8U);
  const std::vector<double> seconds = {1, 2.5, 3.5, 4, 1, 3, 3, 4};
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool gathers = i % 4 < 2;
    const GroupSize& group = groups[i % 4 == 0 || i % 4 == 3 ? 0 : 1];
    EXPECT_EQ(samples[i].operation, gathers ? Operation::kAllGather : Operation::kReduceScatter);
    EXPECT_EQ(samples[i].bytes, group.bytes) << i;
    EXPECT_EQ(samples[i].tensors, group.tensors) << i;
    EXPECT_EQ(samples[i].ranks, 2);
    EXPECT_DOUBLE_EQ(samples[i].seconds, seconds[i]) << i;
  }
}

TEST(ExchangeSamples, NeedNotBe) {
  const std::vector<GroupSize> groups = {{100, 1}};
  EXPECT_TRUE(exchange_samples({}, 3, groups).empty());
}

}  // namespace
}  // namespace zenflow::runtime
