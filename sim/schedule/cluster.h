/// The lanes, links and flows of one node, with ranks that are alike merged.
///
/// Ranks of a node form classes: those whose host path is loaded alike behave alike, so one
/// of them is simulated and stands for `multiplicity`. On a link that the whole class shares,
/// a representative's flow counts as often as there are members on that link.
/// Links that can never be oversubscribed are left out: they cannot change a rate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/operation.h"
#include "sim/graph/task_graph.h"
#include "sim/schedule/job.h"

namespace zenflow::sim {

struct LaneInfo {
  LaneKind kind;
  int rank_class;  ///< -1: shared by all
};

/// Rates at which one rank's lanes work when alone.
struct RankRates {
  BytesPerSecond d2h;
  BytesPerSecond h2d;
  BytesPerSecond cpu_update;      ///< memory traffic of the optimizer's passes
  BytesPerSecond cpu_accumulate;  ///< memory traffic
  /// While the optimizer works, the threads that feed the GPU share cores with it: compute goes at
  /// half speed.
  bool optimizer_shares_cores = false;
};

/// What one rank's lane runs with: where, and as which flow.
struct LaneUse {
  LaneId lane = 0;
  FlowId flow = kNoFlow;
};

struct RankClass {
  std::int64_t multiplicity = 1;  ///< ranks of the node it stands for
  std::int64_t first_rank = 0;
  LaneUse compute;
  LaneUse d2h;
  LaneUse h2d;
  /// Kernels on the lane of `h2d`, which put in place what has arrived: on the host device the
  /// stream's thread runs them, on a core of its own where there is one; on a GPU they count as
  /// copies, which share the link.
  LaneUse h2d_kernels;
  LaneUse cpu_update;
  LaneUse cpu_accumulate;
  LaneUse nvme_read;
  LaneUse nvme_write;
  LaneUse training;  ///< where the schedule asked for it
};

struct Cluster {
  Machine machine;
  std::vector<LaneInfo> lanes;  ///< parallel to machine.lanes
  std::vector<RankClass> classes;
  LaneUse collective;
  LaneUse gather;  ///< shares the GPU links with `collective`
  /// What a compute task takes beyond its duration, because cores are shared, is waiting. False:
  /// the device itself is slowed, and a recorder would see it busy.
  bool compute_keeps_its_time = true;
};

/// `background_gather`: whether the schedule gathers parameters beside the step's collectives.
[[nodiscard]] Cluster make_cluster(const Scenario& scenario, const RankRates& rates,
                                   bool background_gather = false);

/// Gives every class a lane for the thread that enqueues its work.
void add_training_lanes(Cluster& cluster);

/// Cores that the CPU's lanes take when alone.
struct HostDeviceCores {
  double cpu_update = 1;
  double cpu_accumulate = 1;
};

/// Share of a core that a copy at this rate takes: 3 bytes of memory traffic a byte (read, read for
/// ownership, written) of what one core streams.
[[nodiscard]] double copying_cores(const HostProfile& host, BytesPerSecond rate);

/// Ranks that do the same.
struct AlikeRanks {
  std::int64_t first_rank = 0;
  std::int64_t count = 1;
};

/// Ranks whose device is the host itself: all lanes are threads, and a rank's one link is its equal
/// part of the host's cores, to which mpirun binds it. While more are wanted than there are, each
/// lane gets an equal share, as a fair scheduler gives its threads. Copies take `copying_cores`,
/// kernels in between a core, collectives one of every rank. Each of the scenario's `other_threads`
/// is a background flow that wants a core; each rank has its part of them.
///
/// Precondition: gpu.runs_on_host(); `classes` are all ranks of one node.
[[nodiscard]] Cluster make_host_device_cluster(const Scenario& scenario, const RankRates& rates,
                                               const HostDeviceCores& cores,
                                               const std::vector<AlikeRanks>& classes = {
                                                   AlikeRanks{}});

}  // namespace zenflow::sim
