/// A small optimizer-offload schedule: what the engine is for, in a form tests can vary.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim::testing {

struct OffloadShape {
  std::uint32_t ranks = 1;
  std::uint32_t layers = 8;
  std::uint32_t steps = 10;
  double dram_gb_per_second = 60.0;   ///< shared by all ranks
  std::int64_t compute_ns = 150'000;  ///< per layer; backward takes twice that
  std::int64_t copy_ns = 180'000;     ///< per layer and direction, alone on its link
  std::int64_t update_ns = 250'000;   ///< CPU update of a layer, alone on DRAM
};

struct OffloadGraph {
  Machine machine;
  std::vector<Task> tasks;
  std::vector<Dependency> dependencies;
  std::vector<Window> windows;  ///< one a step, marked by its first forward task
};

namespace detail {

inline void add_rank(Machine& machine, std::uint32_t rank, LinkId dram) {
  const std::string suffix = std::to_string(rank);
  for (const char* lane : {"gpu", "d2h", "cpu", "h2d"}) machine.lanes.push_back(lane + suffix);
  const auto pcie = static_cast<LinkId>(machine.links.size());
  machine.links.push_back({"pcie" + suffix, BytesPerSecond(40e9)});
  machine.flows.push_back({BytesPerSecond(24e9), {{dram, 1.0}, {pcie, 1.0}}});
  machine.flows.push_back({BytesPerSecond(50e9), {{dram, 1.0}}});
  machine.flows.push_back({BytesPerSecond(25e9), {{dram, 1.0}, {pcie, 1.0}}});
}

}  // namespace detail

/// Per step and rank: forward over the layers, backward over them in reverse; behind each
/// layer's backward a copy out, a CPU update and a copy back, for which the next step's
/// forward of that layer waits.
inline OffloadGraph offload_graph(const OffloadShape& shape) {
  OffloadGraph graph;
  graph.machine.links.push_back({"dram", BytesPerSecond(shape.dram_gb_per_second * 1e9)});
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    detail::add_rank(graph.machine, rank, 0);
  }
  const std::size_t per_rank = std::size_t{5} * shape.layers;
  graph.tasks.reserve(per_rank * shape.ranks * shape.steps);
  std::vector<TaskId> copied_back(std::size_t{shape.ranks} * shape.layers, kNoTask);
  const auto add = [&](std::int64_t ns, std::uint32_t lane, FlowId flow, TaskId after) {
    const auto id = static_cast<TaskId>(graph.tasks.size());
    graph.tasks.push_back({{ns * 1000}, static_cast<LaneId>(lane), flow});
    if (after != kNoTask) graph.dependencies.push_back({after, id});
    return id;
  };
  for (std::uint32_t step = 0; step < shape.steps; ++step) {
    const auto first = static_cast<TaskId>(graph.tasks.size());
    graph.windows.push_back({first, first, 0});
    for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
      const std::uint32_t lane = 4 * rank;
      const auto flow = static_cast<FlowId>(3 * rank);
      TaskId* const back = &copied_back[std::size_t{rank} * shape.layers];
      for (std::uint32_t layer = 0; layer < shape.layers; ++layer) {
        add(shape.compute_ns, lane, kNoFlow, back[layer]);
      }
      for (std::uint32_t layer = shape.layers; layer-- > 0;) {
        const TaskId backward = add(2 * shape.compute_ns, lane, kNoFlow, kNoTask);
        const TaskId out = add(shape.copy_ns, lane + 1, flow, backward);
        const TaskId update = add(shape.update_ns, lane + 2, static_cast<FlowId>(flow + 1), out);
        back[layer] = add(shape.copy_ns, lane + 3, static_cast<FlowId>(flow + 2), update);
      }
    }
  }
  return graph;
}

}  // namespace zenflow::sim::testing
