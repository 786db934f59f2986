/// Recognises that a machine is in a state in which it was before, shifted in time.
/// Internal to sim/engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/engine/lane_order.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// What one lane's future depends on, relative to a window's first task and to the instant.
/// Integers and bit patterns only: states are equal if and only if their bits are.
struct LaneState {
  static constexpr std::int64_t kNoHead = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t kWaiting = -1;

  std::int64_t head = kNoHead;     ///< next or running task, as offset from the window's first
  std::int64_t to_end = kWaiting;  ///< ps until the running task ends at its present speed
  /// A flow that was slowed down: the double it counts with. With `to_end` it also tells when
  /// that was counted, so the pair decides how the next change of rates rounds.
  std::uint64_t remaining_bits = 0;

  friend bool operator==(const LaneState&, const LaneState&) = default;
};

/// Why equal states mean equal futures. All tasks before a lane's head have ended and none
/// after it has started, so the heads say of every task whether it has ended. Rates follow
/// from the set of running flows. What is left is the graph ahead, so two windows are alike if
///   - every lane is in the same state, and a lane with nothing left to do has nothing to do in
///     any window from the earlier one on (one that ran ahead to the end of the graph is idle
///     only because the graph is finite),
///   - the tasks not ended at the earlier window, up to the later one, are the same as those a
///     period on: work, lane, flow and dependencies that still count (compared, not assumed),
///   - phases and sizes of all windows from there on repeat with that period.
/// Beyond the end of the graph the windows are taken to go on repeating; nothing that was
/// simulated depends on it, since the state at the later window was reached without the end.
class SteadyDetector {
 public:
  SteadyDetector(const TaskGraph& graph, const LaneOrder& order, std::span<const Window> windows)
      : graph_(graph), order_(order), windows_(windows) {}

  /// `lanes`: the state at the instant at which `window`'s marker started.
  [[nodiscard]] std::optional<SteadyState> observe(std::uint32_t window,
                                                   std::span<const LaneState> lanes) {
    const Snapshot now{window, states_.size(), kNone};
    states_.insert(states_.end(), lanes.begin(), lanes.end());
    std::uint32_t& newest = newest_by_hash_.try_emplace(hash(window, lanes), kNone).first->second;
    for (std::uint32_t i = newest; i != kNone; i = snapshots_[i].older) {
      if (alike(snapshots_[i], now)) return SteadyState{snapshots_[i].window, window};
    }
    snapshots_.push_back({now.window, now.states, newest});
    newest = static_cast<std::uint32_t>(snapshots_.size() - 1);
    return std::nullopt;
  }

  /// As observe, but only against the window `earlier`, and without a look at the windows after.
  [[nodiscard]] bool repeats(std::uint32_t window, std::uint32_t earlier,
                             std::span<const LaneState> lanes) {
    const Snapshot now{window, states_.size(), kNone};
    states_.insert(states_.end(), lanes.begin(), lanes.end());
    const auto before = std::find_if(snapshots_.rbegin(), snapshots_.rend(),
                                     [&](const Snapshot& one) { return one.window == earlier; });
    const bool same = before != snapshots_.rend() && lanes_repeat(*before, now) &&
                      idle_lanes_stay_idle(*before) && tasks_repeat(*before, now);
    snapshots_.push_back(now);
    return same;
  }

 private:
  static constexpr std::uint32_t kNone = 0xFFFFFFFF;
  struct Snapshot {
    std::uint32_t window;
    std::size_t states;   // where its lanes' states begin
    std::uint32_t older;  // previous snapshot of the same hash
  };

  [[nodiscard]] std::uint64_t hash(std::uint32_t window, std::span<const LaneState> lanes) const {
    std::uint64_t sum = windows_[window].phase;
    const auto mix = [&sum](std::uint64_t value) {
      sum = (sum ^ value) * 0x9E3779B97F4A7C15U;
      sum ^= sum >> 29U;
    };
    for (const LaneState& lane : lanes) {
      mix(static_cast<std::uint64_t>(lane.head));
      mix(static_cast<std::uint64_t>(lane.to_end));
      mix(lane.remaining_bits);
    }
    return sum;
  }

  [[nodiscard]] std::span<const LaneState> states(const Snapshot& snapshot) const {
    return {states_.data() + snapshot.states, graph_.machine().lanes.size()};
  }
  [[nodiscard]] std::int64_t first(const Snapshot& snapshot) const {
    return windows_[snapshot.window].first;
  }

