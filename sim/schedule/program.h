/// A schedule's output: a task graph whose tasks know what they are, when windows and steps
/// begin, and what memory they take and give back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/operation.h"
#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"
#include "sim/schedule/buffers.h"
#include "sim/schedule/cluster.h"

namespace zenflow::sim {

struct TaskLabel {
  Operation operation;
  std::int32_t step;      ///< counted from 0 over the whole run
  std::int32_t index;     ///< layer (0: embedding, then blocks, then head) or gradient bucket
  double bytes;           ///< moved by one rank; 0 for computation
  bool pageable = false;  ///< a copy from or to ordinary memory
};

/// The update window as a schedule repeats it. Windows of equal kind have equal tasks.
struct WindowShape {
  /// From this age on a window receives all that later ones do: the first has no update before
  /// it, the second none to swap in. DeepSpeed's ZenFlow may wait for the update before the last.
  static constexpr std::int32_t kSettledAge = 2;
  static constexpr std::int32_t kSettledAgeOfDeepSpeed = 3;

  std::int64_t first_step = 0;
  std::int32_t steps = 1;
  bool full_update = false;  ///< a warm-up step: everything updated synchronously
  std::int32_t age = 0;  ///< regular windows before it, up to `settled_age`: the first ones lack
                         ///< the updates that later ones receive
  std::int32_t settled_age = kSettledAge;
  std::vector<std::int32_t> select_at{};  ///< steps of the window that select columns

  [[nodiscard]] bool same_kind(const WindowShape& other) const {
    return steps == other.steps && full_update == other.full_update && age == other.age &&
           select_at == other.select_at;
  }
};

struct MemoryChange {
  TaskId task;
  bool at_end;  ///< takes effect when the task ends, else when it starts
  BufferId buffer;
  double bytes;
};

struct Program {
  TaskGraph graph;
  std::vector<TaskLabel> labels;  ///< parallel to graph.tasks()
  std::vector<LaneInfo> lanes;    ///< parallel to graph.machine().lanes
  std::vector<RankClass> classes;
  std::vector<WindowShape> shapes;  ///< of the windows built
  std::vector<Window> windows;      ///< parallel to shapes
  std::vector<TaskId>
      step_markers;  ///< first task of each built step on the first class's compute lane
  std::vector<MemorySymbol> symbols;   ///< of the buffers' formulas
  std::vector<MemoryBuffer> buffers;   ///< of the first class's GPU, the node's host and NVMe
  std::vector<MemoryChange> memory;    ///< what is not held throughout, by task
  bool compute_keeps_its_time = true;  ///< as Cluster's
};

}  // namespace zenflow::sim
