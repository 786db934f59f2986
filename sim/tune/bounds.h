/// What holds for every simulation of a candidate, from closed forms: what a candidate is excluded
/// by without being simulated.
///
/// The bound on the step time is the longest path through a window whose tasks take their time
/// alone, or longer where a link cannot carry even one of them in every rank at once; waiting that
/// comes of sharing is left out, so no simulation is shorter. Besides, each lane's work has to fit
/// into the window. docs/tuning.md derives them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/schedule/schedule.h"
#include "sim/simulate/memory_report.h"

namespace zenflow::sim {

/// Bounds for one micro step.
struct StepBounds {
  double step_time = 0;  ///< picoseconds, at least
  double gpu_bytes = 0;  ///< peak of one GPU, at least
  double traffic = 0;    ///< bytes over one GPU's host link, both directions, at least
  /// Bytes of host memory, exact: what lies there lies there throughout. For published
  /// ZeRO-Infinity a lower bound.
  std::array<double, kMemoryLimits> host_needs{};
  Staleness staleness;  ///< exact
};

/// Computes bounds; remembers what several candidates share. Not for use by two threads at once.
class BoundsComputer {
 public:
  BoundsComputer();
  ~BoundsComputer();
  BoundsComputer(const BoundsComputer&) = delete;
  BoundsComputer& operator=(const BoundsComputer&) = delete;

  /// `memory_key`: equal for jobs whose buffers are equal. `step_key`: equal for jobs whose layers,
  /// buckets and copies are equal. Precondition: the schedule accepts the job.
  [[nodiscard]] StepBounds bounds(const Job& job, const Schedule& schedule,
                                  std::uint64_t memory_key, std::uint64_t step_key);

 private:
  struct Cache;
  std::unique_ptr<Cache> cache_;
};

}  // namespace zenflow::sim
