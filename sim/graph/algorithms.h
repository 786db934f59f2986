/// Questions about a graph's shape, answered by Boost.Graph's algorithms.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// A cycle through dependencies and lane order (each lane's tasks in issue
/// order), as task ids in order, or empty if the graph can run to completion.
/// Uses boost::topological_sort; the cycle is found only after that fails.
[[nodiscard]] std::vector<TaskId> find_cycle(const TaskGraph& graph);

struct CriticalPath {
  Picoseconds length;         ///< sum of the durations of `tasks`
  std::vector<TaskId> tasks;  ///< in order of execution
};

/// The longest chain of dependencies by duration, without lane contention: a
/// lower bound of the makespan. Dependencies only; lane order does not count.
/// Throws Error(kRuntime) naming the cycle if there is one.
[[nodiscard]] CriticalPath critical_path(const TaskGraph& graph);

/// The longest chain that begins at the start of `first` and ends at the start of
/// `last`: the durations of all tasks on it but `last`. Length 0 and no tasks if
/// `last` does not depend on `first`.
[[nodiscard]] CriticalPath critical_path(const TaskGraph& graph, TaskId first, TaskId last);

/// Writes the graph in Graphviz's dot language (boost::write_graphviz), one node a
/// task, labelled by `label(task)`, coloured by lane, grouped into one cluster a lane.
void write_graphviz(std::ostream& out, const TaskGraph& graph,
                    const std::function<std::string(TaskId)>& label);

}  // namespace zenflow::sim
