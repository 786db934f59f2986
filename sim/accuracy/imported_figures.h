/// What a recording of another program (PyTorch, Nsight Systems, CUPTI, a log) shows of its steps.
#pragma once

#include <string>
#include <vector>

#include "sim/accuracy/step_figures.h"
#include "sim/trace/import/imported_trace.h"

namespace zenflow::sim {

struct ImportedFigures {
  StepFigures figures;
  std::vector<std::string> notes;  ///< what the comparison cannot know
  Picoseconds begin{};             ///< of the steps that count; both 0: only durations are known
  Picoseconds end{};
  std::int64_t steps = 0;
};

/// Means over the steps from the `first`-th in the trace on that fill whole windows of `window`
/// steps; over all of them, with a note, if they do not fill one. Over all devices of the trace. A
/// step lasts until the next one begins. Unknown is what the trace does not have: memory, what the
/// host does unless rules name it (trace_analysis.h), bytes of copies without a size; of a log all
/// but the step, the mean of all from the `first`-th on.
/// Throws Error(kInput), whose message begins with `name`, if there is no such step.
[[nodiscard]] ImportedFigures imported_figures(const ImportedTrace& trace, const std::string& name,
                                               const TraceRules& rules, std::int64_t first,
                                               std::int64_t window);

}  // namespace zenflow::sim
