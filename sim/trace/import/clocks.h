/// Whether the host's clock and the GPU's agree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/trace/import/imported_trace.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {

/// Adds to the problems how much GPU work begins before the call that launched it, if any does: the
/// first such place and the largest difference. `launch` is launch_of_spans of the timeline.
void note_clock_differences(const std::string& name, const SpanLaunches& launch,
                            ImportedTrace& trace);

}  // namespace zenflow::sim
