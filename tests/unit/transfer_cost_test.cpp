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
  EXPECT_EQ(communicator(node, 4, 2).latency, 2.0_us);
  EXPECT_EQ(communicator(node, 4, 2).links.latency, 5.0_us);
  EXPECT_EQ(communicator(node, 1, 2).bandwidth, 20.0_GBps);
  EXPECT_EQ(communicator(node, 1, 1).ranks, 1);
}

/// Nodes of `gpus` GPUs: links of 100 GB/s and 2 us, networks of 20 GB/s and 5 us.
Communicator over_nodes(std::int64_t gpus, std::int64_t nodes) {
  return communicator(contended_node(gpus), gpus, nodes);
}

TEST(CollectiveOverNodes, RingPassesEachNetworkOnceARound) {
  // 16 ranks on 4 nodes: 15 hops, 12 within nodes and 3 between; 15/16 of 1 GB at 20 GB/s.
  const double round = 12 * 2e-6 + 3 * 5e-6 + 15.0 / 16 * 0.05;
  EXPECT_NEAR(reduce_scatter_time(over_nodes(4, 4), Bytes(1e9)).value(), round, kExact);
  EXPECT_NEAR(all_gather_time(over_nodes(4, 4), Bytes(1e9)).value(), round, kExact);
  // One GPU a node: all hops are between nodes.
  EXPECT_NEAR(all_gather_time(over_nodes(1, 4), Bytes(1e9)).value(), 3 * 5e-6 + 0.75 * 0.05,
              kExact);
}

/// The latency of a node's GPU links is of a whole collective: over many nodes a hop counts alone.
TEST(CollectiveOverNodes, CountHopsWithinNodesByWhatEachTakes) {
  HardwareProfile node = contended_node(4);
  node.gpu_link->latency = 10.0_us;
  node.gpu_link->kind = "NVLink 3";
  EXPECT_DOUBLE_EQ(communicator(node, 4, 2).latency.value(), 3.4e-6);
  EXPECT_DOUBLE_EQ(communicator(node, 4, 1).latency.value(), 10e-6);
  node.gpu_link->kind = "PCIe 4.0 x16";
  EXPECT_DOUBLE_EQ(communicator(node, 4, 2).latency.value(), 5.7e-6);
}

TEST(CollectiveOverNodes, AllReduceOfLittleIsATreeOfNodesAndAChainInEach) {
  // 8 nodes of 4: 2 x (3 x 2 us + 3 x 5 us); both directions of each network take 2 x 1 kB, of
  // which the tree's bandwidth is 0.92. A ring takes 2 x (24 x 2 us + 7 x 5 us).
  EXPECT_NEAR(all_reduce_time(over_nodes(4, 8), Bytes(1000)).value(),
              42e-6 + 2 * 1000 / 20e9 / 0.92, kExact);
  // Nodes that fill no level: 7 have the levels of 4.
  EXPECT_NEAR(all_reduce_time(over_nodes(4, 7), Bytes(1000)).value(),
              2 * (3 * 2e-6 + 2 * 5e-6) + 2 * 1000 / 20e9 / 0.92, kExact);
}

TEST(CollectiveOverNodes, AllReduceOfMuchIsARingOnMoreThanTwoNodes) {
  EXPECT_NEAR(all_reduce_time(over_nodes(4, 4), Bytes(1e9)).value(),
              2 * (12 * 2e-6 + 3 * 5e-6 + 15.0 / 16 * 0.05), kExact);
}

TEST(CollectiveOverNodes, TwoNodesExchangeHalvesOverTwoTrees) {
  // 1 GB over each network in each direction, in place of the ring's 2 x 7/8.
  EXPECT_NEAR(all_reduce_time(over_nodes(4, 2), Bytes(1e9)).value(),
              2 * (3 * 2e-6 + 5e-6) + 0.05 / 0.92, kExact);
}

