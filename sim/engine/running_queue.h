/// Which running task ends next: an indexed 4-ary heap with one entry a busy lane.
/// Internal to sim/engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// Order among equal ends is fixed but arbitrary. Lanes do not compete for anything that
/// is handed out at an instant, so the order has no influence on any span.
class RunningQueue {
 public:
  explicit RunningQueue(std::size_t lanes) : position_(lanes) { heap_.reserve(lanes); }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  [[nodiscard]] std::int64_t next_end() const { return heap_.front().end; }
  [[nodiscard]] LaneId next_lane() const { return heap_.front().lane; }
  [[nodiscard]] std::int64_t end_of(LaneId lane) const { return heap_[position_[lane]].end; }

  void push(LaneId lane, std::int64_t end) {
    heap_.emplace_back();
    rise(heap_.size() - 1, {end, lane});
  }
  void change(LaneId lane, std::int64_t end) {
    const std::size_t hole = position_[lane];
    if (hole > 0 && end < heap_[(hole - 1) / kArity].end) {
      rise(hole, {end, lane});
    } else {
      sink(hole, {end, lane});
    }
  }
  void pop() {
    const Entry last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(0, last);
  }

 private:
  static constexpr std::size_t kArity = 4;
  struct Entry {
    std::int64_t end = 0;
    LaneId lane = 0;
  };

  void put(std::size_t at, Entry entry) {
    heap_[at] = entry;
    position_[entry.lane] = static_cast<std::uint32_t>(at);
  }
  void rise(std::size_t hole, Entry entry) {
    while (hole > 0) {
      const std::size_t parent = (hole - 1) / kArity;
      if (heap_[parent].end <= entry.end) break;
      put(hole, heap_[parent]);
      hole = parent;
    }
    put(hole, entry);
  }
  void sink(std::size_t hole, Entry entry) {
    const std::size_t size = heap_.size();
    for (std::size_t child = hole * kArity + 1; child < size; child = hole * kArity + 1) {
      std::size_t least = child;
      const std::size_t last = std::min(child + kArity, size);
      for (++child; child < last; ++child) {
        if (heap_[child].end < heap_[least].end) least = child;
      }
      if (heap_[least].end >= entry.end) break;
      put(hole, heap_[least]);
      hole = least;
    }
    put(hole, entry);
  }

  std::vector<Entry> heap_;
  std::vector<std::uint32_t> position_;  // by lane; meaningful while the lane is in the heap
};

}  // namespace zenflow::sim
