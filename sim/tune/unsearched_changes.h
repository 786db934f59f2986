/// What helps a job that does not fit, and the search does not go through.
#pragma once

#include <string>
#include <vector>

#include "sim/report/fit.h"
#include "sim/tune/candidates.h"

namespace zenflow::sim {

/// Of what `zenflow-sim fit` names for the user's own setting.
struct UnsearchedChanges {
  std::vector<FitChange> changes{};  ///< that no setting of the space has, most useful first
  /// If no single change suffices and some of those that do together are not searched.
  std::vector<std::string> fit_together{};
};

/// Empty if the own setting fits, within the limits that were asked for, or cannot be simulated.
/// Simulates each change.
[[nodiscard]] UnsearchedChanges unsearched_changes(const Candidates& candidates);

}  // namespace zenflow::sim
