/// Why the user's own setting is not among what the tuner proposes.
#pragma once

#include <string>

#include "sim/tune/candidates.h"

namespace zenflow::sim {

/// A rule that speaks against it, or a value that is not searched; empty: it may be proposed. A job
/// without ZenFlow has no values of ZenFlow's knobs that could be missed.
[[nodiscard]] std::string why_own_is_not_eligible(const Candidates& candidates);

}  // namespace zenflow::sim
