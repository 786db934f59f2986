/// The machine that the live schedules run on: its lanes, and what they share.
#pragma once

#include "sim/schedule/cluster.h"
#include "sim/schedule/live_work.h"

namespace zenflow::sim {

/// Copies and the CPU's passes share DRAM and the link, or, where the device is the host itself,
/// all lanes of a rank its cores.
[[nodiscard]] Cluster live_cluster(const Job& job, const LiveSettings& live);

}  // namespace zenflow::sim
