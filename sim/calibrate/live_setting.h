/// Whether a recording of zenflow-train is of the setting that it is to be fitted as.
#pragma once

#include <string>

#include "sim/offload/training_setup.h"
#include "sim/schedule/job.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// Throws Error(kInput) "NAME: ..." with every difference between what the recording says of itself
/// and `point` with `job`: schedule, topk_ratio, update_interval, overlap_step, where sums are,
/// warm-up, batch, accumulation, activation checkpointing, precision, number of parameters; or if
/// its update interval or its topk ratio changed while it ran. Recordings of before say nothing of
/// themselves: those are checked by their operations and the sizes of their copies alone
/// (fit_live).
void check_recorded_setting(const std::string& name, const Timeline& timeline,
                            const OffloadSetup& point, const Job& job);

/// Throws Error(kInput) unless the timeline has the track on which our runtime's device computes.
void require_compute_track(const std::string& name, const Timeline& timeline);

}  // namespace zenflow::sim
