/// What was fitted, for people.
#pragma once

#include <string>

#include "sim/calibrate/live_fit.h"

namespace zenflow::sim {

[[nodiscard]] std::string fitted_table(const LiveFit& fit, bool bold);

}  // namespace zenflow::sim
