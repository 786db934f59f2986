/// What robust fits have in common: weights that limit what an outlier does, the linear problem of
/// an iteration, and standard errors where samples of one kind miss together. Fits iterate: solve
/// with the weights, weigh anew by the residuals (iteratively reweighted least squares).
///
/// Sees Eigen: for .cpp files of this folder.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include <Eigen/Dense>

namespace zenflow::sim {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;

// Limits, in standard deviations, with 95 % of least squares' efficiency on normal residuals.
inline constexpr double kHuber = 1.345;
inline constexpr double kTukey = 4.685;
/// Standard deviation of a normal variable to the median of its absolute values.
inline constexpr double kScaleOfMedian = 1.4826;

/// Huber's rho: beyond the limit a residual counts as if it were there.
[[nodiscard]] inline double huber_weight(double size, double limit) {
  return size > limit ? limit / size : 1;
}

/// Tukey's biweight: beyond the limit it does not count at all.
[[nodiscard]] inline double tukey_weight(double size, double limit) {
  const double inside = 1 - (size / limit) * (size / limit);
  return size < limit ? inside * inside : 0;
}

/// x at which sum weight (right - rows x)^2 is least.
[[nodiscard]] inline Vector weighted_solution(const Matrix& rows, const Vector& right,
                                              const Vector& weight) {
  const Vector root = weight.cwiseSqrt();
  return (root.asDiagonal() * rows).colPivHouseholderQr().solve(Vector(root.cwiseProduct(right)));
}

/// Samples that are not taken to miss independently of each other.
struct Kinds {
  std::vector<std::size_t> of;  ///< by sample
  std::size_t count = 0;
};

/// By kind, what its samples pull the solution by: the middle of the sandwich estimator (Liang and
/// Zeger 1986, Biometrika 73).
[[nodiscard]] inline Matrix scores_by_kind(const Matrix& rows, const Vector& residual,
                                           const Vector& weight, const Kinds& kinds) {
  Matrix sums = Matrix::Zero(static_cast<Eigen::Index>(kinds.count), rows.cols());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    sums.row(static_cast<Eigen::Index>(kinds.of[static_cast<std::size_t>(i)])) +=
        weight(i) * residual(i) * rows.row(i);
  }
  return sums;
}

}  // namespace zenflow::sim
