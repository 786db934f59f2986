/// A fit as a document.
#pragma once

#include <string>
#include <vector>

#include "sim/calibrate/trace/trace_fit.h"

namespace zenflow::sim {

/// {"schema_version", "version", "numbers": [...], "traces": [...]} as docs/calibration.md has it;
/// null is "cannot be said". `version`: the program's.
[[nodiscard]] std::string fit_json(const std::vector<FittedNumber>& numbers,
                                   const std::vector<TraceBaseline>& traces,
                                   const std::string& version);

}  // namespace zenflow::sim
