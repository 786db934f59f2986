/// What runs where and after what: tasks on in-order lanes, sharing links.
///
/// A lane is an exclusive in-order resource, as a CUDA stream is: it runs its
/// tasks one at a time in the order in which they were added. A link is a
/// capacity (bytes/s) that running tasks share max-min fairly. A task may refer
/// to a flow, the class of transfers it belongs to; a task without one takes
/// exactly its duration.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.h"

namespace zenflow::sim {

using TaskId = std::uint32_t;
using LaneId = std::uint16_t;
using LinkId = std::uint16_t;
using FlowId = std::uint16_t;

inline constexpr FlowId kNoFlow = 0xFFFF;
inline constexpr TaskId kNoTask = 0xFFFFFFFF;

struct Link {
  std::string name;
  BytesPerSecond capacity;  ///< > 0
};

struct LinkUse {
  LinkId link;
  /// Bytes on the link per byte of the flow; > 0. A flow that stands for m
  /// identical ranks has m times the coefficient of one rank.
  double coefficient;
};

/// A class of tasks that draw on links while they run. A task of this class
/// progresses at `rate / solo_rate` of full speed, where `rate` is its max-min
/// fair share, at most `solo_rate`.
struct Flow {
  BytesPerSecond solo_rate;  ///< rate with no other flow present; > 0
  std::vector<LinkUse> uses;
};

/// What the engine needs to know of a task. 16 bytes.
struct Task {
  Picoseconds duration;  ///< >= 0; for a task with a flow, the time it takes at solo_rate
  LaneId lane = 0;
  FlowId flow = kNoFlow;
};

/// Lanes, links and flows: the machine on which graphs run.
struct Machine {
  std::vector<std::string> lanes;
  std::vector<Link> links;
  std::vector<Flow> flows;
  /// Flows that compete all the time, whatever runs: what uses the links beside the graph. One
  /// that is named n times competes n-fold.
  std::vector<FlowId> background{};
};

struct Dependency {
  TaskId before;
  TaskId after;
};

/// An immutable graph: tasks in issue order, dependencies as a Boost.Graph
/// `compressed_sparse_row_graph` whose edges run from a task to its predecessors.
class TaskGraph {
 public:
  /// Throws Error(kRuntime) if a dependency, lane or flow (of the background, too) does not exist,
  /// a duration is negative, a link capacity, flow rate or coefficient is not positive.
  /// Dependencies may point to later tasks; `find_cycle` tells whether the result can run.
  TaskGraph(Machine machine, std::vector<Task> tasks, std::span<const Dependency> dependencies);
  ~TaskGraph();
  TaskGraph(TaskGraph&&) noexcept;
  TaskGraph& operator=(TaskGraph&&) noexcept;
  TaskGraph(const TaskGraph&) = delete;
  TaskGraph& operator=(const TaskGraph&) = delete;

  [[nodiscard]] const Machine& machine() const { return machine_; }
  [[nodiscard]] std::span<const Task> tasks() const { return tasks_; }
  [[nodiscard]] std::size_t dependency_count() const;

  /// Predecessors of `task`, ascending, without duplicates.
  [[nodiscard]] std::span<const TaskId> predecessors(TaskId task) const {
    return {targets_ + offsets_[task], targets_ + offsets_[task + 1]};
  }
  /// True if every dependency points from a lower to a higher task id.
  [[nodiscard]] bool issue_order_is_topological() const { return topological_; }

  struct Impl;
  [[nodiscard]] const Impl& impl() const { return *impl_; }

 private:
  Machine machine_;
  std::vector<Task> tasks_;
  std::unique_ptr<Impl> impl_;
  // Views into the Boost graph's arrays, so the hot loops need no Boost header.
  const std::uint32_t* offsets_ = nullptr;
  const TaskId* targets_ = nullptr;
  bool topological_ = true;
};

}  // namespace zenflow::sim
