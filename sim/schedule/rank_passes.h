/// How far ranks have drifted apart when a collective needs all of them.
///
/// Each rank's forward and backward through a layer takes now more, now less than on average:
/// ranks.jitter. Ranks run on until their compute waits for a collective, in which all have met.
/// This follows, along the dependencies of tasks, how many passes lie before a task and up to which
/// of them ranks have met; what lies between adds up like independent deviations, their squares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

class RankPasses {
 public:
  /// Passes [from, to), counted over the whole program.
  struct Stretch {
    std::int32_t from = 0;
    std::int32_t to = 0;
    [[nodiscard]] bool empty() const { return from >= to; }
    friend bool operator==(const Stretch&, const Stretch&) = default;
  };

  /// Tasks are numbered in the order in which they are added.
  void add_task() { before_.push_back({}); }
  /// `task` waits for `before`.
  void follow(TaskId task, TaskId before);
  /// `task` is a pass; `counts`: not the same one as of another class of ranks before.
  void pass(TaskId task, Seconds time, bool counts);
  /// `task` is a collective: all ranks have met in it.
  void meet(TaskId task) { before_[task].from = before_[task].to; }

  /// Passes of a rank before all of `after`, since ranks have met.
  [[nodiscard]] Stretch since_met(std::span<const TaskId> after) const;
  /// Root of the sum of their squares.
  [[nodiscard]] Seconds deviation(Stretch stretch) const;

  /// The wait for the slowest that was added last, and the passes that it is for.
  [[nodiscard]] Stretch waited() const { return waited_; }
  [[nodiscard]] TaskId wait() const { return wait_; }
  void waits_for(Stretch stretch, TaskId wait);
  void begin_step() { waits_in_step_ = 0; }
  [[nodiscard]] std::size_t waits_in_step() const { return waits_in_step_; }

 private:
  std::vector<Stretch> before_;  ///< of each task: met up to `from`, passed up to `to`
  std::vector<Seconds> passes_;
  Stretch waited_;
  TaskId wait_ = kNoTask;
  std::size_t waits_in_step_ = 0;
};

}  // namespace zenflow::sim
