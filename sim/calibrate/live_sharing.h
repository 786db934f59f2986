/// What the CPU optimizer, the sums of gradients and the copies of recordings take alone, and what
/// the links carry that they share: from what ran beside each of them.
///
///   time = alone / progress
///
/// with `alone` as live_work.h and transfer_cost.h have it and `progress` the mean, over the span's
/// time, of its fair share of the links of live_cluster.h beside whatever else ran then.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/calibrate/beside.h"
#include "sim/calibrate/constant_fit.h"
#include "sim/calibrate/live_samples.h"

namespace zenflow::sim {

/// What may share links in a live run: a bit of a WorkSet each.
enum class LiveLane : std::uint8_t { kCompute, kD2H, kH2D, kUpdate, kSum };

class LiveSharing {
 public:
  /// One run's. `live`: with the cores that its threads ran on. `job` is referred to.
  void add(const Job& job, const LiveSettings& live, const std::vector<LiveLayer>& layers,
           const Timeline& timeline, std::span<const LiveSample> samples);

  /// Whether any of them ran beside another.
  [[nodiscard]] bool overlaps() const { return overlaps_; }
  /// Copies by direction, updates and sums, each with their formula.
  [[nodiscard]] std::vector<TimedGroup> groups() const;

 private:
  struct Time {
    LiveLane lane = LiveLane::kUpdate;
    bool first = false;   ///< of a sum: in its window's first step
    double elements = 0;  ///< of updates and sums
    double bytes = 0;     ///< on the link, or of memory traffic
    double seconds = 0;
    Beside beside{};
  };
  struct Run {
    const Job* job;
    LiveSettings live;
    std::vector<Time> times;
  };
  using Runs = std::vector<Run>;

  [[nodiscard]] static std::vector<double> predict(const Runs& runs, LiveLane lane,
                                                   const HardwareProfile& profile);

  std::shared_ptr<Runs> runs_ = std::make_shared<Runs>();
  bool overlaps_ = false;
};

}  // namespace zenflow::sim
