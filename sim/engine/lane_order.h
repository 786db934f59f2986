/// Each lane's tasks in issue order. Internal to sim/engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim {

class LaneOrder {
 public:
  explicit LaneOrder(const TaskGraph& graph)
      : begin_(graph.machine().lanes.size() + 2), tasks_(graph.tasks().size()) {
    // A counting sort; filling moves each lane's begin to its end, one place to the left.
    for (const Task& task : graph.tasks()) ++begin_[task.lane + 2U];
    for (std::size_t lane = 2; lane < begin_.size(); ++lane) begin_[lane] += begin_[lane - 1];
    TaskId id = 0;
    for (const Task& task : graph.tasks()) tasks_[begin_[task.lane + 1U]++] = id++;
    begin_.pop_back();
  }

  [[nodiscard]] std::span<const TaskId> tasks_of(std::size_t lane) const {
    return {tasks_.data() + begin_[lane], tasks_.data() + begin_[lane + 1]};
  }

 private:
  std::vector<std::uint32_t> begin_;
  std::vector<TaskId> tasks_;
};

}  // namespace zenflow::sim
