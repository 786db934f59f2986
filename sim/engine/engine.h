/// Plays a task graph on its lanes and links and records when each task ran.
///
/// A task starts when its lane's previous task has ended and all predecessors
/// have. While it runs, a task with a flow progresses at its max-min fair share.
/// Times are integers and every floating-point operation is performed in a fixed
/// order, so results are identical bit for bit on every run and build type.
#pragma once

#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

struct Span {
  Picoseconds start{-1};  ///< -1: not started when the simulation stopped
  Picoseconds end{-1};    ///< -1: not ended when the simulation stopped
  friend bool operator==(const Span&, const Span&) = default;
};

/// One period of a graph that repeats: `marker` is the task whose start opens the window.
struct Window {
  TaskId first;         ///< all tasks of the window have ids in [first, next window's first)
  TaskId marker;        ///< a task of this window
  std::uint32_t phase;  ///< windows may only be alike if their phase is
};

/// Windows `begin` .. `end - 1` repeat for ever: the machine's state at the start of
/// window `end` is that at the start of window `begin`, shifted in time.
struct SteadyState {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

struct Execution {
  std::vector<Span> spans;  ///< indexed by TaskId
  Picoseconds makespan;     ///< end of the last task that ended
  bool steady = false;
  SteadyState steady_state;  ///< meaningful if `steady`
  /// From simulate_windows: whether the machine's state at the start of window i was that at the
  /// start of the window that it was compared with, and what lies between has the same tasks as
  /// what follows, so that it may follow any number of times, each time running alike.
  std::vector<bool> repeats;
};

/// Runs the whole graph.
/// Throws Error(kRuntime), naming the cycle, if the graph cannot run to completion.
/// Cost: without flows, one pass over the tasks (no event queue) when issue order
/// is topological; else one event per task over a heap of running tasks.
[[nodiscard]] Execution simulate(const TaskGraph& graph);

/// Runs the graph until the state at the start of a window equals, shifted in time, that
/// at the start of an earlier window of the same phase; then stops. If that never happens
/// runs to the end. The state is, for each lane, its next task (as offset from the window)
/// and the remaining work of its running task. Windows must be equal in structure when their
/// phases are: the same tasks with the same dependencies at the same offsets, reaching back at
/// most one window. `windows` ascend.
/// The tasks of one period are compared, not trusted to be alike. Not taken for steady: phases
/// or sizes that do not go on with the same period to the last window, and a lane that has run
/// out of tasks although windows from `begin` on have some for it (it ran ahead to the end of
/// the graph, where it would go on if there were more windows).
/// Throws Error(kRuntime) if windows do not ascend or do not contain their marker.
/// Steady-state results are the same as those of `simulate(graph)` for every task that ended.
[[nodiscard]] Execution simulate_until_steady(const TaskGraph& graph,
                                              std::span<const Window> windows);

/// Runs the whole graph and records for each window whether it repeats the one before. For runs
/// made of stretches of equal windows with others between them, of which a few of each stretch
/// are enough. Phases are not looked at. Throws as `simulate` does.
[[nodiscard]] Execution simulate_windows(const TaskGraph& graph, std::span<const Window> windows);

inline constexpr std::uint32_t kNoWindow = 0xFFFFFFFF;
/// The same, each window compared with the earlier one `compared_with` names; kNoWindow: with none.
[[nodiscard]] Execution simulate_windows(const TaskGraph& graph, std::span<const Window> windows,
                                         std::span<const std::uint32_t> compared_with);

}  // namespace zenflow::sim
