#pragma once

#include <algorithm>
#include <vector>

namespace zenflow::sim {

/// The mean of both in the middle of an even number. Precondition: at least one.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

}  // namespace zenflow::sim
