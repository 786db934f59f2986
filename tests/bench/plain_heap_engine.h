/// What the engine is measured against: a bare discrete-event engine for one kind of graph.
///
/// In-order lanes, no flows: a 4-ary heap of ends, counters of unfinished predecessors and
/// successor lists. No validation, no error path, and everything that depends on the graph
/// only is prepared outside the measured run.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim::testing {

class PlainHeapEngine {
 public:
  explicit PlainHeapEngine(const TaskGraph& graph)
      : tasks_(graph.tasks().begin(), graph.tasks().end()),
        needs_(tasks_.size()),
        begin_(tasks_.size() + 2),
        successors_(graph.dependency_count()),
        lane_tasks_(graph.machine().lanes.size()) {
    for (TaskId id = 0; id < tasks_.size(); ++id) {
      lane_tasks_[tasks_[id].lane].push_back(id);
      needs_[id] = static_cast<std::uint32_t>(graph.predecessors(id).size());
      for (const TaskId before : graph.predecessors(id)) ++begin_[before + 2U];
    }
    for (std::size_t i = 2; i < begin_.size(); ++i) begin_[i] += begin_[i - 1];
    for (TaskId id = 0; id < tasks_.size(); ++id) {
      for (const TaskId before : graph.predecessors(id)) successors_[begin_[before + 1U]++] = id;
    }
  }

  [[nodiscard]] Execution run() {
    Execution execution;
    execution.spans.resize(tasks_.size());
    spans_ = execution.spans.data();
    missing_ = needs_;
    next_.assign(lane_tasks_.size(), 0);
    busy_.assign(lane_tasks_.size(), 0);
    heap_.clear();
    for (LaneId lane = 0; lane < lane_tasks_.size(); ++lane) try_start(lane, 0);
    while (!heap_.empty()) {
      const Event event = pop();
      spans_[event.task].end = {event.end};
      execution.makespan = {event.end};
      const LaneId lane = tasks_[event.task].lane;
      busy_[lane] = 0;
      try_start(lane, event.end);
      for (std::uint32_t i = begin_[event.task]; i < begin_[event.task + 1U]; ++i) {
        const TaskId successor = successors_[i];
        if (--missing_[successor] == 0) try_start(tasks_[successor].lane, event.end);
      }
    }
    return execution;
  }

 private:
  struct Event {
    std::int64_t end;
    TaskId task;
    friend bool operator<(const Event& a, const Event& b) {
      return a.end != b.end ? a.end < b.end : a.task < b.task;
    }
  };

  void try_start(LaneId lane, std::int64_t now) {
    if (busy_[lane] != 0 || next_[lane] == lane_tasks_[lane].size()) return;
    const TaskId task = lane_tasks_[lane][next_[lane]];
    if (missing_[task] != 0) return;
    ++next_[lane];
    busy_[lane] = 1;
    spans_[task].start = {now};
    push({now + tasks_[task].duration.count, task});
  }
  void push(Event event) {
    heap_.push_back(event);
    std::size_t hole = heap_.size() - 1;
    while (hole > 0 && event < heap_[(hole - 1) / 4]) {
      heap_[hole] = heap_[(hole - 1) / 4];
      hole = (hole - 1) / 4;
    }
    heap_[hole] = event;
  }
  Event pop() {
    const Event top = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    const std::size_t size = heap_.size();
    if (size == 0) return top;
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = hole * 4 + 1) {
      std::size_t least = child;
      for (std::size_t i = child + 1; i < child + 4 && i < size; ++i) {
        if (heap_[i] < heap_[least]) least = i;
      }
      if (!(heap_[least] < last)) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = last;
    return top;
  }

  std::vector<Task> tasks_;
  std::vector<std::uint32_t> needs_;    // predecessors of each task
  std::vector<std::uint32_t> missing_;  // those of them that have not ended
  std::vector<std::uint32_t> begin_;
  std::vector<TaskId> successors_;
  std::vector<std::vector<TaskId>> lane_tasks_;
  std::vector<std::size_t> next_;
  std::vector<char> busy_;
  std::vector<Event> heap_;
  Span* spans_ = nullptr;
};

}  // namespace zenflow::sim::testing
