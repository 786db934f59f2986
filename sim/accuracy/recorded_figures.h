/// What a recording of the runtime shows of its steps.
#pragma once

#include "sim/accuracy/step_figures.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Steps that count: [first, end), whole update windows.
struct RecordedSteps {
  std::int64_t first = 0;
  std::int64_t end = 0;
  std::int64_t window = 1;
  Picoseconds begin{};   ///< when step `first` begins
  Picoseconds finish{};  ///< when step `end - 1` ends
};
/// Those from step `first` on that fill whole windows.
/// Throws Error(kInput) if not one window is there.
[[nodiscard]] RecordedSteps recorded_steps(const Timeline& timeline, std::int64_t first,
                                           std::int64_t window);

/// A timeline of the runtime's recorder (zenflow-train --trace) or, with operations on tracks of
/// their own, of a GPU that it trained on; or a simulated one of a live schedule. Unknown are
/// memory, and causes of the stall where the recording does not name them, as a GPU's does not.
/// Throws Error(kInput) if it has no track "compute".
[[nodiscard]] StepFigures recorded_figures(const Timeline& timeline, const RecordedSteps& steps);

}  // namespace zenflow::sim
