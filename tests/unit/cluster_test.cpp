// Which ranks are alike and what loads which link.
#include "sim/schedule/cluster.h"

#include <algorithm>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using testing::contended_node;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using testing::round_node;
using testing::tiny_llama;
using ::testing::UnorderedElementsAre;

constexpr RankRates kRates{10.0_GBps, 20.0_GBps, 40.0_GBps, 50.0_GBps};

Scenario scenario(HardwareProfile hardware, std::int64_t gpus) {
  Scenario one;
  one.model = tiny_llama();
  one.hardware = std::move(hardware);
  one.gpus = gpus;
  return one;
}

std::map<std::string, double> uses(const Cluster& cluster, LaneUse where) {
  std::map<std::string, double> named;
  if (where.flow == kNoFlow) return named;
  for (const LinkUse& use : cluster.machine.flows.at(where.flow).uses) {
    named[cluster.machine.links.at(use.link).name] = use.coefficient;
  }
  return named;
}

std::vector<std::int64_t> multiplicities(const Cluster& cluster) {
  std::vector<std::int64_t> all;
  for (const RankClass& one : cluster.classes) all.push_back(one.multiplicity);
  return all;
}

TEST(Cluster, OfAHostDeviceSharesItsCoresWithOtherThreads) {
  Scenario one = scenario(round_node(), 1);
  one.hardware.gpu.host_cores = 1;
  one.hardware.host.cores = 4;
  const Machine alone = make_host_device_cluster(one, kRates, {}).machine;
  EXPECT_THAT(alone.background, IsEmpty());
  one.other_threads = 2.25;
  const Machine shared = make_host_device_cluster(one, kRates, {}).machine;
  ASSERT_EQ(shared.flows.size(), alone.flows.size() + 2);
  std::vector<double> wanted;
  for (const FlowId flow : shared.background) {
    wanted.push_back(shared.flows.at(flow).solo_rate.value());
    ASSERT_EQ(shared.flows.at(flow).uses.size(), 1U);
    EXPECT_EQ(shared.links.at(shared.flows.at(flow).uses[0].link).name, "cores");
  }
  EXPECT_THAT(wanted, ElementsAre(1.0, 1.0, 0.25));
  for (const double threads : {0.5, 3.0}) {
    one.other_threads = threads;
    EXPECT_EQ(make_host_device_cluster(one, kRates, {}).machine.flows.size(),
              alone.flows.size() + 1);
  }
}

TEST(Cluster, KernelsOfTheUploadLaneTakeACoreOfAHostAndCountAsCopiesOfAGpu) {
  Scenario one = scenario(round_node(), 1);
  one.hardware.gpu.host_cores = 2;
  one.hardware.host.cores = 4;
  one.hardware.host.core_bandwidth = 240.0_GBps;
  const Cluster host = make_host_device_cluster(one, kRates, {});
  const RankClass& threads = host.classes.at(0);
  EXPECT_EQ(threads.h2d_kernels.lane, threads.h2d.lane);
  const auto cores = [&](const LaneUse& use) {
    return host.machine.flows.at(use.flow).solo_rate.value();
  };
  EXPECT_EQ(cores(threads.h2d_kernels), 1);
  EXPECT_EQ(cores(threads.h2d), 0.25) << "20 GB/s, three times that in traffic";

  const Cluster gpus = make_cluster(scenario(contended_node(4), 4), kRates);
  const RankClass& rank = gpus.classes.at(0);
  EXPECT_EQ(rank.h2d_kernels.lane, rank.h2d.lane);
  EXPECT_EQ(rank.h2d_kernels.flow, rank.h2d.flow);
}

TEST(Cluster, OfOneGpuWithoutBottlenecksHasNoLinks) {
  const Cluster cluster = make_cluster(scenario(round_node(), 1), kRates);
  EXPECT_THAT(cluster.machine.links, IsEmpty());
  ASSERT_EQ(cluster.classes.size(), 1U);
  EXPECT_EQ(cluster.classes[0].multiplicity, 1);
  EXPECT_EQ(cluster.classes[0].d2h.flow, kNoFlow);
  EXPECT_EQ(cluster.classes[0].cpu_update.flow, kNoFlow);
  EXPECT_THAT(cluster.machine.lanes,
              ElementsAre("compute0", "d2h0", "h2d0", "cpu_update0", "cpu_accumulate0"));
}

TEST(Cluster, FourGpusBehindOneSwitchAreOneClassThatCountsFourTimes) {
  const Cluster cluster = make_cluster(scenario(contended_node(4), 4), kRates);
  EXPECT_THAT(multiplicities(cluster), ElementsAre(4));
  const RankClass& one = cluster.classes[0];
  // A GPU's own link is its own; the switch and DRAM carry all four. A GPU's d2h and h2d links
  // alone cannot bind: a copy is never faster than they are.
  EXPECT_THAT(uses(cluster, one.d2h),
              UnorderedElementsAre(Pair("gpu0.both", 1), Pair("switch0.d2h", 4),
                                   Pair("switch0.both", 4), Pair("dram0", 4)));
  EXPECT_THAT(uses(cluster, one.h2d),
              UnorderedElementsAre(Pair("gpu0.both", 1), Pair("switch0.h2d", 4),
                                   Pair("switch0.both", 4), Pair("dram0", 4)));
  EXPECT_THAT(uses(cluster, one.cpu_update), UnorderedElementsAre(Pair("dram0", 4)));
  EXPECT_EQ(cluster.machine.flows.at(one.d2h.flow).solo_rate, 10.0_GBps);
}

