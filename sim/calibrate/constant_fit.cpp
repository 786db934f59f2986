#include "sim/calibrate/constant_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <Eigen/Dense>
#include <fmt/format.h>

namespace zenflow::sim {
namespace {

using Vector = Eigen::VectorXd;
using Matrix = Eigen::MatrixXd;
using Eigen::Index;

constexpr double kHuber = 1.345;  // 95 % efficient on normal residuals
constexpr double kTukey = 4.685;  // likewise
constexpr double kScaleOfMedian = 1.4826;
constexpr double kLeastScatter = 1e-4;
constexpr double kAssumedScatter = 0.05;
constexpr std::size_t kShowsItsScatter = 8;
constexpr double kDifference = 0.02;  // of a logarithm
constexpr int kIterations = 40;
constexpr int kDamped = 24;  // of those, at most with Huber's rho
constexpr double kFirstScatter = 0.3;
constexpr double kSettled = 1e-6;  // of a logarithm
constexpr double kLongestStep = 1;
constexpr double kLargestError = 0.25;
constexpr double kLargestFromBase = 0.03;
constexpr std::size_t kFewestSamples = 3;
constexpr double kDecides = 0.01;

double median_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

class ConstantFitter {
 public:
  ConstantFitter(const HardwareProfile& base, const std::vector<ProfileConstant>& constants,
                 const std::vector<TimedGroup>& groups)
      : base_(base), constants_(constants), groups_(groups) {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const double t : groups_[g].seconds) {
        measured_.push_back(t);
        group_of_.push_back(g);
      }
    }
    logs_ = Vector::Zero(static_cast<Index>(constants_.size()));
  }

  ConstantFit take() {
    if (!measured_.empty()) iterate();
    return result();
  }

 private:
  [[nodiscard]] HardwareProfile profile_at(const Vector& logs) const {
    HardwareProfile profile = base_;
    for (std::size_t c = 0; c < constants_.size(); ++c) {
      const double by = logs(static_cast<Index>(c));
      if (by != 0) constants_[c].set(profile, constants_[c].get(base_) * std::exp(by));
    }
    return profile;
  }

  [[nodiscard]] bool may_tell(const TimedGroup& group, std::size_t constant) const {
    return group.only.empty() || std::find(group.only.begin(), group.only.end(),
                                           constants_[constant].path) != group.only.end();
  }

  /// Of all groups; `constant`: only those that may tell it, zero in the others.
  [[nodiscard]] Vector predict(const Vector& logs, std::ptrdiff_t constant = -1) const {
    const HardwareProfile profile = profile_at(logs);
    Vector all = Vector::Zero(static_cast<Index>(measured_.size()));
    Index at = 0;
    for (const TimedGroup& group : groups_) {
      const auto size = static_cast<Index>(group.seconds.size());
      if (constant < 0 || may_tell(group, static_cast<std::size_t>(constant))) {
        const std::vector<double> times = group.predict(profile);
        all.segment(at, size) = Eigen::Map<const Vector>(times.data(), size);
      }
      at += size;
    }
    return all;
  }

  /// d log f / d log constant.
  [[nodiscard]] Matrix derivatives(const Vector& predicted) const {
    Matrix found(predicted.size(), logs_.size());
    for (Index c = 0; c < logs_.size(); ++c) {
      Vector moved = logs_;
      moved(c) += kDifference;
      const Vector more = predict(moved, c);
      moved(c) -= 2 * kDifference;
      const Vector less = predict(moved, c);
      found.col(c) = (more - less).cwiseQuotient(2 * kDifference * predicted);
    }
    return found;
  }

  [[nodiscard]] Vector residuals(const Vector& predicted) const {
    const auto size = static_cast<Index>(measured_.size());
    const Vector measured = Eigen::Map<const Vector>(measured_.data(), size);
    return (measured - predicted).cwiseQuotient(predicted);
  }

