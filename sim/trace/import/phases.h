/// Phases of recorded work, by rules.
#pragma once

#include <vector>

#include "sim/trace/import/collector.h"
#include "sim/trace/import/rules.h"
#include "sim/trace/launches.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Sets `phase` of GPU work: names and streams of the work itself, thread, ranges and operations of
/// the call that launched it. `launch` is launch_of_spans(timeline). What no rule fits stays kNone.
/// Precondition: the timeline's spans are sorted by track and start.
void assign_phases(Timeline& timeline, const SpanLaunches& launch,
                   const std::vector<HostInterval>& intervals, const TraceRules& rules);

}  // namespace zenflow::sim