TEST(Cluster, ThreeGpusOnTwoSwitchesAreTwoClasses) {
  HardwareProfile hardware = contended_node(3);
  hardware.host_link.switches[0].gpus = {0, 1};
  hardware.host_link.switches.push_back({{2}, {30.0_GBps, 7.0_GBps, 30.0_GBps}});
  const Cluster cluster = make_cluster(scenario(hardware, 3), kRates);
  EXPECT_THAT(multiplicities(cluster), ElementsAre(2, 1));
  EXPECT_EQ(cluster.classes[0].first_rank, 0);
  EXPECT_EQ(cluster.classes[1].first_rank, 2);
  EXPECT_EQ(uses(cluster, cluster.classes[0].d2h)["switch0.d2h"], 2);
  EXPECT_EQ(uses(cluster, cluster.classes[0].d2h)["dram0"], 2);
  EXPECT_EQ(uses(cluster, cluster.classes[1].d2h)["switch1.d2h"], 1);
  EXPECT_EQ(uses(cluster, cluster.classes[1].d2h).count("switch0.d2h"), 0U);
}

TEST(Cluster, GpusBesideASwitchDifferFromThoseBehindIt) {
  HardwareProfile hardware = contended_node(4);
  hardware.host_link.switches[0].gpus = {1, 2};
  EXPECT_THAT(multiplicities(make_cluster(scenario(hardware, 4), kRates)), ElementsAre(2, 2));
}

TEST(Cluster, TwoSwitchesOfTwoAreOneClass) {
  HardwareProfile hardware = contended_node(4);
  hardware.host_link.switches[0].gpus = {0, 2};
  hardware.host_link.switches.push_back({{1, 3}, hardware.host_link.switches[0].path});
  const Cluster cluster = make_cluster(scenario(hardware, 4), kRates);
  EXPECT_THAT(multiplicities(cluster), ElementsAre(4));
  EXPECT_EQ(uses(cluster, cluster.classes[0].d2h)["switch0.d2h"], 2);
  EXPECT_EQ(uses(cluster, cluster.classes[0].d2h)["dram0"], 4);
}

TEST(Cluster, SwitchesOfUnequalPathsAreNotAlike) {
  HardwareProfile hardware = contended_node(2);
  hardware.host_link.switches[0].gpus = {0};
  hardware.host_link.switches.push_back({{1}, {5.0_GBps, 5.0_GBps, 5.0_GBps}});
  EXPECT_THAT(multiplicities(make_cluster(scenario(hardware, 2), kRates)), ElementsAre(1, 1));
}

TEST(Cluster, RanksLoadTheirOwnSocketIfTheyDivideEvenly) {
  HardwareProfile hardware = contended_node(4);
  hardware.host.sockets = 2;
  const Cluster cluster = make_cluster(scenario(hardware, 4), kRates);
  EXPECT_THAT(multiplicities(cluster), ElementsAre(4));
  EXPECT_THAT(uses(cluster, cluster.classes[0].cpu_update), UnorderedElementsAre(Pair("dram0", 2)));
  const auto& links = cluster.machine.links;
  const auto dram = std::find_if(links.begin(), links.end(),
                                 [](const Link& link) { return link.name == "dram0"; });
  ASSERT_NE(dram, links.end());
  EXPECT_EQ(dram->capacity, 105.0_GBps);
}

TEST(Cluster, RanksThatDoNotDivideEvenlyLoadAllSockets) {
  HardwareProfile hardware = contended_node(3);
  hardware.host.sockets = 2;
  hardware.host_link.switches.clear();
  const Cluster cluster = make_cluster(scenario(hardware, 3), kRates);
  EXPECT_THAT(multiplicities(cluster), ElementsAre(3));
  EXPECT_THAT(uses(cluster, cluster.classes[0].cpu_update),
              UnorderedElementsAre(Pair("dram0", 1.5), Pair("dram1", 1.5)));
}

TEST(Cluster, FewerGpusThanTheNodeHasUseTheFirstOnes) {
  const Cluster cluster = make_cluster(scenario(contended_node(4), 2), kRates);
  EXPECT_THAT(multiplicities(cluster), ElementsAre(2));
  // 2 x 10 GB/s down are more than the switch's 17, 2 x 20 up than its 31.
  EXPECT_EQ(uses(cluster, cluster.classes[0].d2h)["switch0.d2h"], 2);
}

