#include "sim/tune/step_path.h"

#include <algorithm>

namespace zenflow::sim {
namespace {

/// Walks the step in issue order and keeps when each lane is free.
class Walk {
 public:
  Walk(const StepParts& parts, StepPlace which, bool pageable_fp32, const Slowdown& slowdown)
      : parts_(parts),
        which_(which),
        fp32_(pageable_fp32 ? parts.fp32_down_pageable : parts.fp32_down),
        slow_(slowdown),
        d2h_share_(parts.pinned ? slowdown.d2h : 1),
        h2d_share_(parts.pinned ? slowdown.h2d : 1),
        fp32_share_(pageable_fp32 ? 1 : d2h_share_) {}

  double go() {
    const std::size_t layers = parts_.forward.size();
    for (std::size_t l = 0; l < layers; ++l)
      compute(parts_.forward[l], fetched(l, parts_.gather[l], l < parts_.fetched_before));
    std::size_t bucket = 0;
    double ready = fetched(layers - 1, parts_.gather_again[layers - 1], false);
    for (std::size_t l = layers; l-- > 0;) {
      compute(parts_.backward[l], ready);
      const double ended = backward_ = now_;
      if (l > 0) ready = fetched(l - 1, parts_.gather_again[l - 1], false);
      for (; bucket < parts_.reduce.size() && parts_.ready_layer[bucket] == static_cast<int>(l);
           ++bucket) {
        reduce(bucket, ended);
      }
    }
    return std::max(backward_, stream_);
  }

 private:
  /// When the layer's parameters are there. What may have begun in the step before is taken to be
  /// done.
  double fetched(std::size_t layer, double gather, bool before_the_step) {
    if (!parts_.stage3 || !parts_.ranks || before_the_step || gather == 0) return 0;
    double shard = before_last_;
    // The first two layers' may have come up before the step, too.
    if (parts_.fetch[layer] > 0 && before_last_ > 0) {
      shard = h2d_ = end_of(std::max(shard, h2d_), parts_.fetch[layer], slow_.h2d, slow_.until);
    }
    collective_ = std::max(collective_, shard) + gather;
    return collective_;
  }

  void compute(double time, double ready) {
    before_last_ = now_;
    now_ = end_of(std::max({now_, ready, hold_}), time, slow_.compute, slow_.until);
    hold_ = 0;
  }

  double copied(double& lane, double ready, double time, double share) {
    return lane = end_of(std::max(ready, lane), time, share, slow_.until);
  }

  double enqueue(double ready, double time) {
    if (time == 0) return ready;
    training_ = std::max(ready, training_) + time;
    hold_ = std::max(hold_, training_);
    return training_;
  }

  /// `last`: when the backward ended that completed the bucket.
  void reduce(std::size_t b, double last) {
    if (parts_.ranks) {
      last = std::max({last, collective_, stream_}) + parts_.reduce[b];
      collective_ = last;
    }
    if (parts_.overlap) hold_ = std::max(hold_, stream_);
    if (which_.boundary && parts_.check[b] > 0) {
      compute(parts_.check[b], parts_.stage3 ? 0 : last);
      if (!parts_.stage3) last = now_;
    }
    const double each = parts_.enqueue.at(StepParts::number_of(which_)).at(b);
    const bool joins = which_.boundary && parts_.stage3;
    const double enqueued = enqueue(last, (parts_.gradients[b] - (joins ? 1 : 0)) * each);
    if (which_.boundary && !parts_.stage3) last = enqueued;
    if (parts_.stage3 || !which_.first || !which_.boundary) {
      if (parts_.stage3 || !which_.first) {
        last = copied(h2d_, last, parts_.sum_up[b], h2d_share_);
      }
      last = copied(d2h_, last, parts_.sum_down[b], d2h_share_);
    }
    if (which_.boundary) {
      last = copied(d2h_, last, fp32_[b], fp32_share_);
      if (parts_.stops_for_fp32) hold_ = std::max(hold_, last);
    }
    if (joins) last = enqueue(last, each);
    stream_ = last;
    if (!parts_.overlap) hold_ = std::max(hold_, last);
  }

  const StepParts& parts_;
  StepPlace which_;
  const std::vector<double>& fp32_;
  const Slowdown& slow_;
  double d2h_share_;
  double h2d_share_;
  double fp32_share_;
  double now_ = 0;          ///< end of the compute task added last
  double backward_ = 0;     ///< of the backward: nothing waits for stage 3's checks behind it
  double before_last_ = 0;  ///< of the one before
  double hold_ = 0;         ///< what the next compute task waits for
  double stream_ = 0;
  double collective_ = 0;
  double training_ = 0;
  double d2h_ = 0;
  double h2d_ = 0;
};

}  // namespace

double end_of(double start, double time, double share, double until) {
  if (share >= 1 || start >= until) return start + time;
  const double done = share * (until - start);
  return time <= done ? start + time / share : until + (time - done);
}

double step_path(const StepParts& parts, StepPlace which, bool pageable_fp32,
                 const Slowdown& slowdown) {
  return Walk(parts, which, pageable_fp32, slowdown).go();
}

}  // namespace zenflow::sim
