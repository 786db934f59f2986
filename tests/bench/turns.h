/// Contestants that take turns, so that whatever slows a machine for a while slows all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "sim/base/error.h"

namespace zenflow::bench {

struct Quartiles {
  double low;
  double median;
  double high;
};

/// Nearest ranks. Throws Error(kInput) if there is no value.
inline Quartiles quartiles(std::vector<double> values) {
  if (values.empty()) throw Error(ErrorKind::kInput, "quartiles of no values");
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
  };
  return {at(0.25), at(0.5), at(0.75)};
}

/// seconds[contestant][turn]. A contestant returns the seconds that it took. Every turn begins with
/// the next one: none always follows the same other.
inline std::vector<std::vector<double>> take_turns(
    const std::vector<std::function<double()>>& contestants, int turns) {
  std::vector<std::vector<double>> seconds(contestants.size());
  for (int turn = 0; turn < turns; ++turn) {
    for (std::size_t i = 0; i < contestants.size(); ++i) {
      const std::size_t next = (i + static_cast<std::size_t>(turn)) % contestants.size();
      seconds[next].push_back(contestants[next]());
    }
  }
  return seconds;
}

/// By how much `ours` took longer than `base`, turn by turn, as a share of `base`.
inline Quartiles overhead(const std::vector<double>& ours, const std::vector<double>& base) {
  if (ours.size() != base.size()) throw Error(ErrorKind::kInput, "turns do not match");
  std::vector<double> shares;
  for (std::size_t turn = 0; turn < ours.size(); ++turn) {
    shares.push_back(ours[turn] / base[turn] - 1);
  }
  return quartiles(shares);
}

}  // namespace zenflow::bench
