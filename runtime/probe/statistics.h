/// From repetitions to a figure with its spread, and from figures to the constants of cost
/// formulas.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace zenflow::runtime {

/// `low` and `high` hold the middle 80 % of the repetitions between them (10th and 90th percentile,
/// interpolated), or all of them if they are fewer than ten: what to expect of the next repetition
/// on this machine as it is.
struct Spread {
  double median = 0;
  double low = 0;
  double high = 0;
  std::size_t repetitions = 0;
};
/// Precondition: at least one sample.
[[nodiscard]] Spread spread_of(std::vector<double> samples);

/// Something measured.
struct Figure {
  std::string id;    ///< "copy.h2d.pinned.1GiB"
  std::string unit;  ///< "GB/s", "us", "GFLOPS"
  std::string what;  ///< one line for people
  Spread value;
};

/// The figure of this id. Throws Error(kRuntime) if it was not measured.
[[nodiscard]] const Figure& figure(std::span<const Figure> figures, const std::string& id);

/// Work and time of one product.
struct ProductTime {
  double flops;
  double seconds;
};
/// gpu_cost.h: time = (F + half_size) / rate.
struct ProductFit {
  double rate;       ///< FLOP/s of a very large product
  double half_size;  ///< FLOPs; 0 if no line with a loss >= 0 is better
};
/// Least squares of relative errors. Precondition: two points of different size.
[[nodiscard]] ProductFit fit_products(std::span<const ProductTime> points);

/// Rate on some threads.
struct ThreadRate {
  double threads;
  double rate;
};
/// cpu_cost.h: rate(c) = limit c / (c + half). Least squares of relative errors of c / rate, which
/// is a line in c. A rate that does not grow gives `kLeastHalf`, one that grows with the threads
/// `kMostHalf` times the largest number of threads. Precondition: not empty.
inline constexpr double kLeastHalf = 0.01;
inline constexpr double kMostHalf = 100;
[[nodiscard]] double fit_half_threads(std::span<const ThreadRate> points);

}  // namespace zenflow::runtime
