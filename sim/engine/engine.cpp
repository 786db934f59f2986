#include "sim/engine/engine.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/stop.h"
#include "sim/engine/event_engine.h"
#include "sim/graph/algorithms.h"

namespace zenflow::sim {
namespace {

bool has_flows(const TaskGraph& graph) {
  const auto tasks = graph.tasks();
  return !graph.machine().flows.empty() &&
         std::any_of(tasks.begin(), tasks.end(),
                     [](const Task& task) { return task.flow != kNoFlow; });
}

/// Without flows and with dependencies pointing forward, lane order and issue order are all
/// there is to know: every start follows from ends computed before.
Execution run_in_issue_order(const TaskGraph& graph) {
  const auto tasks = graph.tasks();
  Execution execution;
  execution.spans.resize(tasks.size());
  Span* const spans = execution.spans.data();
  std::vector<Picoseconds> lane_free(graph.machine().lanes.size());
  for (TaskId id = 0; id < tasks.size(); ++id) {
    Picoseconds& free = lane_free[tasks[id].lane];
    Picoseconds start = free;
    for (const TaskId before : graph.predecessors(id)) start = std::max(start, spans[before].end);
    free = start + tasks[id].duration;
    spans[id] = {start, free};
  }
  for (const Picoseconds free : lane_free) {
    execution.makespan = std::max(execution.makespan, free);
  }
  return execution;
}

void check_windows(std::span<const Window> windows, std::size_t tasks) {
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const std::size_t next = i + 1 < windows.size() ? windows[i + 1].first : tasks;
    const Window& window = windows[i];
    if (window.first < next && next <= tasks && window.marker >= window.first &&
        window.marker < next) {
      continue;
    }
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("engine: window {} must lie in the graph, ascend and contain its marker; "
                    "found first task {}, marker {}, next window at {}, {} tasks",
                    i, window.first, window.marker, next, tasks));
  }
}

}  // namespace

EventEngine::EventEngine(const TaskGraph& graph, std::span<const Window> windows,
                         std::span<const std::uint32_t> compared_with)
    : graph_(graph),
      compared_with_(compared_with),
      tasks_(graph.tasks().data()),
      windows_(windows),
      order_(graph),
      lanes_(graph.machine().lanes.size()),
      watchers_(graph.tasks().size(), kNoLane),
      queue_(lanes_.size()),
      rates_(graph.machine()) {
  execution_.spans.resize(graph.tasks().size());
  flow_lanes_.reserve(lanes_.size());
  for (std::size_t id = 0; id < lanes_.size(); ++id) {
    const auto tasks = order_.tasks_of(id);
    lanes_[id].head = tasks.data();
    lanes_[id].last = tasks.data() + tasks.size();
  }
  if (!windows.empty()) open_markers();
  if (!stops_when_steady()) execution_.repeats.assign(windows.size(), false);
}

void EventEngine::open_markers() {
  detector_.emplace(graph_, order_, windows_);
  lane_window_.assign(lanes_.size(), kNoWindow);
  next_window_on_lane_.assign(windows_.size(), kNoWindow);
  for (std::size_t i = windows_.size(); i-- > 0;) {
    const LaneId lane = tasks_[windows_[i].marker].lane;
    next_window_on_lane_[i] = lane_window_[lane];
    lane_window_[lane] = static_cast<std::uint32_t>(i);
    lanes_[lane].next_marker = windows_[i].marker;
  }
}

Execution EventEngine::run() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const auto id = static_cast<LaneId>(i);
    if (lanes_[id].head == lanes_[id].last) continue;
    open_head(lanes_[id]);
    if (is_ready(id)) queue_.push(id, start(id));
  }
  constexpr std::uint64_t kBetweenQuestions = 1 << 16;
  for (std::uint64_t instant = 0;; ++instant) {
    if (instant % kBetweenQuestions == 0) throw_if_stopped();
    while (!queue_.empty() && queue_.next_end() == now_) finish(queue_.next_lane());
    if (flows_changed_) apply_rates();
    if (!opened_windows_.empty() && reached_steady_state()) break;
    if (queue_.empty()) {
      check_all_done();
      break;
    }
    now_ = queue_.next_end();
  }
  execution_.makespan = {makespan_};
  return std::move(execution_);
}

