#include "sim/calibrate/regression.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Dense>

namespace zenflow::sim {
namespace {

constexpr double kHuber = 1.345;  // 95 % of least squares' efficiency on normal residuals
constexpr double kScaleOfMedian = 1.4826;
constexpr double kLargestRelativeError = 0.25;
constexpr int kIterations = 50;

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

struct Solution {
  Vector value;
  Vector standard_error;
  double residual = 0;
  Vector weight;
};

/// Rows are relative: each divided by its time, so that the right side is 1 less what is given.
Solution solve(const Matrix& rows, const Vector& right) {
  const Eigen::Index samples = rows.rows();
  Vector weight = Vector::Ones(samples);
  Vector value = Vector::Zero(rows.cols());
  Vector residual;
  for (int i = 0; i < kIterations; ++i) {
    const Vector root = weight.cwiseSqrt();
    const Vector next =
        (root.asDiagonal() * rows).colPivHouseholderQr().solve(Vector(root.cwiseProduct(right)));
    const double change = (next - value).norm();
    value = next;
    residual = right - rows * value;
    std::vector<double> sizes(static_cast<std::size_t>(samples));
    for (Eigen::Index r = 0; r < samples; ++r) {
      sizes[static_cast<std::size_t>(r)] = std::abs(residual(r));
    }
    const double limit = kHuber * kScaleOfMedian * median(sizes);
    for (Eigen::Index r = 0; r < samples; ++r) {
      const double size = std::abs(residual(r));
      weight(r) = limit > 0 && size > limit ? limit / size : 1;
    }
    if (change <= 1e-12 * value.norm()) break;
  }
  Solution solution{value, Vector::Zero(value.size()), 0, weight};
  const double sum = residual.cwiseProduct(weight).dot(residual);
  solution.residual = std::sqrt(sum / static_cast<double>(samples));
  const auto free = static_cast<double>(samples - rows.cols());
  const double variance = free > 0 ? sum / free : std::numeric_limits<double>::infinity();
  const Matrix normal = rows.transpose() * weight.asDiagonal() * rows;
  const Eigen::FullPivLU<Matrix> factors(normal);
  if (!factors.isInvertible()) {
    solution.standard_error.setConstant(std::numeric_limits<double>::infinity());
    return solution;
  }
  const Matrix covariance = factors.inverse();
  for (Eigen::Index c = 0; c < value.size(); ++c) {
    // A sample or two that are met exactly leave no residual to judge by.
    solution.standard_error(c) =
        free > 0 ? std::sqrt(std::max(0.0, variance * covariance(c, c))) : 0;
  }
  return solution;
}

/// How little the times say about a unit; above kLargestRelativeError: nothing.
double doubt(double value, double standard_error) {
  if (!(value > 0) || !std::isfinite(standard_error)) {
    return std::numeric_limits<double>::infinity();
  }
  return standard_error / value;
}

TimeFit fit_units(std::span<const TimedWork> times, std::span<const double> given) {
  TimeFit fit;
  fit.samples = times.size();
  fit.weights.assign(times.size(), 1);
  for (const double value : given) fit.units.push_back({value, 0, false});
  if (times.empty()) return fit;
  std::vector<std::size_t> open;
  for (std::size_t c = 0; c < given.size(); ++c) {
    const bool occurs = std::any_of(times.begin(), times.end(),
                                    [c](const TimedWork& one) { return one.work[c] != 0; });
    if (occurs) open.push_back(c);
  }
  const auto samples = static_cast<Eigen::Index>(times.size());
  while (true) {
    Matrix rows(samples, static_cast<Eigen::Index>(open.size()));
    Vector right(samples);
    for (Eigen::Index r = 0; r < samples; ++r) {
      const TimedWork& one = times[static_cast<std::size_t>(r)];
      double known = one.known;
      for (std::size_t c = 0; c < given.size(); ++c) {
        if (std::find(open.begin(), open.end(), c) == open.end()) known += one.work[c] * given[c];
      }
      right(r) = (one.seconds - known) / one.seconds;
      for (std::size_t i = 0; i < open.size(); ++i) {
        rows(r, static_cast<Eigen::Index>(i)) = one.work[open[i]] / one.seconds;
      }
    }
    if (open.empty()) {
      fit.weights.assign(times.size(), 1);
      fit.residual = std::sqrt(right.squaredNorm() / static_cast<double>(samples));
      return fit;
    }
    // Columns of a like size: bytes and calls differ by nine orders of magnitude.
    const Vector size = rows.colwise().norm();
    const Solution solved = solve(rows * size.cwiseInverse().asDiagonal(), right);
    fit.residual = solved.residual;
    fit.weights.assign(solved.weight.begin(), solved.weight.end());
    std::size_t worst = 0;
    double worst_doubt = -1;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto at = static_cast<Eigen::Index>(i);
      UnitTime& unit = fit.units[open[i]];
      unit = {solved.value(at) / size(at), solved.standard_error(at) / size(at), true};
      const double one = doubt(unit.value, unit.standard_error);
      if (one > worst_doubt) {
        worst_doubt = one;
        worst = i;
      }
    }
    if (worst_doubt <= kLargestRelativeError) return fit;
    fit.units[open[worst]] = {given[open[worst]], 0, false};
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(worst));
  }
}

}  // namespace

TimeFit fit_times(std::span<const TimedWork> times, std::span<const double> given) {
  TimeFit fit = fit_units(times, given);
  for (std::size_t c = 0; c < given.size(); ++c) {
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (times[i].work[c] == 0) continue;
      ++fit.units[c].samples;
      if (fit.weights[i] < kDampedWeight) ++fit.units[c].damped;
    }
  }
  return fit;
}

}  // namespace zenflow::sim
