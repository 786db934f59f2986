/// Contention: what ran concurrently with a span, and what share of its isolated rate that left it,
/// by max-min fair shares of the links that all of them use, as in the engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/intervals.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// Kinds of work that run at a moment, one bit each.
using WorkSet = std::uint64_t;
/// Seconds of a span by what else ran.
using ConcurrentWork = std::vector<std::pair<WorkSet, double>>;

/// A kind of work, and when it runs.
struct WorkTimes {
  WorkSet bit = 0;
  const Intervals* times = nullptr;
};

/// By sets, ascending. Precondition: no bit occurs twice.
[[nodiscard]] ConcurrentWork concurrent_work(const Interval& span,
                                             std::span<const WorkTimes> others);

/// The progress of kinds of work under contention. Refers to the machine.
class FairProgress {
 public:
  /// `flows`: of each kind, by its bit's number; kNoFlow: it shares nothing.
  FairProgress(const Machine& machine, std::vector<FlowId> flows)
      : machine_(machine), flows_(std::move(flows)) {}

  /// The share of its isolated rate at which kind `own` runs concurrently with the others.
  [[nodiscard]] double of(std::size_t own, WorkSet others);
  /// The same for a span, in the mean over its time; 1 if nothing is known of what ran.
  [[nodiscard]] double mean(std::size_t own, const ConcurrentWork& concurrent);

 private:
  const Machine& machine_;
  std::vector<FlowId> flows_;
  std::map<std::pair<WorkSet, std::size_t>, double> known_;
};

}  // namespace zenflow::sim
