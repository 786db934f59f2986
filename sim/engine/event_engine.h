/// The general engine: from one instant at which tasks end to the next.
/// Internal to sim/engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/engine/flow_rates.h"
#include "sim/engine/lane_order.h"
#include "sim/engine/running_queue.h"
#include "sim/engine/steady_detector.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// Every lane has a head, the task it runs or waits to run. A waiting head watches one
/// predecessor that has not ended, and looks for the next such when that one ends; so only
/// the graph's predecessor lists are needed, and no counters a task.
class EventEngine {
 public:
  /// `windows` must ascend, with each marker inside its window (checked by the caller).
  /// `compared_with`: of each window an earlier one, to record whether it repeats that; empty:
  /// stops when steady.
  EventEngine(const TaskGraph& graph, std::span<const Window> windows,
              std::span<const std::uint32_t> compared_with);

  [[nodiscard]] Execution run();

 private:
  static constexpr LaneId kNoLane = 0xFFFF;
  static constexpr double kNeverSlowed = -1.0;

  struct Lane {
    const TaskId* head = nullptr;  // into order_
    const TaskId* last = nullptr;  // one past the lane's last task
    TaskId next_marker = kNoTask;
    std::uint32_t unchecked = 0;    // predecessors of the head that may not have ended yet
    LaneId next_watcher = kNoLane;  // next lane that waits for the same task
    bool running = false;
    // For the running task, if it has a flow:
    FlowId flow = kNoFlow;
    std::uint32_t flow_slot = 0;  // where flow_lanes_ names this lane
    double progress = 1.0;        // share of full speed since `counted_at`
    double remaining = 0.0;       // ps at full speed left at `counted_at`, or kNeverSlowed
    std::int64_t counted_at = 0;
  };

  [[nodiscard]] bool stops_when_steady() const { return compared_with_.empty(); }
  void open_markers();
  void open_head(Lane& lane);
  [[nodiscard]] bool is_ready(LaneId id);
  [[nodiscard]] std::int64_t start(LaneId id);
  void finish(LaneId id);
  void note_marker(LaneId id);
  void join_flow(LaneId id, FlowId flow);
  void leave_flow(Lane& lane);
  void apply_rates();
  void change_speed(LaneId id, double progress);
  [[nodiscard]] bool reached_steady_state();
  [[nodiscard]] std::vector<LaneState> lane_states(const Window& window) const;
  void check_all_done() const;

  const TaskGraph& graph_;
  std::span<const std::uint32_t> compared_with_;
  const Task* tasks_;
  std::span<const Window> windows_;
  LaneOrder order_;
  std::vector<Lane> lanes_;
  std::vector<LaneId> watchers_;  // by task: first lane that waits for it
  RunningQueue queue_;
  std::int64_t now_ = 0;
  std::int64_t makespan_ = 0;
  Execution execution_;

  FlowRates rates_;
  std::vector<LaneId> flow_lanes_;  // lanes whose running task has a flow
  bool flows_changed_ = false;      // since rates were last applied

  std::optional<SteadyDetector> detector_;
  std::vector<std::uint32_t> lane_window_;          // by lane: window of its next marker
  std::vector<std::uint32_t> next_window_on_lane_;  // by window
  std::vector<std::uint32_t> opened_windows_;       // whose markers started at this instant
};

}  // namespace zenflow::sim
