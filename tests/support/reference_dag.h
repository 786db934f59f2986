/// The reference DAG for benchmarks and cross-checks, as defined in docs/architecture.md:
/// layers of 64 tasks on 8 in-order lanes, two predecessors each in the layer before.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim::testing {

/// The output function of splitmix64.
constexpr std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15U;
  x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31U);
}

struct ReferenceDag {
  Machine machine;
  std::vector<Task> tasks;
  std::vector<Dependency> dependencies;
};

inline ReferenceDag reference_dag(std::uint32_t count) {
  ReferenceDag dag;
  for (int lane = 0; lane < 8; ++lane) dag.machine.lanes.push_back("lane" + std::to_string(lane));
  dag.tasks.reserve(count);
  dag.dependencies.reserve(2 * std::size_t{count} - 2 * std::size_t{std::min(count, 64U)});
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t layer = i / 64;
    const std::uint32_t column = i % 64;
    const auto lane = static_cast<LaneId>(column % 4 + (layer % 2 == 1 ? 4 : 0));
    const auto nanoseconds =
        static_cast<std::int64_t>(1000 + mix(7 * std::uint64_t{i} + 3) % 100000);
    dag.tasks.push_back({.duration = {nanoseconds * 1000}, .lane = lane});
    if (layer == 0) continue;
    const std::uint32_t above = (layer - 1) * 64;
    const auto other = static_cast<std::uint32_t>((column + 1 + mix(i) % 63) % 64);
    dag.dependencies.push_back({above + column, i});
    dag.dependencies.push_back({above + other, i});
  }
  return dag;
}

/// Makespans published for the DAG (SimGrid agrees); 0 for other sizes.
constexpr std::int64_t reference_makespan_ps(std::uint32_t count) {
  switch (count) {
    case 9984:
      return 109'917'409'000;
    case 200000:
      return 2'169'615'754'000;
    case 1000000:
      return 10'844'382'907'000;
    default:
      return 0;
  }
}

}  // namespace zenflow::sim::testing
