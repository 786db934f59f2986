/// A fit to traces for people.
#pragma once

#include <string>

#include "sim/calibrate/trace/trace_fit.h"

namespace zenflow::sim {

/// The table of constants, then what each run was and what of it was not used.
[[nodiscard]] std::string trace_fit_text(const TraceFit& fit, bool bold);

}  // namespace zenflow::sim
