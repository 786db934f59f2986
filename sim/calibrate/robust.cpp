#include "sim/calibrate/robust.h"

#include <limits>

#include <Eigen/Dense>

namespace zenflow::sim {
namespace {

Matrix normal_matrix(const Matrix& rows, const Vector& weight) {
  return rows.transpose() * weight.asDiagonal() * rows;
}

/// By kind, what its samples pull the solution by: the middle of the sandwich.
Matrix scores_by_kind(const Matrix& rows, const Vector& residual, const Vector& weight,
                      const Kinds& kinds) {
  Matrix sums = Matrix::Zero(static_cast<Eigen::Index>(kinds.count), rows.cols());
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    sums.row(static_cast<Eigen::Index>(kinds.of[static_cast<std::size_t>(i)])) +=
        weight(i) * residual(i) * rows.row(i);
  }
  return sums;
}

}  // namespace

Vector weighted_solution(const Matrix& rows, const Vector& right, const Vector& weight) {
  const Vector root = weight.cwiseSqrt();
  return (root.asDiagonal() * rows).colPivHouseholderQr().solve(Vector(root.cwiseProduct(right)));
}

Matrix drawn_covariance(const Matrix& rows, const Vector& weight) {
  const Matrix one = Matrix::Identity(rows.cols(), rows.cols());
  const Matrix normal = normal_matrix(rows, weight) + one;
  return normal.ldlt().solve(one);
}

Vector standard_errors(const Matrix& rows, const Vector& residual, const Vector& weight) {
  const Eigen::Index units = rows.cols();
  const Eigen::FullPivLU<Matrix> normal(normal_matrix(rows, weight));
  if (!normal.isInvertible()) {
    return Vector::Constant(units, std::numeric_limits<double>::infinity());
  }
  // A sample or two that are met exactly leave no residual to judge by.
  if (rows.rows() <= units) return Vector::Zero(units);
  const Matrix bread = normal.inverse();
  const double least = 1 / static_cast<double>(rows.rows());
  const Vector leverage = weight.cwiseProduct((rows * bread).cwiseProduct(rows).rowwise().sum());
  const Vector left = (1 - leverage.array()).max(least).matrix();
  const Matrix scores = weight.cwiseProduct(residual).cwiseQuotient(left).asDiagonal() * rows;
  const Matrix covariance = bread * scores.transpose() * scores * bread;
  return covariance.diagonal().cwiseMax(0.0).cwiseSqrt();
}

Vector variances_by_kind(const Matrix& rows, const Vector& residual, const Vector& weight,
                         const Kinds& kinds, const Matrix& covariance) {
  const Matrix sums = scores_by_kind(rows, residual, weight, kinds);
  return (sums * covariance).colwise().squaredNorm().transpose();
}

Vector standard_errors_by_kind(const Matrix& rows, const Vector& residual, const Vector& weight,
                               const Kinds& kinds) {
  const Eigen::Index units = rows.cols();
  const auto count = static_cast<Eigen::Index>(kinds.count);
  const Eigen::FullPivLU<Matrix> normal(normal_matrix(rows, weight));
  if (count <= units || !normal.isInvertible()) return Vector::Zero(units);
  const double few = static_cast<double>(count) / static_cast<double>(count - units);
  return (few * variances_by_kind(rows, residual, weight, kinds, normal.inverse())).cwiseSqrt();
}

}  // namespace zenflow::sim
