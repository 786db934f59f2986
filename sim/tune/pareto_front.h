/// What is no worse in anything: step time, staleness, GPU memory and traffic.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/tune/candidates.h"

namespace zenflow::sim {

/// The four quantities of a simulated candidate, or their bounds.
struct FrontPoint {
  double step_time = 0;
  double gpu_bytes = 0;
  double traffic = 0;
  std::int64_t staleness = 0;

  FrontPoint() = default;
  explicit FrontPoint(const Evaluation& one)
      : step_time(one.step_time),
        gpu_bytes(one.gpu_bytes),
        traffic(one.traffic()),
        staleness(one.staleness) {}
  explicit FrontPoint(const CandidateBounds& one)
      : step_time(one.step_time),
        gpu_bytes(one.gpu_bytes),
        traffic(one.traffic),
        staleness(one.staleness) {}

  /// Whether this is as good as `other` in everything. Differences below a millionth are rounding.
  [[nodiscard]] bool covers(const FrontPoint& other) const {
    constexpr double kSame = 1 + 1e-6;
    return step_time <= other.step_time * kSame && staleness <= other.staleness &&
           gpu_bytes <= other.gpu_bytes * kSame && traffic <= other.traffic * kSame;
  }
};

/// What is not covered, of what has been added so far.
class ParetoFront {
 public:
  [[nodiscard]] bool covers(const FrontPoint& point) const {
    return std::any_of(points_.begin(), points_.end(),
                       [&](const FrontPoint& one) { return one.covers(point); });
  }
  void add(const FrontPoint& point);

 private:
  std::vector<FrontPoint> points_;
};

/// Which of `points` no other covers; of equal ones the first. Ascending positions.
[[nodiscard]] std::vector<std::size_t> not_covered(const std::vector<FrontPoint>& points);

}  // namespace zenflow::sim