TEST(CollectiveOverNodes, SwitchesThatAddUpShareTheWorkOfTheNodes) {
  HardwareProfile node = contended_node(4);
  node.gpu_link->kind = "NVLink 4";
  // The network is the narrow part: no 0.92, and no chain.
  EXPECT_NEAR(all_reduce_time(communicator(node, 4, 2), Bytes(1e9)).value(), 2e-6 + 2 * 5e-6 + 0.05,
              kExact);
  node.network->bandwidth = BytesPerSecond(400e9);
  EXPECT_NEAR(all_reduce_time(communicator(node, 4, 2), Bytes(1e9)).value(),
              2e-6 + 2 * 5e-6 + 2 * 0.01 / 1.48, kExact);
  for (const char* without : {"NVLink 3", "NVLink 4 bridge", "PCIe 4.0", "NVLink-C2C"}) {
    node.gpu_link->kind = without;
    EXPECT_FALSE(communicator(node, 4, 2).links.adds_up) << without;
  }
  node.gpu_link->kind = "NVLink 4";
  EXPECT_FALSE(communicator(node, 4, 1).links.adds_up) << "one node's results stay";
}

/// What eight H100 with eight network cards of 400 Gb/s a node reach, by nccl-tests: two nodes 430
/// GB/s with NVLink SHARP and 330 without, four nodes 320 either way (github NVIDIA/nccl issue
/// 1221).
TEST(CollectiveOverNodes, ReachWhatWasMeasuredOnTwoAndFourNodes) {
  HardwareProfile node = contended_node(8);
  node.gpu_link = GpuLinkProfile{"NVLink 4", 370.0_GBps, 10.0_us};
  node.network = NetworkProfile{330.0_GBps, 5.0_us};
  const auto bus_bandwidth = [&](std::int64_t nodes) {
    const Communicator group = communicator(node, 8, nodes);
    const auto ranks = static_cast<double>(group.ranks);
    return 2 * (ranks - 1) / ranks * 8 / all_reduce_time(group, Bytes(8e9)).value();
  };
  EXPECT_NEAR(bus_bandwidth(2), 430, 0.2 * 430);
  EXPECT_NEAR(bus_bandwidth(4), 320, 0.05 * 320);
  node.gpu_link->kind = "NVLink 3";
  EXPECT_NEAR(bus_bandwidth(2), 330, 0.05 * 330);
}

/// Many ranks: what each passes tends to the whole buffer, and twice that for an all-reduce.
TEST(CollectiveOverNodes, TendToTheirBandwidthAsBytesAndRanksGrow) {
  const Communicator many = over_nodes(8, 128);
  const double whole = 1e15 / 20e9;
  EXPECT_NEAR(all_gather_time(many, Bytes(1e15)).value() / whole, 1, 2e-3);
  EXPECT_NEAR(all_reduce_time(many, Bytes(1e15)).value() / (2 * whole), 1, 2e-3);
  // Of nothing, hops are all: a ring's grow with the ranks, a tree's with the levels of nodes.
  EXPECT_NEAR(all_gather_time(many, Bytes(0)).value(), 896 * 2e-6 + 127 * 5e-6, kExact);
  EXPECT_NEAR(all_reduce_time(many, Bytes(0)).value(), 2 * (7 * 2e-6 + 7 * 5e-6), kExact);
}

TEST(CollectiveOverNodes, NeverTakeLongerThanARingAndNeverGrowWithBandwidth) {
  for (const std::int64_t nodes : {2, 3, 8, 100}) {
    for (const double bytes : {1e3, 1e6, 1e9}) {
      const Communicator group = over_nodes(8, nodes);
      const double time = all_reduce_time(group, Bytes(bytes)).value();
      EXPECT_LE(time, 2 * reduce_scatter_time(group, Bytes(bytes)).value() * (1 + 1e-12));
      HardwareProfile faster = contended_node(8);
      faster.network->bandwidth = 2 * faster.network->bandwidth;
      EXPECT_LE(all_reduce_time(communicator(faster, 8, nodes), Bytes(bytes)).value(), time);
    }
  }
}

TEST(NvmeTime, IsLatencyAndBytesAtTheRateOfTheAccess) {
  const NvmeProfile nvme = *contended_node(1).nvme;  // 6 and 3 GB/s, 100 us
  EXPECT_NEAR(nvme_time(nvme, NvmeAccess::kRead, Bytes(6e9)).value(), 1.0001, 1e-12);
  EXPECT_NEAR(nvme_time(nvme, NvmeAccess::kWrite, Bytes(6e9)).value(), 2.0001, 1e-12);
}

}  // namespace
}  // namespace zenflow::sim