  [[nodiscard]] bool alike(const Snapshot& before, const Snapshot& now) const {
    return windows_[before.window].first < windows_[now.window].first &&
           windows_repeat(before.window, now.window) && in_equal_state(before, now);
  }

  [[nodiscard]] bool in_equal_state(const Snapshot& before, const Snapshot& now) const {
    const auto was = states(before);
    const auto is = states(now);
    return std::equal(was.begin(), was.end(), is.begin()) && idle_lanes_stay_idle(before) &&
           tasks_repeat(before, now);
  }

  /// Equal states, but for lanes that wait for a task further on than the later window's begin:
  /// they had nothing to do in between, and have nothing in what repeats it.
  [[nodiscard]] bool lanes_repeat(const Snapshot& before, const Snapshot& now) const {
    const auto was = states(before);
    const auto is = states(now);
    const std::int64_t shift = first(now) - first(before);
    const auto repeats = [shift](const LaneState& a, const LaneState& b) {
      if (a == b) return true;
      const bool both_wait = a.to_end == LaneState::kWaiting && b.to_end == LaneState::kWaiting;
      return both_wait && b.head != LaneState::kNoHead && b.head >= 0 && a.head == b.head + shift;
    };
    return std::equal(was.begin(), was.end(), is.begin(), repeats);
  }

  [[nodiscard]] bool idle_lanes_stay_idle(const Snapshot& before) const {
    const auto lanes = states(before);
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
      const auto tasks = order_.tasks_of(lane);
      if (lanes[lane].head == LaneState::kNoHead && !tasks.empty() &&
          tasks.back() >= first(before)) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool windows_repeat(std::uint32_t begin, std::uint32_t end) const {
    for (std::uint32_t i = end, j = begin; i < windows_.size(); ++i, ++j) {
      if (windows_[i].phase != windows_[j].phase ||
          windows_[i].first - windows_[end].first != windows_[j].first - windows_[begin].first) {
        return false;
      }
    }
    return true;
  }

  [[nodiscard]] bool tasks_repeat(const Snapshot& before, const Snapshot& now) const {
    std::int64_t oldest = first(now);
    for (const LaneState& lane : states(before)) {
      if (lane.head != LaneState::kNoHead) oldest = std::min(oldest, lane.head + first(before));
    }
    const std::int64_t shift = first(now) - first(before);
    const auto tasks = static_cast<std::int64_t>(graph_.tasks().size());
    const std::int64_t last = std::min(first(now), tasks - shift);
    for (std::int64_t id = oldest; id < last; ++id) {
      if (!task_repeats(before, now, static_cast<TaskId>(id))) return false;
    }
    return true;
  }

  /// Whether `task` has not ended in the state of `snapshot`.
  [[nodiscard]] bool is_ahead(const Snapshot& snapshot, TaskId task) const {
    const std::int64_t head = states(snapshot)[graph_.tasks()[task].lane].head;
    return head != LaneState::kNoHead && task >= head + first(snapshot);
  }

  [[nodiscard]] bool task_repeats(const Snapshot& before, const Snapshot& now, TaskId task) const {
    const auto shift = static_cast<TaskId>(first(now) - first(before));
    const TaskId twin = task + shift;
    if (is_ahead(before, task) != is_ahead(now, twin)) return false;
    if (!is_ahead(before, task)) return true;
    const Task& a = graph_.tasks()[task];
    const Task& b = graph_.tasks()[twin];
    if (a.duration != b.duration || a.lane != b.lane || a.flow != b.flow) return false;
    const auto needs = graph_.predecessors(task);
    const auto twin_needs = graph_.predecessors(twin);
    auto other = twin_needs.begin();
    const auto skip_ended = [&] {
      while (other != twin_needs.end() && !is_ahead(now, *other)) ++other;
    };
    for (const TaskId need : needs) {
      if (!is_ahead(before, need)) continue;
      skip_ended();
      if (other == twin_needs.end() || *other != need + shift) return false;
      ++other;
    }
    skip_ended();
    return other == twin_needs.end();
  }

  const TaskGraph& graph_;
  const LaneOrder& order_;
  std::span<const Window> windows_;
  std::vector<Snapshot> snapshots_;
  std::vector<LaneState> states_;                                    // [snapshots, lanes]
  std::unordered_map<std::uint64_t, std::uint32_t> newest_by_hash_;  // looked up, never iterated
};

}  // namespace zenflow::sim
