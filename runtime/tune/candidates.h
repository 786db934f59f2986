/// The settings that a running training may change to.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/tune/live_prediction.h"

namespace zenflow::runtime {

/// The limit S keeps so that no gradient exceeds max_staleness, whatever S was before.
[[nodiscard]] std::int64_t staleness_limit(std::int64_t max_staleness, bool overlap_step);

/// Both ends, three between them at equal ratios, and `current`; ascending. Those between have
/// three significant digits. Precondition: 1e-300 <= low <= current <= high.
[[nodiscard]] std::vector<double> topk_ratios(double low, double high, double current);

/// Every S up to 8 and then a quarter apart, up to `most`, for every k in `topk_ratios`; in the
/// tuner's order.
[[nodiscard]] std::vector<TunePoint> tune_points(std::int64_t most,
                                                 const std::vector<double>& topk_ratios);

}  // namespace zenflow::runtime
