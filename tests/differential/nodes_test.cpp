// What several nodes change, and what they leave as it is.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/deepspeed_step.h"
#include "sim/schedule/live_work.h"
#include "sim/simulate/simulation.h"
#include "tests/support/small_jobs.h"

namespace zenflow::sim {
namespace {

using namespace literals;
using testing::JobOptions;
using testing::make_small_job;
using testing::suited_to;

/// As contended_node, with a network that no collective waits for.
HardwareProfile node_of(std::int64_t gpus) {
  HardwareProfile node = testing::contended_node(gpus);
  node.gpu.multiprocessors = 100;  // DeepSpeed's host time is counted
  return node;
}

Job job_on(std::int64_t nodes, int stage, std::int64_t reduce_bucket_size = 500'000'000) {
  JobOptions options;
  options.gpus = 8;
  options.nodes = nodes;
  options.stage = stage;
  options.reduce_bucket_size = reduce_bucket_size;
  return make_small_job(node_of(8), testing::small_gpt2(), options);
}

/// One rank of a class is simulated, and one node: 1,024 ranks are as many tasks as 8 of one class.
TEST(Nodes, DoNotMultiplyTasks) {
  for (const auto& schedule : schedules()) {
    if (live_kind(schedule->name())) continue;  // on GPUs it has one rank
    for (const int stage : {1, 2, 3}) {
      const auto tasks = [&](std::int64_t nodes) {
        const Job job = suited_to(*schedule, job_on(nodes, stage));
        // Windows of one shape, however many the run takes to settle.
        const std::vector<WindowShape> shapes = schedule->windows(job, 16);
        return schedule->build(job, shapes).graph.tasks().size();
      };
      const std::size_t one = tasks(1);
      EXPECT_EQ(tasks(2), one) << schedule->name() << ", stage " << stage;
      EXPECT_EQ(tasks(128), one) << schedule->name() << ", stage " << stage;
    }
  }
}

/// Nor does the engine need longer to see that windows repeat.
TEST(Nodes, DoNotLengthenTheSimulatedRun) {
  for (const auto& schedule : schedules()) {
    if (live_kind(schedule->name())) continue;
    const auto tasks = [&](std::int64_t nodes) {
      return simulate_schedule(suited_to(*schedule, job_on(nodes, 2)), *schedule).tasks;
    };
    EXPECT_LE(tasks(128), 2 * tasks(1)) << schedule->name();
  }
}

/// A node's lanes, its links and what its ranks are to each other are those of a node alone; but
/// for collectives, which come with the network.
TEST(Nodes, LeaveContentionWithinANodeAsItIs) {
  const RankRates rates{10.0_GBps, 20.0_GBps, 40.0_GBps, 50.0_GBps};
  const auto cluster_on = [&](std::int64_t nodes) {
    Scenario scenario;
    scenario.model = testing::tiny_llama();
    scenario.hardware = node_of(8);
    scenario.gpus = 8;
    scenario.nodes = nodes;
    return make_cluster(scenario, rates);
  };
  const Cluster one = cluster_on(1);
  const Cluster many = cluster_on(128);
  ASSERT_EQ(one.classes.size(), many.classes.size());
  const auto uses = [](const Cluster& cluster, FlowId flow) {
    std::vector<std::pair<std::string, double>> named;
    for (const LinkUse& use : cluster.machine.flows.at(flow).uses) {
      named.emplace_back(cluster.machine.links.at(use.link).name, use.coefficient);
    }
    // Links that bind only because the network's traffic passes there.
    std::erase_if(named, [](const auto& use) { return use.first.starts_with("gpu"); });
    return named;
  };
  for (std::size_t c = 0; c < one.classes.size(); ++c) {
    EXPECT_EQ(one.classes[c].multiplicity, many.classes[c].multiplicity);
    for (const auto member :
         {&RankClass::d2h, &RankClass::h2d, &RankClass::cpu_update, &RankClass::cpu_accumulate}) {
      EXPECT_EQ(uses(one, (one.classes[c].*member).flow),
                uses(many, (many.classes[c].*member).flow));
    }
  }
}

/// Each rank owns a part in N, so bytes over a host link and the CPU's work are a node's by n.
TEST(Nodes, DivideWhatTheHostsDo) {
  for (const char* schedule : {"zero-offload", "zenflow", "deepspeed-zero-offload"}) {
    const SimulationResult one = simulate_schedule(job_on(1, 2), find_schedule(schedule));
    const SimulationResult four = simulate_schedule(job_on(4, 2), find_schedule(schedule));
    EXPECT_NEAR(four.d2h_bytes, one.d2h_bytes / 4, 1e-6 * one.d2h_bytes) << schedule;
    EXPECT_NEAR(four.h2d_bytes, one.h2d_bytes / 4, 1e-6 * one.h2d_bytes) << schedule;
    EXPECT_LE(four.compute, one.compute) << schedule;  // ZenFlow's GPUs update a part each, too
    EXPECT_GE(four.compute, 0.99 * one.compute) << schedule;
  }
}

/// On each rank ZenFlow cuts selected columns out of every gradient, be there more ranks than
/// gradients or fewer: the host's time of it does not grow with the ranks.
TEST(Nodes, DoNotLengthenWhatTheHostSelects) {
  const auto host_time = [](std::int64_t nodes) {
    const Job job = job_on(nodes, 2);
    constexpr double kTensors = 100;
    const double owned = std::ceil(kTensors / static_cast<double>(job.scenario.ranks()));
    const StepPlace middle{.first = false, .boundary = false};
    return owned * (gradient_host_time(job, middle, true, kTensors).value() -
                    gradient_host_time(job, middle, false, kTensors).value());
  };
  EXPECT_NEAR(host_time(1), 0.16e-3 * 104, 1e-12);  // 13 on each of 8
  EXPECT_NEAR(host_time(128), 0.16e-3 * 100, 1e-12);
}

/// A node's network is its own: ranks share it. Eight send no more than one could.
TEST(Nodes, ShareTheirNetworkAmongTheirRanks) {
  const Communicator eight = communicator(node_of(8), 8, 16);
  const Communicator one = communicator(node_of(1), 1, 16);
  EXPECT_EQ(eight.bandwidth, one.bandwidth);
}

}  // namespace
}  // namespace zenflow::sim
