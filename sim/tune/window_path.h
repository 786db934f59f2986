/// The longest path through a window of DeepSpeed's ZenFlow, from one boundary's empty reduction
/// stream to the next one's.
///
/// While the worker updates it slows concurrent steps. Their tasks have at most the shares of
/// Slowdown until it is done, which is no sooner than its update takes at its isolated rate after
/// it was handed over; and a task's end never moves forward if it starts later or is slowed for
/// longer. So no simulation is shorter, although waiting that tasks do for each other at links is
/// left out.
///
/// Steps of one rank that surely begin after the worker is done are simulated in isolation, exactly
/// (isolated_step.h): nothing of a step reaches into the next.
#pragma once

#include <limits>

#include "sim/tune/step_facts.h"

namespace zenflow::sim {

/// Times in picoseconds.
struct ZenFlowWindow {
  bool pageable_fp32 = false;
  /// From the boundary's empty stream until weights and the host thread are ready for the next
  /// forward.
  double chain = 0;
  double broadcast = 0;  ///< of the selected columns, from the step's empty stream on
  double swap = 0;       ///< of their moments, after it, at least
  double selected_update = 0;
  double more_of_selection = 0;  ///< that the update takes in a step that selects
  double overwriting = 0;        ///< of the master, before the forward of such a step
  double first_fetch = 0;        ///< stage 3: of the first layer's parameters, after the broadcast
  double first_part = 0;         ///< and of a rank's part of them from the host before that
  double second_fetch = 0;       ///< of the next one's, after the update
  Slowdown slow;                 ///< from the boundary's empty stream on
  /// One rank: after the window's first forward has begun, when the worker is done at the latest.
  double isolated_after = std::numeric_limits<double>::infinity();
  SwappedState moments;  ///< of one rank
};

/// The path of a window of `micro_steps`; `selects`: the first of them selects columns.
[[nodiscard]] double window_path(StepFacts& steps, const ZenFlowWindow& window,
                                 std::int64_t micro_steps, bool selects);

}  // namespace zenflow::sim