void EventEngine::open_head(Lane& lane) {
  lane.unchecked = static_cast<std::uint32_t>(graph_.predecessors(*lane.head).size());
}

/// Checks from the highest id down: the predecessor issued last most likely ends last.
bool EventEngine::is_ready(LaneId id) {
  Lane& lane = lanes_[id];
  const auto predecessors = graph_.predecessors(*lane.head);
  for (; lane.unchecked > 0; --lane.unchecked) {
    const TaskId before = predecessors[lane.unchecked - 1];
    if (execution_.spans[before].end.count >= 0) continue;
    lane.next_watcher = watchers_[before];
    watchers_[before] = id;
    return false;
  }
  return true;
}

/// Starts the lane's head and returns when it ends if nothing slows it down.
std::int64_t EventEngine::start(LaneId id) {
  Lane& lane = lanes_[id];
  const TaskId head = *lane.head;
  const Task& task = tasks_[head];
  execution_.spans[head].start = {now_};
  lane.running = true;
  if (head == lane.next_marker) note_marker(id);
  // A task that takes no time leaves within this instant, before rates are applied.
  if (task.flow != kNoFlow) join_flow(id, task.flow);
  return now_ + task.duration.count;
}

void EventEngine::finish(LaneId id) {
  Lane& lane = lanes_[id];
  const TaskId ended = *lane.head;
  execution_.spans[ended].end = {now_};
  makespan_ = now_;
  lane.running = false;
  if (lane.flow != kNoFlow) leave_flow(lane);
  for (LaneId watcher = watchers_[ended]; watcher != kNoLane;) {
    const LaneId next = lanes_[watcher].next_watcher;
    if (is_ready(watcher)) queue_.push(watcher, start(watcher));
    watcher = next;
  }
  ++lane.head;
  if (lane.head != lane.last) {
    open_head(lane);
    if (is_ready(id)) {
      queue_.change(id, start(id));
      return;
    }
  }
  queue_.pop();
}

void EventEngine::note_marker(LaneId id) {
  const std::uint32_t window = lane_window_[id];
  opened_windows_.push_back(window);
  lane_window_[id] = next_window_on_lane_[window];
  lanes_[id].next_marker =
      lane_window_[id] == kNoWindow ? kNoTask : windows_[lane_window_[id]].marker;
}

void EventEngine::join_flow(LaneId id, FlowId flow) {
  Lane& lane = lanes_[id];
  lane.flow = flow;
  lane.flow_slot = static_cast<std::uint32_t>(flow_lanes_.size());
  lane.progress = 1.0;
  lane.remaining = kNeverSlowed;
  flow_lanes_.push_back(id);
  rates_.join(flow);
  flows_changed_ = true;
}

void EventEngine::leave_flow(Lane& lane) {
  const LaneId moved = flow_lanes_.back();
  flow_lanes_.pop_back();
  if (lane.flow_slot < flow_lanes_.size()) {
    flow_lanes_[lane.flow_slot] = moved;
    lanes_[moved].flow_slot = lane.flow_slot;
  }
  rates_.leave(lane.flow);
  lane.flow = kNoFlow;
  flows_changed_ = true;
}

void EventEngine::apply_rates() {
  flows_changed_ = false;
  if (flow_lanes_.empty()) return;
  const double* const progress = rates_.progress();
  for (const LaneId id : flow_lanes_) {
    const Lane& lane = lanes_[id];
    if (lane.progress != progress[lane.flow]) change_speed(id, progress[lane.flow]);
  }
}