  /// The robust scatter of each group.
  [[nodiscard]] std::vector<double> scatters(const Vector& residual, double floor) const {
    std::vector<std::vector<double>> sizes(groups_.size());
    for (Index i = 0; i < residual.size(); ++i) {
      sizes[group_of_[static_cast<std::size_t>(i)]].push_back(std::abs(residual(i)));
    }
    std::vector<double> found;
    for (std::vector<double>& one : sizes) {
      const double least =
          std::max(floor, one.size() < kShowsItsScatter ? kAssumedScatter : kLeastScatter);
      found.push_back(one.empty() ? least : std::max(least, kScaleOfMedian * median_of(one)));
    }
    return found;
  }

  /// Of each span: rho's weight, divided by the scatter's square.
  [[nodiscard]] Vector weights(const Vector& residual, const std::vector<double>& scatter,
                               bool drops) const {
    Vector found(residual.size());
    for (Index i = 0; i < residual.size(); ++i) {
      const double sigma = scatter[group_of_[static_cast<std::size_t>(i)]];
      const double size = std::abs(residual(i)) / sigma;
      double weight = size > kHuber ? kHuber / size : 1;
      if (drops) {
        const double inside = 1 - (size / kTukey) * (size / kTukey);
        weight = size < kTukey ? inside * inside : 0;
      }
      found(i) = weight / (sigma * sigma);
    }
    return found;
  }

  /// The step to the minimum of the linearised problem.
  [[nodiscard]] Vector step_for(const Matrix& slope, const Vector& residual,
                                const Vector& weight) const {
    const Index spans = slope.rows();
    const Index count = slope.cols();
    Matrix rows(spans + count, count);
    Vector right(spans + count);
    const Vector root = weight.cwiseSqrt();
    rows.topRows(spans) = root.asDiagonal() * slope;
    right.head(spans) = root.cwiseProduct(residual);
    rows.bottomRows(count) = Matrix::Identity(count, count);
    right.tail(count) = -logs_;
    return rows.colPivHouseholderQr().solve(right);
  }

  [[nodiscard]] double cost(const Vector& logs, const Vector& weight) const {
    const Vector residual = residuals(predict(logs));
    return weight.cwiseProduct(residual).dot(residual) + logs.squaredNorm();
  }

  /// As much of `step` as lowers the cost.
  bool move(Vector step, const Vector& residual, const Vector& weight) {
    const double longest = step.cwiseAbs().maxCoeff();
    if (longest > kLongestStep) step *= kLongestStep / longest;
    const double now = weight.cwiseProduct(residual).dot(residual) + logs_.squaredNorm();
    constexpr int kHalvings = 6;
    for (int i = 0; i < kHalvings; ++i) {
      const Vector next = logs_ + step;
      if (cost(next, weight) <= now) {
        logs_ = next;
        return true;
      }
      step /= 2;
    }
    return false;
  }

  /// Scatters are taken for large at first, and for smaller from step to step: while the constants
  /// are far off, most spans may agree with values at which the others look like outliers.
  void iterate() {
    bool drops = false;
    double floor = kFirstScatter;
    for (int i = 0; i < kIterations; ++i) {
      const Vector predicted = predict(logs_);
      slope_ = derivatives(predicted);
      residual_ = residuals(predicted);
      scatter_ = scatters(residual_, floor);
      weight_ = weights(residual_, scatter_, drops);
      const Vector step = step_for(slope_, residual_, weight_);
      const bool moved = move(step, residual_, weight_);
      const bool settled = !moved || step.cwiseAbs().maxCoeff() < kSettled;
      const bool is_free = floor <= kLeastScatter;
      floor = std::max(kLeastScatter, floor / 2);
      if (!is_free) continue;
      if (settled && drops) return;
      if (settled || i >= kDamped) drops = true;
    }
  }

