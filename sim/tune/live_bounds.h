/// What a step of zenflow-train takes at least, from closed forms of its operations alone: the
/// bound on the live schedules (docs/tuning.md).
///
/// Sums are over a measured run of whole windows. Only those tasks count on each lane that are sure
/// to begin and end in it, because the device waits for them: copies down but for the last step's,
/// or of sums on the device but for the last window's, sums on the host but for those of the last
/// two steps, updates and uploads but for the last window's.
#pragma once

#include "sim/schedule/live_work.h"

namespace zenflow::sim {

/// Picoseconds a step, averaged over job.scenario.run.steps. The greatest of: the device's own work
/// and what it waits for between steps; the work of each other lane; without overlap, from window
/// to window the chain of sums, updates and uploads up to the layers whose forward waits for them;
/// with overlap and sums on the device, that of their copies and the next window's sums;
/// where the device is the host, all lanes' work in core-seconds over its cores.
/// Precondition: the schedule accepts the job; run.steps is a whole number of windows.
[[nodiscard]] double live_step_bound(const Job& job, OffloadSchedule kind);

}  // namespace zenflow::sim
