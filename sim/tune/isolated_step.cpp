#include "sim/tune/isolated_step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/engine/engine.h"

namespace zenflow::sim {
namespace {

/// The step's tasks in the order in which the schedule issues them.
class Builder {
 public:
  Builder(const StepParts& parts, const CopyLinks& links, StepPlace which, bool pageable_fp32)
      : parts_(parts), links_(links), which_(which), pageable_fp32_(pageable_fp32) {}

  IsolatedStep go(const SwappedState& moments) {
    const std::size_t layers = parts_.forward.size();
    for (const double time : parts_.forward) compute(time);
    std::size_t bucket = 0;
    TaskId ended = kNoTask;
    for (std::size_t l = layers; l-- > 0;) {
      compute(parts_.backward[l]);
      ended = last_compute_;
      for (; bucket < parts_.reduce.size() && parts_.ready_layer[bucket] == static_cast<int>(l);
           ++bucket) {
        reduce(bucket, ended);
      }
    }
    const TaskId swapped = swap(moments);
    const TaskGraph graph(std::move(machine_), std::move(tasks_), dependencies_);
    const std::vector<Span> spans = simulate(graph).spans;
    const auto end = [&](TaskId id) {
      return id == kNoTask ? 0 : static_cast<double>(spans[id].end.count);
    };
    // Nothing waits for stage 3's checks behind the last backward.
    const double gradients = std::max(end(ended), end(stream_));
    return {gradients, std::max(gradients, end(swapped))};
  }

 private:
  static constexpr LaneId kCompute = 0;
  static constexpr LaneId kDown = 1;
  static constexpr LaneId kUp = 2;
  static constexpr LaneId kTraining = 3;

  TaskId add(LaneId lane, FlowId flow, double time, TaskId after) {
    const auto id = static_cast<TaskId>(tasks_.size());
    tasks_.push_back({Picoseconds{std::llround(time)}, lane, flow});
    if (after != kNoTask) dependencies_.push_back({after, id});
    return id;
  }

  void compute(double time) {
    last_compute_ = add(kCompute, kNoFlow, time, kNoTask);
    for (const TaskId one : holds_) {
      if (one != kNoTask) dependencies_.push_back({one, last_compute_});
    }
    holds_.clear();
  }

  /// Copies from and to ordinary memory share no link.
  TaskId up(double time, TaskId after) {
    return parts_.pinned ? add(kUp, links_.h2d, time / links_.h2d_factor, after)
                         : add(kUp, kNoFlow, time, after);
  }
  TaskId down(double time, bool pageable, TaskId after) {
    return parts_.pinned && !pageable ? add(kDown, links_.d2h, time / links_.d2h_factor, after)
                                      : add(kDown, kNoFlow, time, after);
  }

  TaskId enqueue(double time, TaskId after) {
    if (time == 0) return after;
    holds_.push_back(add(kTraining, kNoFlow, time, after));
    return holds_.back();
  }

  /// `last`: the backward that completed the bucket.
  void reduce(std::size_t b, TaskId last) {
    if (parts_.overlap) holds_.push_back(stream_);
    if (which_.boundary && parts_.check[b] > 0) {
      compute(parts_.check[b]);
      if (!parts_.stage3) last = last_compute_;
    }
    const double each = parts_.enqueue.at(StepParts::number_of(which_)).at(b);
    const bool joins = which_.boundary && parts_.stage3;
    const TaskId enqueued = enqueue((parts_.gradients[b] - (joins ? 1 : 0)) * each, last);
    if (which_.boundary && !parts_.stage3) last = enqueued;
    if (parts_.stage3 || !which_.first || !which_.boundary) {
      if (parts_.stage3 || !which_.first) {
        last = up(parts_.sum_up[b], last);
      }
      last = down(parts_.sum_down[b], false, last);
    }
    if (which_.boundary) {
      const double time = (pageable_fp32_ ? parts_.fp32_down_pageable : parts_.fp32_down)[b];
      last = down(time, pageable_fp32_, last);
      if (parts_.stops_for_fp32) holds_.push_back(last);
    }
    if (joins) last = enqueue(each, last);
    stream_ = last;
    if (!parts_.overlap) holds_.push_back(last);
  }

  /// Nothing holds the moments' way up but their lane.
  TaskId swap(const SwappedState& moments) {
    if (moments.up == 0) return kNoTask;
    return add(kDown, links_.d2h, moments.down, add(kUp, links_.h2d, moments.up, kNoTask));
  }

  const StepParts& parts_;
  const CopyLinks& links_;
  StepPlace which_;
  bool pageable_fp32_;
  Machine machine_ = {
      {"compute", "d2h", "h2d", "training"}, links_.machine.links, links_.machine.flows};
  std::vector<Task> tasks_;
  std::vector<Dependency> dependencies_;
  std::vector<TaskId> holds_;  ///< what the next compute task waits for
  TaskId last_compute_ = kNoTask;
  TaskId stream_ = kNoTask;  ///< the last of the reduction stream
};

}  // namespace

IsolatedStep isolated_step(const StepParts& parts, const CopyLinks& links, StepPlace which,
                           bool pageable_fp32, const SwappedState& moments) {
  return Builder(parts, links, which, pageable_fp32).go(moments);
}

}  // namespace zenflow::sim