/// Work is counted in differences of time only, so a shifted window computes the same bits.
void EventEngine::change_speed(LaneId id, double progress) {
  Lane& lane = lanes_[id];
  if (lane.remaining == kNeverSlowed) {
    lane.remaining = static_cast<double>(queue_.end_of(id) - now_);
  } else {
    lane.remaining -= static_cast<double>(now_ - lane.counted_at) * lane.progress;
  }
  lane.counted_at = now_;
  lane.progress = progress;
  // Not finished, or it would have ended at this instant: whatever rounding says, a
  // picosecond remains.
  const double time = std::max(1.0, std::ceil(lane.remaining / progress));
  if (!(time < static_cast<double>(std::numeric_limits<std::int64_t>::max() - now_))) {
    throw Error(
        ErrorKind::kRuntime,
        fmt::format("engine: task {} on lane {} is so slow that it ends after more than 106 "
                    "days; check the capacities of its links",
                    *lane.head, graph_.machine().lanes[id]));
  }
  queue_.change(id, now_ + static_cast<std::int64_t>(time));
}

bool EventEngine::reached_steady_state() {
  // Markers of one instant: lowest window first, whatever the order of events within it.
  std::sort(opened_windows_.begin(), opened_windows_.end());
  for (const std::uint32_t window : opened_windows_) {
    if (!stops_when_steady()) {
      execution_.repeats[window] =
          detector_->repeats(window, compared_with_[window], lane_states(windows_[window]));
      continue;
    }
    const auto found = detector_->observe(window, lane_states(windows_[window]));
    if (!found) continue;
    execution_.steady = true;
    execution_.steady_state = *found;
    return true;
  }
  opened_windows_.clear();
  return false;
}

std::vector<LaneState> EventEngine::lane_states(const Window& window) const {
  std::vector<LaneState> states(lanes_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    const auto id = static_cast<LaneId>(i);
    const Lane& lane = lanes_[id];
    if (lane.head == lane.last) continue;
    states[i].head = static_cast<std::int64_t>(*lane.head) - window.first;
    if (!lane.running) continue;
    states[i].to_end = queue_.end_of(id) - now_;
    if (lane.flow == kNoFlow || lane.remaining == kNeverSlowed) continue;
    states[i].remaining_bits = std::bit_cast<std::uint64_t>(lane.remaining);
  }
  return states;
}

void EventEngine::check_all_done() const {
  const bool done = std::all_of(lanes_.begin(), lanes_.end(),
                                [](const Lane& lane) { return lane.head == lane.last; });
  if (done) return;
  throw Error(ErrorKind::kRuntime,
              fmt::format("engine: the graph cannot run to completion; each of these tasks waits "
                          "for the one before it, and the first for the last: {}",
                          fmt::join(find_cycle(graph_), ", ")));
}

Execution simulate(const TaskGraph& graph) {
  if (graph.issue_order_is_topological() && !has_flows(graph)) return run_in_issue_order(graph);
  return EventEngine(graph, {}, {}).run();
}

Execution simulate_until_steady(const TaskGraph& graph, std::span<const Window> windows) {
  if (windows.empty()) return simulate(graph);
  check_windows(windows, graph.tasks().size());
  return EventEngine(graph, windows, {}).run();
}

Execution simulate_windows(const TaskGraph& graph, std::span<const Window> windows) {
  std::vector<std::uint32_t> before(windows.size());
  for (std::size_t i = 0; i < windows.size(); ++i) {
    before[i] = i > 0 ? static_cast<std::uint32_t>(i - 1) : kNoWindow;
  }
  return simulate_windows(graph, windows, before);
}

Execution simulate_windows(const TaskGraph& graph, std::span<const Window> windows,
                           std::span<const std::uint32_t> compared_with) {
  check_windows(windows, graph.tasks().size());
  if (windows.empty()) return simulate(graph);
  return EventEngine(graph, windows, compared_with).run();
}

}  // namespace zenflow::sim
