// Copies, collectives and NVMe by hand.
#include "sim/cost/transfer_cost.h"

#include <gtest/gtest.h>

#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using testing::contended_node;
using testing::round_node;

constexpr double kExact = 1e-15;

TEST(CopyTime, IsLatencyAndBytesAtTheRateOfItsDirectionAndMemory) {
  const HostLinkProfile link = round_node().host_link;  // pinned 20 and 10, pageable 5 and 4 GB/s
  EXPECT_NEAR(copy_time(link, Direction::kH2D, true, Bytes(1e9)).value(), 0.05001, kExact);
  EXPECT_NEAR(copy_time(link, Direction::kD2H, true, Bytes(1e9)).value(), 0.10001, kExact);
  EXPECT_NEAR(copy_time(link, Direction::kH2D, false, Bytes(1e9)).value(), 0.20001, kExact);
  EXPECT_NEAR(copy_time(link, Direction::kD2H, false, Bytes(1e9)).value(), 0.25001, kExact);
  EXPECT_DOUBLE_EQ(copy_time(link, Direction::kD2H, true, Bytes(0)).value(), 10e-6);
  EXPECT_EQ(copy_rate(link, Direction::kD2H, true), 10.0_GBps);
  EXPECT_EQ(copy_rate(link, Direction::kH2D, false), 5.0_GBps);
}

TEST(Collective, RingPassesAllButOneShareInOneHopLessThanRanks) {
  const Communicator four{4, 100.0_GBps, 2.0_us};
  // 3 x 2 us + 3/4 x 1 GB at 100 GB/s.
  EXPECT_NEAR(reduce_scatter_time(four, Bytes(1e9)).value(), 6e-6 + 7.5e-3, kExact);
  EXPECT_NEAR(all_gather_time(four, Bytes(1e9)).value(), 6e-6 + 7.5e-3, kExact);
}

TEST(Collective, AllReduceOfMuchIsARing) {
  // Ring 2 x 7.506 ms; tree 2 x 2 x 2 us + 2 x 10 ms.
  EXPECT_NEAR(all_reduce_time({4, 100.0_GBps, 2.0_us}, Bytes(1e9)).value(), 15.012e-3, kExact);
}

TEST(Collective, AllReduceOfLittleIsATree) {
  // 8 ranks: ring 28.0175 us; tree 2 x 3 x 2 us + 2 x 10 ns.
  EXPECT_NEAR(all_reduce_time({8, 100.0_GBps, 2.0_us}, Bytes(1000)).value(), 12.02e-6, kExact);
  // 5 ranks need a tree as deep as 8 do.
  EXPECT_NEAR(all_reduce_time({5, 100.0_GBps, 2.0_us}, Bytes(1000)).value(), 12.02e-6, kExact);
}

TEST(Collective, OfTwoRanksIsTheCheaperOfRingAndTree) {
  // Ring 2 (2 us + 1/2 x 10 ns) = 4.01 us; tree 2 x 2 us + 2 x 10 ns = 4.02 us.
  EXPECT_NEAR(all_reduce_time({2, 100.0_GBps, 2.0_us}, Bytes(1000)).value(), 4.01e-6, kExact);
}

TEST(Collective, OfOneRankTakesNoTime) {
  const Communicator one{1, BytesPerSecond(0), Seconds(0)};
  EXPECT_EQ(reduce_scatter_time(one, Bytes(1e9)).value(), 0);
  EXPECT_EQ(all_gather_time(one, Bytes(1e9)).value(), 0);
  EXPECT_EQ(all_reduce_time(one, Bytes(1e9)).value(), 0);
}

TEST(Communicator, IsAsFastAsItsSlowestLink) {
  const HardwareProfile node = contended_node(4);  // GPU links 100 GB/s, 2 us; network 20, 5 us
  EXPECT_EQ(communicator(node, 4, 1).ranks, 4);
  EXPECT_EQ(communicator(node, 4, 1).bandwidth, 100.0_GBps);
  EXPECT_EQ(communicator(node, 4, 2).ranks, 8);
  EXPECT_EQ(communicator(node, 4, 2).bandwidth, 20.0_GBps);
  EXPECT_EQ(communicator(node, 4, 2).latency, 5.0_us);
  EXPECT_EQ(communicator(node, 1, 2).bandwidth, 20.0_GBps);
  EXPECT_EQ(communicator(node, 1, 1).ranks, 1);
}

TEST(NvmeTime, IsLatencyAndBytesAtTheRateOfTheAccess) {
  const NvmeProfile nvme = *contended_node(1).nvme;  // 6 and 3 GB/s, 100 us
  EXPECT_NEAR(nvme_time(nvme, NvmeAccess::kRead, Bytes(6e9)).value(), 1.0001, 1e-12);
  EXPECT_NEAR(nvme_time(nvme, NvmeAccess::kWrite, Bytes(6e9)).value(), 2.0001, 1e-12);
}

}  // namespace
}  // namespace zenflow::sim