TEST(Cluster, GathersShareTheGpuLinksWithCollectives) {
  const Cluster cluster = make_cluster(scenario(round_node(2), 2), kRates, true);
  EXPECT_THAT(uses(cluster, cluster.collective), UnorderedElementsAre(Pair("gpu_link", 1)));
  EXPECT_THAT(uses(cluster, cluster.gather), UnorderedElementsAre(Pair("gpu_link", 1)));
  const Cluster alone = make_cluster(scenario(round_node(2), 2), kRates, false);
  EXPECT_EQ(alone.collective.flow, kNoFlow);  // alone it cannot exceed the link
}

TEST(Cluster, CollectivesWithoutALinkOfTheirOwnPassOverThoseToTheHost) {
  HardwareProfile hardware = contended_node(2);
  hardware.gpu_link = GpuLinkProfile{"PCIe 4.0 x16", 20.0_GBps, 2.0_us};
  const Cluster cluster = make_cluster(scenario(hardware, 2), kRates);
  // In and out of each GPU and of the switch, as far as these carry the 20 GB/s that it has alone:
  // 20, 10 and both 23 GB/s of a GPU, 31, 17 and 37 of the switch.
  const std::map<std::string, double> used = uses(cluster, cluster.collective);
  const std::map<std::string, double> expected = {{"gpu0.h2d", 1},       {"gpu0.d2h", 0.5},
                                                  {"gpu0.both", 1.15},   {"switch0.h2d", 1},
                                                  {"switch0.d2h", 0.85}, {"switch0.both", 1.85}};
  ASSERT_EQ(used.size(), expected.size());
  for (const auto& [name, coefficient] : expected) {
    ASSERT_TRUE(used.contains(name)) << name;
    EXPECT_NEAR(used.at(name), coefficient, 1e-12) << name;
  }
}

TEST(Cluster, CollectivesBetweenNodesPassTheGpusLinksToTheirNetworkCards) {
  Scenario two_nodes = scenario(contended_node(4), 4);
  two_nodes.nodes = 2;
  const Cluster cluster = make_cluster(two_nodes, kRates);
  // Each of four GPUs passes 5 of the network's 20 GB/s in and out, beside its copies, which alone
  // fill its way down, 10 GB/s; not the switch's way up to the host.
  const std::map<std::string, double> used = uses(cluster, cluster.collective);
  EXPECT_THAT(used,
              UnorderedElementsAre(Pair("gpu0.h2d", 1), Pair("gpu0.d2h", 1), Pair("gpu0.both", 2)));
  EXPECT_EQ(cluster.machine.flows.at(cluster.collective.flow).solo_rate, 5.0_GBps);
  two_nodes.hardware.host_link.kind = "NVLink-C2C";
  EXPECT_EQ(make_cluster(two_nodes, kRates).collective.flow, kNoFlow);
}

TEST(Cluster, LanesAreOfTheirClass) {
  HardwareProfile hardware = contended_node(2);
  hardware.host_link.switches[0].gpus = {0};
  const Cluster cluster = make_cluster(scenario(hardware, 2), kRates);
  ASSERT_EQ(cluster.classes.size(), 2U);
  ASSERT_EQ(cluster.lanes.size(), cluster.machine.lanes.size());
  for (std::size_t c = 0; c < 2; ++c) {
    const RankClass& one = cluster.classes[c];
    EXPECT_EQ(cluster.lanes[one.compute.lane].kind, LaneKind::kCompute);
    EXPECT_EQ(cluster.lanes[one.nvme_write.lane].kind, LaneKind::kNvmeWrite);
    EXPECT_EQ(cluster.lanes[one.d2h.lane].rank_class, static_cast<int>(c));
  }
  EXPECT_EQ(cluster.lanes[cluster.collective.lane].rank_class, -1);
}

/// Compute of 10 s beside an update of 4 s: half speed for 4 s, then 8 s are left.
TEST(Cluster, OptimizerThatSharesCoresHalvesComputeWhileItWorks) {
  RankRates rates = kRates;
  rates.optimizer_shares_cores = true;
  const Cluster cluster = make_cluster(scenario(round_node(), 1), rates);
  const RankClass& one = cluster.classes[0];
  constexpr std::int64_t kSecond = 1'000'000'000'000;
  const std::vector<Task> tasks = {
      {Picoseconds{10 * kSecond}, one.compute.lane, one.compute.flow},
      {Picoseconds{4 * kSecond}, one.cpu_update.lane, one.cpu_update.flow}};
  const Execution execution = simulate(TaskGraph(cluster.machine, tasks, {}));
  EXPECT_EQ(execution.spans[0].end.count, 12 * kSecond);
  EXPECT_EQ(execution.spans[1].end.count, 4 * kSecond);
}

TEST(Cluster, OptimizerWithCoresOfItsOwnLeavesComputeAlone) {
  EXPECT_EQ(make_cluster(scenario(round_node(), 1), kRates).classes[0].compute.flow, kNoFlow);
}

}  // namespace
}  // namespace zenflow::sim
