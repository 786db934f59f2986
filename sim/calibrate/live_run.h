/// A recorded run as its operations, and what ran concurrently with those that share links.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/calibrate/contention.h"
#include "sim/calibrate/live_samples.h"
#include "sim/schedule/cluster.h"
#include "sim/schedule/job.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// One recorded run: its job (base profile, model, settings) and schedule.
struct CollectiveSample;  // rank_collectives.h

struct LiveRecording {
  const Job* job;
  std::string schedule;  ///< "live-zenflow"
  const Timeline* timeline;
  std::int64_t first_step = 0;  ///< steps before it are not used
  /// Cores that other programs used while it was recorded, on average; 0: none, or not known. Used
  /// only where the device is the host.
  double other_cores = 0;
  RankPlace place{};  ///< whose recording it is
  std::string file{};
  /// What its run's collectives took, where the other ranks' recordings are not given; null: they
  /// are.
  const std::vector<CollectiveSample>* collectives = nullptr;
};

struct LiveRun {
  const Job* job;
  LiveSettings live;  ///< with the cores that the recording says its threads ran on
  std::vector<LiveLayer> layers;
  std::vector<LiveSample> samples;
  /// What ran concurrently with each copy, update and sum: what shares DRAM, and the link. Empty
  /// where the device is the host: its threads share cores, and what one leaves another is in the
  /// rates.
  std::vector<ConcurrentWork> concurrent;
};

/// The recording is referred to.
/// Throws Error(kInput) if the schedule is none of the live ones, if the recording is not of its
/// job (live_samples.h), or if its warm-up lasts beyond the first step.
[[nodiscard]] LiveRun read_live_run(const LiveRecording& recording);

/// What a run's copies, updates and sums leave each other on a machine whose links are shared
/// fairly. Refers to the run.
class LiveProgress {
 public:
  LiveProgress(const LiveRun& run, const HardwareProfile& machine);

  /// What the sample had of its isolated rate. Precondition: it is a copy, update or sum.
  [[nodiscard]] double of(std::size_t sample);

 private:
  const LiveRun& run_;
  Cluster cluster_;
  FairProgress progress_;
};

}  // namespace zenflow::sim