  [[nodiscard]] ConstantFit result() const {
    ConstantFit fit{base_, {}};
    const auto count = static_cast<Index>(constants_.size());
    Matrix covariance = Matrix::Identity(count, count);
    if (!measured_.empty()) {
      const Matrix normal = slope_.transpose() * weight_.asDiagonal() * slope_ + covariance;
      covariance = normal.ldlt().solve(Matrix::Identity(count, count));
    }
    const Matrix from_base = covariance * covariance;
    for (Index c = 0; c < count; ++c) {
      fit.estimates.push_back(estimate(c, covariance(c, c), from_base(c, c)));
      const ConstantEstimate& one = fit.estimates.back();
      if (one.determined) constants_[static_cast<std::size_t>(c)].set(fit.profile, one.value);
    }
    return fit;
  }

  [[nodiscard]] ConstantEstimate estimate(Index c, double variance, double from_base) const {
    const ProfileConstant& constant = constants_[static_cast<std::size_t>(c)];
    ConstantEstimate one;
    one.value = constant.get(base_);
    one.relative_error = std::sqrt(std::max(0.0, variance));
    one.from_base = std::sqrt(std::max(0.0, from_base));
    for (Index i = 0; i < residual_.size(); ++i) {
      if (std::abs(slope_(i, c)) > kDecides && weight_(i) > 0) ++one.samples;
    }
    if (one.samples == 0) {
      one.reason = "nothing in the traces depends on it";
    } else if (one.samples < kFewestSamples) {
      one.reason = fmt::format("only {} span{} on it", one.samples,
                               one.samples == 1 ? " depends" : "s depend");
    } else if (one.from_base > kLargestFromBase) {
      one.reason = "the traces do not tell it apart from other numbers";
    } else if (one.relative_error > kLargestError) {
      one.reason = fmt::format("known to {:.0f} % only", 100 * one.relative_error);
    }
    one.determined = one.reason.empty();
    if (one.determined) {
      one.value *= std::exp(logs_(c));
      describe(c, one);
    }
    return one;
  }

  /// The group that tells most of a constant: its residual, and of what sizes it was.
  void describe(Index c, ConstantEstimate& one) const {
    std::vector<double> told(groups_.size());
    for (Index i = 0; i < residual_.size(); ++i) {
      told[group_of_[static_cast<std::size_t>(i)]] += slope_(i, c) * slope_(i, c) * weight_(i);
    }
    const auto best =
        static_cast<std::size_t>(std::max_element(told.begin(), told.end()) - told.begin());
    const TimedGroup& group = groups_[best];
    double squares = 0;
    double sum = 0;
    double smallest = std::numeric_limits<double>::infinity();
    double largest = 0;
    std::size_t in_group = 0;
    for (Index i = 0; i < residual_.size(); ++i) {
      if (group_of_[static_cast<std::size_t>(i)] != best) continue;
      const double amount = group.amounts[in_group++];
      squares += weight_(i) * residual_(i) * residual_(i);
      sum += weight_(i);
      if (std::abs(slope_(i, c)) <= kDecides || weight_(i) == 0) continue;
      smallest = std::min(smallest, amount);
      largest = std::max(largest, amount);
    }
    one.residual = sum > 0 ? std::sqrt(squares / sum) : 0;
    one.told_by = group.what;
    if (largest > 0 && !group.amount_name.empty()) {
      one.range = fmt::format("{:.4g} to {:.4g} {}", smallest / group.amount_unit,
                              largest / group.amount_unit, group.amount_name);
    }
  }

  const HardwareProfile& base_;
  const std::vector<ProfileConstant>& constants_;
  const std::vector<TimedGroup>& groups_;
  std::vector<double> measured_;
  std::vector<std::size_t> group_of_;
  Vector logs_;
  Matrix slope_;
  Vector residual_;
  Vector weight_;
  std::vector<double> scatter_;
};

}  // namespace

ConstantFit fit_constants(const HardwareProfile& base,
                          const std::vector<ProfileConstant>& constants,
                          const std::vector<TimedGroup>& groups) {
  return ConstantFitter(base, constants, groups).take();
}

}  // namespace zenflow::sim
