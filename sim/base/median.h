#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace zenflow::sim {

/// The mean of both in the middle of an even number. Precondition: at least one.
[[nodiscard]] inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() / 2] + values[(values.size() - 1) / 2]) / 2;
}

/// The greater of both in the middle of an even number: one of the values, so that a scale that
/// half of them give is not below any of that half, and whole numbers stay whole. Precondition: at
/// least one.
template <class T>
[[nodiscard]] T upper_median(std::vector<T> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace zenflow::sim
