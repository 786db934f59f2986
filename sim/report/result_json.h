/// The result document of `zenflow-sim run --json`: schema_version 1.
#pragma once

#include <string>
#include <vector>

#include "sim/simulate/simulation.h"

namespace zenflow::sim {

/// One document for a scenario and its results. Milliseconds to the picosecond, shares to
/// nine decimals: equal results give equal bytes.
[[nodiscard]] std::string result_json(const Job& job, const std::vector<SimulationResult>& results,
                                      const std::string& version);

/// A time, and a plain number, as they stand in the document.
[[nodiscard]] std::string json_milliseconds(double picoseconds);
/// Nine decimals, as all documents have; what is too large to be rounded stays as it is.
[[nodiscard]] double rounded_value(double value);
/// The same of a time: to a picosecond, so that commands that ask the same say the same.
[[nodiscard]] double rounded_milliseconds(double picoseconds);
[[nodiscard]] std::string json_number(double value);

}  // namespace zenflow::sim
