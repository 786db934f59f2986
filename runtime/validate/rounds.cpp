#include "runtime/validate/rounds.h"

#include <algorithm>

#include "sim/accuracy/comparison.h"

namespace zenflow::runtime {

std::vector<std::vector<double>> run_rounds(
    const RoundLimits& limits, std::size_t settings,
    const std::function<double(std::int64_t round, std::size_t i)>& run) {
  std::vector<std::vector<double>> times(settings);
  const auto agrees = [&](const std::vector<double>& one) {
    return sim::run_spread(newest(one, limits.least)) <= limits.spread;
  };
  for (std::int64_t round = 0; round < std::max(limits.least, limits.most); ++round) {
    if (round >= limits.least && std::all_of(times.begin(), times.end(), agrees)) break;
    for (std::size_t i = 0; i < settings; ++i) {
      if (round >= limits.least && agrees(times[i])) continue;
      const double time = run(round, i);
      if (time < 0) return times;
      times[i].push_back(time);
    }
  }
  return times;
}

std::vector<double> newest(const std::vector<double>& times, std::int64_t count) {
  return {times.end() - std::min(std::ssize(times), count), times.end()};
}

}  // namespace zenflow::runtime
