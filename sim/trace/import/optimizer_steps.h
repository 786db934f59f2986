/// Steps of a run whose optimizer's ranges are known.
#pragma once

#include <vector>

#include "sim/trace/import/collector.h"
#include "sim/trace/import/rules.h"
#include "sim/trace/launches.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// From the end of one update to that of the next. Ranges with no forward between them are one
/// update: DeepSpeed's stage 3 calls its optimizer once a sub-group, others have two optimizers.
/// Between two ranges is a forward if a backward is: a kernel of that phase, or one of `intervals`
/// (by track and start) with such a rule; but not where kernels of a forward lie between others,
/// and none does here, and not within one pass of it, whose hooks update each parameter when its
/// gradient is there. A range that holds a backward, as of an optimizer that is given a closure,
/// ends a step of its own. Of a trace without any backward, if an eighth as many kernels are
/// launched there as between those that have most, for casts and norms are kernels too; without any
/// kernel, if an eighth as much time lies there. The first step begins with the trace's first
/// kernel, if as many precede its update as others. `ranges` are sorted by start and lie beside
/// each other; phases are assigned.
[[nodiscard]] std::vector<TimelineStep> steps_between_updates(
    const Timeline& timeline, const SpanLaunches& launch,
    const std::vector<HostInterval>& intervals, const TraceRules& rules,
    const std::vector<const TimelineSpan*>& ranges);

}  // namespace zenflow::sim
