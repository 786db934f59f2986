/// What a Nsight Systems export says of the host: calls, waits, ranges, and the threads' names.
#pragma once

#include "sim/trace/import/nsight_file.h"

namespace zenflow::sim {

/// Calls of the runtime and the driver, synchronization and NVTX ranges. Tables that are missing
/// are done without.
void read_host_events(NsightFile& file);
/// Names of the threads and processes that have rows.
void name_threads(NsightFile& file);

}  // namespace zenflow::sim
