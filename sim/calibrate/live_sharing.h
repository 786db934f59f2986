/// Isolated rates of the CPU optimizer, of sums and of copies in recordings, and the capacity of
/// the links that they share: from what ran concurrently with each of them.
///
///   time = isolated time / progress
///
/// with the isolated time as live_work.h and transfer_cost.h have it and `progress` the mean, over
/// the span's time, of its fair share of the links with whatever else ran then (live_run.h).
#pragma once

#include <vector>

#include "sim/calibrate/constant_fit.h"
#include "sim/calibrate/live_run.h"

namespace zenflow::sim {

/// Whether any of them ran concurrently.
[[nodiscard]] bool overlap(const std::vector<LiveRun>& runs);

/// Copies by direction, updates and sums, each with their formula. They refer to the runs.
[[nodiscard]] std::vector<TimedGroup> shared_times(const std::vector<LiveRun>& runs);

/// What those times depend on. `sum_cores`: the most that a run's sums used; `several_cores`: with
/// the optimizer's half_cores.
[[nodiscard]] std::vector<ProfileConstant> shared_constants(const HardwareProfile& profile,
                                                            double sum_cores, bool several_cores);

/// The rate of a core, with room for `cores` of them in that of all passes.
void set_core_bandwidth(HostProfile& host, double cores, double value);

}  // namespace zenflow::sim
