#include "sim/schedule/rank_passes.h"

#include <algorithm>
#include <cmath>

namespace zenflow::sim {

void RankPasses::follow(TaskId task, TaskId before) {
  before_[task].from = std::max(before_[task].from, before_[before].from);
  before_[task].to = std::max(before_[task].to, before_[before].to);
}

void RankPasses::pass(TaskId task, Seconds time, bool counts) {
  if (counts) passes_.push_back(time);
  before_[task].to = static_cast<std::int32_t>(passes_.size());
}

RankPasses::Stretch RankPasses::since_met(std::span<const TaskId> after) const {
  Stretch since;
  for (const TaskId task : after) {
    if (task == kNoTask) continue;
    since.from = std::max(since.from, before_[task].from);
    since.to = std::max(since.to, before_[task].to);
  }
  return since;
}

Seconds RankPasses::deviation(Stretch stretch) const {
  double squares = 0;
  for (std::int32_t i = stretch.from; i < stretch.to; ++i) {
    const double time = passes_[static_cast<std::size_t>(i)].value();
    squares += time * time;
  }
  return Seconds(std::sqrt(squares));
}

void RankPasses::waits_for(Stretch stretch, TaskId wait) {
  waited_ = stretch;
  wait_ = wait;
  ++waits_in_step_;
}

}  // namespace zenflow::sim
