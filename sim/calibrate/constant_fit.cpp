#include "sim/calibrate/constant_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "sim/base/median.h"
#include "sim/calibrate/robust.h"

namespace zenflow::sim {
namespace {

using Eigen::Index;

constexpr double kLeastScatter = 1e-4;
constexpr double kAssumedScatter = 0.05;
constexpr std::size_t kShowsItsScatter = 8;
constexpr double kDifference = 0.02;  // of a logarithm
constexpr int kIterations = 40;
constexpr int kDamped = 24;  // of those, at most with Huber's rho
constexpr double kFirstScatter = 0.3;
constexpr double kFirstBaseWeight = 0.01;  // what is far from the base is found first
constexpr double kSettled = 1e-6;          // of a logarithm
constexpr double kLongestStep = 1;
constexpr double kLargestError = 0.25;
constexpr double kLargestFromBase = 0.03;
constexpr std::size_t kFewestSamples = 3;
constexpr double kDecides = 0.01;
constexpr double kBounds = 0.1;  // the same of a capacity: not where it is just large enough
constexpr double kDamps = 0.5;   // of a weight

double least_scatter(std::size_t spans, double floor) {
  return std::max(floor, spans < kShowsItsScatter ? kAssumedScatter : kLeastScatter);
}

/// What of the residuals the clock does not explain: s at which the median of
/// |residual| / sqrt(s^2 + clock^2) is a normal one's. Where the clock explains some better than
/// others, of the half that it explains least.
double scatter_of(std::vector<double> sizes, std::vector<double> clock, double floor) {
  double least = least_scatter(sizes.size(), floor);
  if (sizes.empty()) return least;
  constexpr double kNothing = 0.01;  // beside the least scatter
  const double fine = std::max(kLeastScatter, kNothing * least);
  if (std::all_of(clock.begin(), clock.end(), [fine](double one) { return one <= fine; })) {
    return std::max(least, kScaleOfMedian * upper_median(std::move(sizes)));
  }
  std::vector<double> sorted = clock;
  std::sort(sorted.begin(), sorted.end());
  const double middle = sorted[(sorted.size() - 1) / 2];
  std::size_t kept = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (clock[i] > middle) continue;
    sizes[kept] = sizes[i];
    clock[kept++] = clock[i];
  }
  sizes.resize(kept);
  least = least_scatter(kept, floor);
  const auto is_enough = [&](double scatter) {
    std::vector<double> normed(kept);
    for (std::size_t i = 0; i < kept; ++i) normed[i] = sizes[i] / std::hypot(scatter, clock[i]);
    return kScaleOfMedian * upper_median(std::move(normed)) <= 1;
  };
  if (is_enough(least)) return least;
  double low = least;
  double high = std::max(least, kScaleOfMedian * upper_median(sizes));
  constexpr int kHalvings = 20;
  for (int i = 0; i < kHalvings; ++i) {
    const double between = (low + high) / 2;
    (is_enough(between) ? high : low) = between;
  }
  return high;
}

/// "0.4 to 6.4 MB"; in two parts where what lies between was not taken.
std::string range_of(const TimedGroup& group, const std::vector<double>& amounts) {
  if (amounts.empty() || group.amount_name.empty()) return "";
  const auto part = [&](double from, double to) {
    double smallest = std::numeric_limits<double>::infinity();
    double largest = 0;
    for (const double one : amounts) {
      if (one < from || one > to) continue;
      smallest = std::min(smallest, one);
      largest = std::max(largest, one);
    }
    if (smallest > largest) return std::string();
    return fmt::format("{:.4g} to {:.4g}", smallest / group.amount_unit,
                       largest / group.amount_unit);
  };
  constexpr double kAny = std::numeric_limits<double>::infinity();
  const double below = group.untaken ? group.untaken->first : kAny;
  const std::string lower = part(0, below);
  const std::string upper = group.untaken ? part(below, kAny) : "";
  const char* between = lower.empty() || upper.empty() ? "" : " and ";
  return fmt::format("{}{}{} {}", lower, between, upper, group.amount_name);
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
      clock_errors_.insert(clock_errors_.end(), groups_[g].clock_errors.begin(),
                           groups_[g].clock_errors.end());
      clock_errors_.resize(measured_.size());
      add_kinds(groups_[g]);
    }
    logs_ = Vector::Zero(static_cast<Index>(constants_.size()));
    slope_ = Matrix::Zero(0, logs_.size());
  }

  ConstantFit take() {
    if (!measured_.empty()) {
      static_cast<void>(lower_idle([](const auto& one) { return one.is_capacity; }));
      iterate();
      if (lower_idle([](const auto& one) { return one.is_capacity || one.may_be_idle; })) iterate();
    }
    return result();
  }
  /// Whether any span depends on it, however little. After take().
  [[nodiscard]] bool has_effect(std::size_t constant) const {
    return slope_.size() > 0 && !slope_.col(static_cast<Index>(constant)).isZero(0);
  }

 private:
  /// Spans of one amount are of one kind; each is of its own where the amounts are the times.
  void add_kinds(const TimedGroup& group) {
    const bool each_its_own = group.amounts == group.seconds;
    std::map<double, std::size_t> known;
    for (const double amount : group.amounts) {
      const auto [entry, is_new] = known.try_emplace(amount, kinds_.count);
      kinds_.of.push_back(each_its_own ? kinds_.count : entry->second);
      if (is_new || each_its_own) ++kinds_.count;
    }
  }

  /// Where the search begins.
  [[nodiscard]] double first_value(std::size_t constant) const {
    const double stated = constants_[constant].get(base_);
    return stated > 0 ? stated : constants_[constant].unstated;
  }

  [[nodiscard]] HardwareProfile profile_at(const Vector& logs) const {
    HardwareProfile profile = base_;
    for (std::size_t c = 0; c < constants_.size(); ++c) {
      const double by = logs(static_cast<Index>(c));
      const double first = first_value(c);
      if (by != 0 || first != constants_[c].get(base_)) {
        constants_[c].set(profile, first * std::exp(by));
      }
    }
    return profile;
  }

  [[nodiscard]] bool may_tell(const TimedGroup& group, std::size_t constant) const {
    return group.only.empty() || std::find(group.only.begin(), group.only.end(),
                                           constants_[constant].path) != group.only.end();
  }

  /// The times of all groups; with a `constant`, only of those that can identify it, and zero in
  /// the others.
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

  /// d log f / d log constant; of a capacity towards larger ones. Where it is just large enough it
  /// bounds nothing, and times say no more of it.
  [[nodiscard]] Matrix derivatives(const Vector& predicted) const {
    Matrix found(predicted.size(), logs_.size());
    for (Index c = 0; c < logs_.size(); ++c) {
      Vector moved = logs_;
      moved(c) += kDifference;
      const Vector more = predict(moved, c);
      if (constants_[static_cast<std::size_t>(c)].is_capacity) {
        found.col(c) = slope_upwards(more, predicted, static_cast<std::size_t>(c));
        continue;
      }
      moved(c) -= 2 * kDifference;
      const Vector less = predict(moved, c);
      found.col(c) = (more - less).cwiseQuotient(2 * kDifference * predicted);
    }
    return found;
  }

  [[nodiscard]] Vector slope_upwards(const Vector& more, const Vector& predicted,
                                     std::size_t constant) const {
    Vector found = (more - predicted).cwiseQuotient(kDifference * predicted);
    for (Index i = 0; i < found.size(); ++i) {
      if (!may_tell(groups_[group_of_[static_cast<std::size_t>(i)]], constant)) found(i) = 0;
    }
    return found;
  }

  /// Relative; beyond twice the prediction, where slopes are of logarithms, a logarithm: a time of
  /// forty times the prediction would else count as forty times as uncertain, and say nothing.
  [[nodiscard]] Vector residuals(const Vector& predicted) const {
    const auto size = static_cast<Index>(measured_.size());
    const Vector measured = Eigen::Map<const Vector>(measured_.data(), size);
    return (measured - predicted).cwiseQuotient(predicted).unaryExpr([](double off) {
      return off > 1 ? 1 + std::log(off) : off;
    });
  }

  /// The robust scatter of each group, besides the clock's.
  [[nodiscard]] std::vector<double> scatters(const Vector& residual, const Vector& clock,
                                             double floor) const {
    std::vector<std::vector<double>> sizes(groups_.size());
    std::vector<std::vector<double>> clocks(groups_.size());
    for (Index i = 0; i < residual.size(); ++i) {
      const std::size_t group = group_of_[static_cast<std::size_t>(i)];
      sizes[group].push_back(std::abs(residual(i)));
      clocks[group].push_back(clock(i));
    }
    std::vector<double> found;
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      found.push_back(scatter_of(std::move(sizes[g]), std::move(clocks[g]), floor));
    }
    return found;
  }

  /// The standard deviation of each span: scatter and the clock's error together.
  [[nodiscard]] Vector sigmas(const Vector& residual, const Vector& predicted, double floor) const {
    const Vector clock =
        Eigen::Map<const Vector>(clock_errors_.data(), predicted.size()).cwiseQuotient(predicted);
    const std::vector<double> scatter = scatters(residual, clock, floor);
    Vector found(residual.size());
    for (Index i = 0; i < residual.size(); ++i) {
      found(i) = std::hypot(scatter[group_of_[static_cast<std::size_t>(i)]], clock(i));
    }
    return found;
  }

  /// The weight that the robust loss gives to each span.
  [[nodiscard]] static Vector shares(const Vector& residual, const Vector& sigma, bool drops) {
    Vector found(residual.size());
    for (Index i = 0; i < residual.size(); ++i) {
      const double size = std::abs(residual(i)) / sigma(i);
      found(i) = drops ? tukey_weight(size, kTukey) : huber_weight(size, kHuber);
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
    Vector weights = Vector::Ones(spans + count);
    rows.topRows(spans) = slope;
    right.head(spans) = residual;
    weights.head(spans) = weight;
    weights.tail(count) *= base_weight_;
    rows.bottomRows(count) = Matrix::Identity(count, count);
    right.tail(count) = -logs_;
    return weighted_solution(rows, right, weights);
  }

  [[nodiscard]] double cost(const Vector& logs, const Vector& weight) const {
    const Vector residual = residuals(predict(logs));
    return weight.cwiseProduct(residual).dot(residual) + base_weight_ * logs.squaredNorm();
  }

  /// As much of `step` as lowers the cost.
  bool move(Vector step, const Vector& residual, const Vector& weight) {
    const double longest = step.cwiseAbs().maxCoeff();
    if (longest > kLongestStep) step *= kLongestStep / longest;
    const double now =
        weight.cwiseProduct(residual).dot(residual) + base_weight_ * logs_.squaredNorm();
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

  /// With only `constant` moved, in the groups that may identify it.
  [[nodiscard]] Vector moved(const Vector& now, std::size_t constant, double factor) const {
    Vector logs = logs_;
    logs(static_cast<Index>(constant)) = std::log(factor);
    Vector found = predict(logs, static_cast<std::ptrdiff_t>(constant));
    for (Index i = 0; i < found.size(); ++i) {
      if (!may_tell(groups_[group_of_[static_cast<std::size_t>(i)]], constant)) found(i) = now(i);
    }
    return found;
  }

  /// Capacities that bound nothing have no slope there: lower ones are tried, of each in turn,
  /// until none is better. Whether one was.
  template <class Which>
  [[nodiscard]] bool lower_idle(Which which) {
    constexpr double kLowest = 0.02;
    constexpr double kFinest = 0.8;
    constexpr double kNotable = 0.999;
    constexpr int kMostTurns = 8;
    std::vector<std::size_t> idle;
    const Vector predicted = predict(logs_);
    for (std::size_t c = 0; c < constants_.size(); ++c) {
      const bool is_idle = which(constants_[c]) && moved(predicted, c, kFinest) == predicted &&
                           moved(predicted, c, kLowest) != predicted;
      if (is_idle) idle.push_back(c);
    }
    bool is_lower = false;
    // Not the squares: most spans may be far off yet.
    double least = residuals(predicted).cwiseAbs().sum();
    for (int turn = 0; turn < kMostTurns; ++turn) {
      const double before = least;
      for (const std::size_t c : idle) {
        const double first = logs_(static_cast<Index>(c));
        double best = first;
        const Vector now = predict(logs_);
        for (double factor = 1; factor > kLowest; factor *= kFinest) {
          const double found = residuals(moved(now, c, factor)).cwiseAbs().sum();
          if (found >= kNotable * least) continue;
          least = found;
          best = std::log(factor);
        }
        logs_(static_cast<Index>(c)) = best;
        is_lower = is_lower || best != first;
      }
      if (least == before) break;
    }
    return is_lower;
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
      base_weight_ = floor > kLeastScatter ? kFirstBaseWeight : 1;
      const Vector sigma = sigmas(residual_, predicted, floor);
      share_ = shares(residual_, sigma, drops);
      weight_ = share_.cwiseQuotient(sigma.cwiseAbs2());
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
    if (!measured_.empty()) covariance = drawn_covariance(slope_, weight_);
    // A thousand equal kernels that a formula misses by 5 % are off by 5 %.
    const Vector by_kind = variances_by_kind(slope_, residual_, weight_, kinds_, covariance);
    for (Index c = 0; c < count; ++c) {
      const double from_base = covariance.row(c).dot(covariance.col(c));
      fit.estimates.push_back(estimate(c, std::max(covariance(c, c), by_kind(c)), from_base));
    }
    leave_ambiguous_capacities(fit.estimates);
    for (std::size_t c = 0; c < constants_.size(); ++c) {
      const ConstantEstimate& one = fit.estimates[c];
      if (one.identifiable) constants_[c].set(fit.profile, one.value);
    }
    return fit;
  }

  /// Capacities whose isolated rate is not known are not known either.
  void leave_ambiguous_capacities(std::vector<ConstantEstimate>& estimates) const {
    for (std::size_t c = 0; c < constants_.size(); ++c) {
      for (std::size_t other = 0; other < constants_.size(); ++other) {
        const bool is_unknown = constants_[other].path == constants_[c].isolated &&
                                estimates[c].identifiable && !estimates[other].identifiable;
        if (!is_unknown) continue;
        estimates[c].identifiable = false;
        estimates[c].value = constants_[c].get(base_);
        estimates[c].reason = "what one gets alone is not known: it may be that which is seen";
      }
    }
  }

  [[nodiscard]] bool decides(Index span, Index constant) const {
    const bool bounds = constants_[static_cast<std::size_t>(constant)].is_capacity;
    return std::abs(slope_(span, constant)) > (bounds ? kBounds : kDecides);
  }

  [[nodiscard]] ConstantEstimate estimate(Index c, double variance, double from_base) const {
    const ProfileConstant& constant = constants_[static_cast<std::size_t>(c)];
    ConstantEstimate one;
    one.value = constant.get(base_);
    one.relative_error = std::sqrt(std::max(0.0, variance));
    one.from_base = std::sqrt(std::max(0.0, from_base));
    for (Index i = 0; i < residual_.size(); ++i) {
      if (!decides(i, c)) continue;
      ++(share_(i) > 0 ? one.samples : one.set_aside);
      if (share_(i) > 0 && share_(i) < kDamps) ++one.damped;
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
    one.identifiable = one.reason.empty();
    if (one.identifiable) {
      one.value = first_value(static_cast<std::size_t>(c)) * std::exp(logs_(c));
      describe(c, one);
    }
    return one;
  }

  /// The group that a constant decides most: its residual, and of what sizes it was.
  void describe(Index c, ConstantEstimate& one) const {
    std::vector<double> information(groups_.size());
    for (Index i = 0; i < residual_.size(); ++i) {
      information[group_of_[static_cast<std::size_t>(i)]] +=
          slope_(i, c) * slope_(i, c) * weight_(i);
    }
    const auto best = static_cast<std::size_t>(
        std::max_element(information.begin(), information.end()) - information.begin());
    const TimedGroup& group = groups_[best];
    double squares = 0;
    double sum = 0;
    std::vector<double> amounts;
    std::size_t in_group = 0;
    for (Index i = 0; i < residual_.size(); ++i) {
      if (group_of_[static_cast<std::size_t>(i)] != best) continue;
      const double amount = group.amounts[in_group++];
      squares += weight_(i) * residual_(i) * residual_(i);
      sum += weight_(i);
      if (decides(i, c) && share_(i) >= kDamps) amounts.push_back(amount);
    }
    one.residual = sum > 0 ? std::sqrt(squares / sum) : 0;
    one.group = group.what;
    one.range = range_of(group, amounts);
  }

  const HardwareProfile& base_;
  const std::vector<ProfileConstant>& constants_;
  const std::vector<TimedGroup>& groups_;
  std::vector<double> measured_;
  std::vector<std::size_t> group_of_;
  std::vector<double> clock_errors_;
  Kinds kinds_;
  double base_weight_ = 1;  ///< of the base's values, beside spans
  Vector logs_;
  Matrix slope_;
  Vector residual_;
  Vector share_;
  Vector weight_;
};

}  // namespace

ConstantFit fit_constants(const HardwareProfile& base,
                          const std::vector<ProfileConstant>& constants,
                          const std::vector<TimedGroup>& groups) {
  ConstantFitter fitter(base, constants, groups);
  ConstantFit all = fitter.take();
  // What the profile does not state and the spans do not identify has no part in the others.
  std::vector<ProfileConstant> kept;
  std::vector<std::size_t> places;
  bool drops = false;
  for (std::size_t c = 0; c < constants.size(); ++c) {
    const bool is_missing = constants[c].get(base) <= 0 && !all.estimates[c].identifiable;
    drops = drops || (is_missing && fitter.has_effect(c));
    if (is_missing) continue;
    kept.push_back(constants[c]);
    places.push_back(c);
  }
  if (!drops) return all;
  if (kept.empty()) {
    all.profile = base;
    return all;
  }
  ConstantFit rest = ConstantFitter(base, kept, groups).take();
  all.profile = std::move(rest.profile);
  for (std::size_t i = 0; i < places.size(); ++i) {
    all.estimates[places[i]] = std::move(rest.estimates[i]);
  }
  return all;
}

}  // namespace zenflow::sim
