/// What a machine's background, the flows that compete all the time, gets while a graph runs.
#pragma once

#include <span>

#include "sim/base/units.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// The background's rate, all its flows together, averaged from `begin` to `end`. `spans` are those
/// of the graph's tasks, as the engine played them.
/// Cost: one solution of the rates for each set of flows that ran together, and a sort of the tasks
/// that have flows.
/// Precondition: begin < end, and all tasks that start before `end` have ended.
[[nodiscard]] BytesPerSecond background_rate(const TaskGraph& graph, std::span<const Span> spans,
                                             Picoseconds begin, Picoseconds end);

}  // namespace zenflow::sim
