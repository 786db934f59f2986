/// Random machines and graphs from a seed, the same on every machine and library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/task_graph.h"
#include "tests/support/reference_dag.h"

namespace zenflow::sim::testing {

/// splitmix64. `std::*_distribution` would differ between standard libraries.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(mix(seed)) {}
  std::uint64_t next() { return mix(state_++); }
  /// Uniform in [low, high], up to the bias of a modulus.
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(high - low + 1));
  }
  bool chance(int percent) { return between(1, 100) <= percent; }
  /// Uniform in [0, 1).
  double fraction() { return static_cast<double>(next() >> 11U) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

struct GraphParts {
  Machine machine;
  std::vector<Task> tasks;
  std::vector<Dependency> dependencies;

  [[nodiscard]] TaskGraph build() const { return {machine, tasks, dependencies}; }
};

inline Machine random_machine(Random& random, bool with_flows) {
  Machine machine;
  const auto lanes = random.between(1, 8);
  for (std::int64_t i = 0; i < lanes; ++i) machine.lanes.push_back("lane" + std::to_string(i));
  if (!with_flows) return machine;
  const auto links = random.between(1, 4);
  for (std::int64_t i = 0; i < links; ++i) {
    machine.links.push_back(
        {"link" + std::to_string(i), BytesPerSecond(5e9 + 40e9 * random.fraction())});
  }
  const auto flows = random.between(1, 6);
  for (std::int64_t i = 0; i < flows; ++i) {
    Flow flow{BytesPerSecond(1e9 + 30e9 * random.fraction()), {}};
    for (LinkId link = 0; link < links; ++link) {
      if (random.chance(50)) flow.uses.push_back({link, 0.5 + 2 * random.fraction()});
    }
    machine.flows.push_back(flow);
  }
  return machine;
}

/// Tasks on random lanes, each depending on a few of the tasks issued shortly before it.
inline GraphParts random_graph(std::uint64_t seed, bool with_flows) {
  Random random(seed);
  GraphParts graph{random_machine(random, with_flows), {}, {}};
  const auto lanes = static_cast<std::int64_t>(graph.machine.lanes.size());
  const auto flows = static_cast<std::int64_t>(graph.machine.flows.size());
  const auto tasks = random.between(1, 150);
  // A coarse grain makes ends coincide, which is where an engine goes wrong.
  const std::int64_t grain = random.chance(50) ? 1 : 1000;
  for (std::int64_t id = 0; id < tasks; ++id) {
    Task task{{random.chance(10) ? 0 : grain * random.between(1, 10'000'000 / grain)},
              static_cast<LaneId>(random.between(0, lanes - 1))};
    if (random.chance(10)) task.duration = {5 * grain};
    if (flows > 0 && random.chance(60))
      task.flow = static_cast<FlowId>(random.between(0, flows - 1));
    graph.tasks.push_back(task);
    for (std::int64_t n = id == 0 ? 0 : random.between(0, 3); n > 0; --n) {
      const auto before = random.between(std::max<std::int64_t>(0, id - 20), id - 1);
      graph.dependencies.push_back({static_cast<TaskId>(before), static_cast<TaskId>(id)});
    }
  }
  return graph;
}

/// The same graph with ids dealt out anew: lanes keep their order, so nothing changes about
/// when tasks run, but dependencies may now point backwards. Returns each old task's new id.
inline std::pair<GraphParts, std::vector<TaskId>> reissued(const GraphParts& graph,
                                                           std::uint64_t seed) {
  Random random(seed);
  std::vector<std::vector<TaskId>> queues(graph.machine.lanes.size());
  for (TaskId id = 0; id < graph.tasks.size(); ++id) {
    queues[graph.tasks[id].lane].push_back(id);
  }
  std::vector<std::size_t> taken(queues.size(), 0);
  GraphParts shuffled{graph.machine, {}, {}};
  std::vector<TaskId> new_id(graph.tasks.size());
  while (shuffled.tasks.size() < graph.tasks.size()) {
    const auto lane = static_cast<std::size_t>(random.next() % queues.size());
    if (taken[lane] == queues[lane].size()) continue;
    const TaskId old = queues[lane][taken[lane]++];
    new_id[old] = static_cast<TaskId>(shuffled.tasks.size());
    shuffled.tasks.push_back(graph.tasks[old]);
  }
  for (const Dependency& edge : graph.dependencies) {
    shuffled.dependencies.push_back({new_id[edge.before], new_id[edge.after]});
  }
  return {shuffled, new_id};
}

}  // namespace zenflow::sim::testing
