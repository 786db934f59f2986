/// What the micro steps of a schedule do, read off the graph that it builds: for people, and for
/// comparison with what a running program does.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/schedule/schedule.h"

namespace zenflow::sim {

struct MicroStep {
  std::int64_t step = 0;     ///< counted from 0 over the run
  std::int64_t window = 0;   ///< the update window it belongs to
  bool selects = false;      ///< columns are selected in its backward pass
  bool boundary = false;     ///< its gradients complete a window: an update follows
  bool full_update = false;  ///< a warm-up step: the CPU updates everything before the next one
  /// Which of two gradient buffers the update of this boundary reads; empty if there is one.
  std::optional<int> buffer{};
  /// The boundary step whose CPU update this boundary sends back as weights. Empty if it sends
  /// none, or if the schedule sends weights outside its boundaries.
  std::optional<std::int64_t> weights_of{};
};

/// The first `count` micro steps. Throws Error(kInput) if the schedule cannot run the job.
/// Precondition: update_interval, if the schedule has one, is a number.
[[nodiscard]] std::vector<MicroStep> micro_steps(const Job& job, const Schedule& schedule,
                                                 std::int64_t count);

}  // namespace zenflow::sim
