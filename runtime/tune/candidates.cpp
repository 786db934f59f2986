#include "runtime/tune/candidates.h"

#include <algorithm>
#include <cmath>

namespace zenflow::runtime {

std::int64_t staleness_limit(std::int64_t max_staleness, bool overlap_step) {
  return std::max<std::int64_t>(1, overlap_step ? (max_staleness + 1) / 2 : max_staleness + 1);
}

std::vector<double> topk_ratios(double low, double high, double current) {
  constexpr int kRatios = 4;  // from the least k to the largest, by as many equal ratios
  std::vector<double> ratios{low, high, current};
  for (int i = 1; i < kRatios; ++i) {
    // In logarithms: high / low may be more than a double holds.
    const double part = static_cast<double>(i) / kRatios;
    const double exact = std::exp((1 - part) * std::log(low) + part * std::log(high));
    const double scale = std::pow(10, 2 - std::floor(std::log10(exact)));
    ratios.push_back(std::clamp(std::round(exact * scale) / scale, low, high));
  }
  std::sort(ratios.begin(), ratios.end());
  ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
  return ratios;
}

std::vector<TunePoint> tune_points(std::int64_t most, const std::vector<double>& topk_ratios) {
  constexpr std::int64_t kDense = 8;  // S up to which every value is a candidate
  std::vector<TunePoint> points;
  for (std::int64_t s = 1; s <= most;) {
    for (const double k : topk_ratios) points.push_back({s, k});
    if (s == most) break;
    s = std::min(most, s < kDense ? s + 1 : s + s / 4);
  }
  std::sort(points.begin(), points.end());
  return points;
}

}  // namespace zenflow::runtime
