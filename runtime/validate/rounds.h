/// By turns over several settings, until the runs of each agree.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace zenflow::runtime {

struct RoundLimits {
  std::int64_t least = 1;
  std::int64_t most = 1;  ///< taken as `least` if it is less
  double spread = 0;      ///< of a setting's runs (run_spread) that agree
};

/// `run` measures setting `i` once and returns its step time, or a negative number to end
/// everything. Each round takes all settings, so that what drifts slowly meets them alike; beyond
/// the least rounds only those of which the newest `least` runs do not agree yet.
/// Returns the step times by setting: all that were measured, in their order.
std::vector<std::vector<double>> run_rounds(
    const RoundLimits& limits, std::size_t settings,
    const std::function<double(std::int64_t round, std::size_t i)>& run);

/// The last `count` of `times`, or as many as there are: the runs that count.
[[nodiscard]] std::vector<double> newest(const std::vector<double>& times, std::int64_t count);

}  // namespace zenflow::runtime
