/// Zen-auto: chooses update_interval while training, window by window.
///
/// For a matrix j, from squared gradient norms summed over a window of S steps: s_j = root mean
/// square norm of a selected column in a step, d_j that of a deferred one. Deferred columns are due
/// when their gradients have added up to one selected column's: u d_j >= s_j after u steps.
///   S_gradient  the smallest u for which this holds for at least `auto_ratio` of the matrices
///   S_stall     ceil(CPU update time / step time without waiting): fewer steps, and the GPU waits
///   S_limit     floor((max_staleness + 1) / 2) with overlap, max_staleness + 1 without
///   S_window    min(S_limit, max(S_gradient, S_stall)), what one window asks for
///   S           rises to the median of what the last five windows ask for, and falls to the most
///               that any of the last eight does (and there are five); at most twice and at least
///               half the last
/// Both are measured, and a ratio near a whole number asks for one more now and then: S rises where
/// most windows say so, and does not come back as long as some of them do.
///
/// Source of the rule: DeepSpeed's ZenFlow, update_interval "auto" (sums of absolute values), less
/// its faults: the running mean there is rescaled by 10 k in every step, so that it grows or decays
/// without bound unless k = 0.1, and the decision is cleared before it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "runtime/offload/engine.h"

namespace zenflow::runtime {

struct IntervalLimits {
  double auto_ratio = 0.99;  ///< DeepSpeed's key and default
  std::int64_t max_staleness = 31;
  bool overlap_step = true;
};

struct IntervalDecision {
  std::int64_t window = 0;
  std::int64_t previous = 0;
  std::int64_t next = 0;
  std::int64_t by_gradient = 0;  ///< 0: no matrix has both selected and deferred columns
  std::int64_t by_stall = 0;     ///< 0: no update has been measured yet
  std::int64_t limit = 0;
  double deferred_share = 0;  ///< of the squared gradient norm of those matrices
  std::string reason{};       ///< one phrase: which of the bounds decided
};

/// The least number of `matrices` that is `auto_ratio` of them, but one at least.
/// Precondition: 0 <= auto_ratio <= 1, matrices > 0.
[[nodiscard]] std::size_t matrices_wanted(double auto_ratio, std::size_t matrices);

/// What one window asks for, from S of it: a pure function of what was observed. Times decide, so
/// runs with it are not repeatable.
[[nodiscard]] IntervalDecision choose_interval(const WindowObservation& seen,
                                               const IntervalLimits& limits);

/// The rule over a run's windows.
class IntervalController {
 public:
  explicit IntervalController(const IntervalLimits& limits) : limits_(limits) {}

  [[nodiscard]] IntervalDecision decide(const WindowObservation& seen);

 private:
  IntervalLimits limits_;
  std::deque<std::int64_t> asked_;  ///< S_window of the last ones
};

}  // namespace zenflow::runtime
