/// Gradients of fp32 operations against central differences of a double reference.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "runtime/model/initialize.h"

namespace zenflow::testing {

/// Values of about unit size, the same on every machine.
inline std::vector<float> some_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> out;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t word = runtime::philox({i, 0, 0, 0}, {seed, 0})[0];
    out.push_back(static_cast<float>(static_cast<double>(word) * 0x1p-31 - 1.0));
  }
  return out;
}

inline std::vector<double> in_double(std::span<const float> values) {
  return {values.begin(), values.end()};
}

inline double dot(std::span<const double> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < b.size(); ++i) sum += a[i] * static_cast<double>(b[i]);
  return sum;
}

/// |found - expected| / |expected| of every `stride`-th element; the difference itself if there is
/// nothing to compare with.
inline double relative_error(std::span<const float> found, std::span<const double> expected,
                             std::size_t stride = 1) {
  if (found.size() != expected.size()) return 1.0;
  double squares = 0.0;
  double reference = 0.0;
  for (std::size_t i = 0; i < expected.size(); i += stride) {
    const double d = static_cast<double>(found[i]) - expected[i];
    squares += d * d;
    reference += expected[i] * expected[i];
  }
  return std::sqrt(reference > 0.0 ? squares / reference : squares);
}

/// df/dx of every `stride`-th element by central differences, 0 for the others.
inline std::vector<double> numeric_gradient(
    const std::function<double(const std::vector<double>&)>& f, std::span<const float> at,
    std::size_t stride = 1) {
  constexpr double kStep = 1e-4;  // errs by kStep^2 and by 1e-16 / kStep, relative: about 1e-8
  std::vector<double> x = in_double(at);
  std::vector<double> gradient(x.size());
  for (std::size_t i = 0; i < x.size(); i += stride) {
    const double before = x[i];
    x[i] = before + kStep;
    const double above = f(x);
    x[i] = before - kStep;
    gradient[i] = (above - f(x)) / (2.0 * kStep);
    x[i] = before;
  }
  return gradient;
}

}  // namespace zenflow::testing
