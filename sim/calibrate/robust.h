/// What robust fits have in common: weights that limit what an outlier does, the linear problem of
/// an iteration, and standard errors where samples of one kind miss together. Fits iterate: solve
/// with the weights, weigh anew by the residuals (iteratively reweighted least squares).
///
/// Sees Eigen: for .cpp files of this folder. What takes a minute to compile (products, solvers) is
/// in robust.cpp.
#pragma once

#include <cstddef>
#include <vector>

#include <Eigen/Core>

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
[[nodiscard]] Vector weighted_solution(const Matrix& rows, const Vector& right,
                                       const Vector& weight);

/// The same where x is drawn towards zero with weight one: the inverse of its normal matrix.
[[nodiscard]] Matrix drawn_covariance(const Matrix& rows, const Vector& weight);

/// The standard error of each unknown by the sandwich estimate: residuals are taken for
/// independent, not for equally large. HC3 of MacKinnon & White 1985, as a few long times may
/// decide alone and are then met closely. Infinite where the rows leave an unknown open, zero where
/// they leave no residual to judge by.
[[nodiscard]] Vector standard_errors(const Matrix& rows, const Vector& residual,
                                     const Vector& weight);

/// Samples that are not taken to miss independently of each other.
struct Kinds {
  std::vector<std::size_t> of;  ///< by sample
  std::size_t count = 0;
};

/// The variance of each unknown where samples of a kind miss together, with the `covariance` that
/// they have where each misses alone: the sandwich estimator of Liang and Zeger 1986 (Biometrika
/// 73).
[[nodiscard]] Vector variances_by_kind(const Matrix& rows, const Vector& residual,
                                       const Vector& weight, const Kinds& kinds,
                                       const Matrix& covariance);

/// The standard error of each unknown where samples of a kind miss together, corrected for few
/// kinds. Zero where these do not tell.
[[nodiscard]] Vector standard_errors_by_kind(const Matrix& rows, const Vector& residual,
                                             const Vector& weight, const Kinds& kinds);

}  // namespace zenflow::sim
