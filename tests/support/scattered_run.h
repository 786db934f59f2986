/// A simulated run whose tasks do not take what they should.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "sim/simulate/simulation.h"

namespace zenflow::sim::testing {

/// The run with each task's duration multiplied by factor(task): what shares links still shares
/// them.
template <class Factor>
FullRun scattered(const FullRun& run, Factor factor) {
  const TaskGraph& graph = run.program.graph;
  std::vector<Task> tasks(graph.tasks().begin(), graph.tasks().end());
  std::vector<Dependency> dependencies;
  for (TaskId id = 0; id < tasks.size(); ++id) {
    const double by = factor(id);
    tasks[id].duration = {std::llround(static_cast<double>(tasks[id].duration.count) * by)};
    for (const TaskId before : graph.predecessors(id)) dependencies.push_back({before, id});
  }
  TaskGraph other(graph.machine(), std::move(tasks), dependencies);
  Execution execution = simulate_windows(other, run.program.windows);
  return {{std::move(other), run.program.labels, run.program.lanes, run.program.classes,
           run.program.shapes, run.program.windows, run.program.step_markers, run.program.symbols,
           run.program.buffers, run.program.memory, run.program.compute_keeps_its_time},
          std::move(execution),
          run.measured_begin,
          run.measured_end};
}

}  // namespace zenflow::sim::testing
