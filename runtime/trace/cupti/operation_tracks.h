/// Streams of a recorded GPU by the names, and their work by the operations, that the program that
/// launched it gave them.
#pragma once

#include <chrono>
#include <vector>

#include "runtime/trace/launch_log.h"
#include "sim/trace/timeline.h"

namespace zenflow::runtime {

/// `timeline`: of measured_timeline, its times from `origin`, with the calls that launched. Adds a
/// track for each stream that an operation with GPU work names ("compute", "d2h", "h2d"): of every
/// operation a range from the start of its first piece of work to the end of its last, with its
/// step and the bytes that its copies moved between host and device, by start. A call belongs to
/// the innermost operation of its thread within which it began. The stream's own track is called
/// "stream 13: compute" then. Operations without recorded work are not there.
void add_operation_tracks(sim::Timeline& timeline, std::vector<LaunchedOperation> operations,
                          Clock::time_point origin);

}  // namespace zenflow::runtime
