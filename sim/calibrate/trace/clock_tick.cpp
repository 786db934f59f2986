#include "sim/calibrate/trace/clock_tick.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace zenflow::sim {

double clock_tick(const Timeline& timeline, bool (*counts)(SpanKind)) {
  constexpr std::int64_t kCoarsest = 1'000'000;  // picoseconds
  std::int64_t tick = kCoarsest;
  const TimelineSpan* first = nullptr;
  bool several = false;
  for (const TimelineSpan& span : timeline.spans) {
    if (!counts(kind_of(timeline, span))) continue;
    several = several || first != nullptr;
    if (first == nullptr) first = &span;
    tick = std::gcd(tick, (span.start - first->start).count);
    tick = std::gcd(tick, (span.end - span.start).count);
    if (tick == 1) break;
  }
  return several ? to_seconds(Picoseconds{tick}).value() : 0;
}

double clock_error(double tick, double lengths) {
  return tick * std::sqrt(lengths / 6);
}

double decimal_tick(const std::vector<double>& values) {
  constexpr int kMostDecimals = 6;
  double unit = 1;
  for (int decimals = 0; decimals < kMostDecimals; ++decimals, unit /= 10) {
    constexpr double kRounding = 1e-6;
    const bool fits = std::all_of(values.begin(), values.end(), [unit](double value) {
      return std::abs(value / unit - std::round(value / unit)) < kRounding;
    });
    if (fits) break;
  }
  return unit;
}

}  // namespace zenflow::sim
