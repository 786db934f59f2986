/// The fit of a job's schedules as one JSON document.
#pragma once

#include <string>
#include <vector>

#include "sim/report/fit.h"

namespace zenflow::sim {

[[nodiscard]] std::string fit_json(const Job& job, const std::vector<Fit>& fits,
                                   const std::string& version);

}  // namespace zenflow::sim
