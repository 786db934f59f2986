#include "sim/trace/import/timer_log.h"

#include <limits>
#include <numeric>

namespace zenflow::sim {

double TimerSeries::sum() const {
  return std::accumulate(values.begin(), values.end(), 0.0);
}

double mean(const std::vector<double>& values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

const TimerSeries* TimerLog::find(const std::string& name) const {
  for (const TimerSeries& series : timers) {
    if (series.name == name) return &series;
  }
  return nullptr;
}

}  // namespace zenflow::sim
