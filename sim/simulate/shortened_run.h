/// A shorter run that shows all that a longer one does: of what repeats only a few are built.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/engine/engine.h"
#include "sim/schedule/program.h"
#include "sim/simulate/metrics.h"

namespace zenflow::sim {

/// A run in which stretches of equal windows, and of equal steps within a window, are cut short:
/// `keep` of them and one more are built; the others are like the one before the last, if that one
/// and the last begin in the same state.
struct ShortenedRun {
  std::vector<WindowShape> windows;   ///< to be built
  std::vector<std::size_t> shown_by;  ///< for each window of the long run, one of `windows`
  /// For each of `windows`: for each step of the windows that it stands for, one of its own.
  std::vector<std::vector<std::size_t>> shown_steps;

  /// Steps that have to begin in the state in which an earlier one did; by number over all built.
  struct Repetition {
    std::size_t step;
    std::size_t earlier;
  };
  std::vector<Repetition> repetitions;
};

struct Kept {
  std::size_t windows = 2;
  std::size_t steps = 0;  ///< between a window's first and its last; 0: all
};
[[nodiscard]] ShortenedRun shorten(const std::vector<WindowShape>& windows, const Kept& kept);

/// Runs the program of `run.windows`; whether all that has to repeat does.
struct ShortenedExecution {
  Execution execution;
  bool repeats = true;
};
[[nodiscard]] ShortenedExecution simulate_shortened(const Program& program,
                                                    const ShortenedRun& run);

/// The metrics of each of `run.windows` but the last, with all the steps of the windows that it
/// stands for.
[[nodiscard]] std::vector<WindowMetrics> shown_metrics(const Program& program,
                                                       const Execution& execution,
                                                       const ShortenedRun& run);
/// The same with step times only.
[[nodiscard]] std::vector<WindowMetrics> shown_step_times(const Program& program,
                                                          const Execution& execution,
                                                          const ShortenedRun& run);

}  // namespace zenflow::sim
