#include "sim/calibrate/regression.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "sim/base/median.h"
#include "sim/calibrate/robust.h"

namespace zenflow::sim {
namespace {

constexpr double kLargestRelativeError = 0.25;
constexpr int kIterations = 50;
constexpr std::size_t kCommon = 5;  // times of one kind that show their own outliers

/// What `fit_times` minimises over the units that are open.
struct Problem {
  Matrix work;    ///< of each time, by open unit, each column of length 1
  Vector known;   ///< seconds of each time that are not open
  Vector times;   ///< measured seconds
  Vector likely;  ///< seconds that each time was expected to be, of a like size as the fitted ones
  Vector within;  ///< rho's weights among times of a kind that is common; NaN: of others
  Kinds kinds;    ///< times of equal work: what fits them badly fits all of them badly
};

struct Solution {
  Vector value;
  Vector standard_error;
  Vector error_by_kind;
  double residual = 0;
  Vector weight;
};

Kinds kinds_of(std::span<const TimedWork> times) {
  Kinds kinds;  ///< times of equal work: what fits them badly fits all of them badly
  std::map<std::pair<std::vector<double>, double>, std::size_t> known;
  for (const TimedWork& one : times) {
    const auto [at, is_new] = known.try_emplace({one.work, one.known}, kinds.count);
    kinds.count += is_new ? 1 : 0;
    kinds.of.push_back(at->second);
  }
  return kinds;
}

/// The middle of the shortest interval that holds half of the values: what most agree on, even if
/// as many others are far off. Sorts them.
double middle_of_shortest_half(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = (values.size() + 1) / 2;
  std::size_t best = 0;
  for (std::size_t i = 0; i + half <= values.size(); ++i) {
    if (values[i + half - 1] - values[i] < values[best + half - 1] - values[best]) best = i;
  }
  return (values[best] + values[best + half - 1]) / 2;
}

/// Weights by kind: kCommon times or more of one kind say themselves which of them are outliers.
/// NaN for rarer kinds.
Vector weights_within(std::span<const TimedWork> times, const Kinds& kinds) {
  constexpr double kLeastLimit = 1e-9;  // where half of the times are equal
  std::vector<std::vector<std::size_t>> members(kinds.count);
  for (std::size_t i = 0; i < times.size(); ++i) members[kinds.of[i]].push_back(i);
  Vector weights = Vector::Constant(static_cast<Eigen::Index>(times.size()),
                                    std::numeric_limits<double>::quiet_NaN());
  for (const std::vector<std::size_t>& kind : members) {
    if (kind.size() < kCommon) continue;
    std::vector<double> logs;
    for (const std::size_t i : kind) logs.push_back(std::log(times[i].seconds));
    const double middle = middle_of_shortest_half(logs);
    for (double& one : logs) one = std::abs(one - middle);
    std::sort(logs.begin(), logs.end());
    const double scale = kScaleOfMedian * logs[(logs.size() - 1) / 2];
    const double limit = std::max(kLeastLimit, kHuber * scale);
    for (const std::size_t i : kind) {
      weights(static_cast<Eigen::Index>(i)) =
          huber_weight(std::abs(std::log(times[i].seconds) - middle), limit);
    }
  }
  return weights;
}

/// Fills in the weights of rare kinds: their outliers are those far from what is fitted to all.
Vector weights(const Problem& problem, const Vector& residual) {
  std::vector<double> sizes(static_cast<std::size_t>(residual.size()));
  for (Eigen::Index r = 0; r < residual.size(); ++r) {
    sizes[static_cast<std::size_t>(r)] = std::abs(residual(r));
  }
  const double scale = upper_median(sizes);
  const double limit =
      scale > 0 ? kHuber * kScaleOfMedian * scale : std::numeric_limits<double>::infinity();
  Vector weight = problem.within;
  for (Eigen::Index r = 0; r < residual.size(); ++r) {
    if (std::isnan(weight(r))) weight(r) = huber_weight(std::abs(residual(r)), limit);
  }
  return weight;
}

/// What is fitted, in seconds. Where that is next to nothing, or less, a part of what was measured,
/// since no time is.
Vector fitted(const Problem& problem, const Vector& value) {
  constexpr double kLeast = 0.1;
  return (problem.known + problem.work * value).cwiseMax(kLeast * problem.times);
}

/// Gauss-Newton: f (1 + log(t / f)) is where log(t / f) is zero to first order.
Solution solve(const Problem& problem) {
  Vector rho = problem.within.array().isNaN().select(1.0, problem.within);
  Vector weight = problem.likely.cwiseProduct(rho) / problem.likely.mean();
  Vector value = Vector::Zero(problem.work.cols());
  Vector scale = problem.likely;
  Vector wanted = problem.times;
  Vector residual;
  Matrix rows;
  for (int i = 0; i < kIterations; ++i) {
    rows = scale.cwiseInverse().asDiagonal() * problem.work;
    const Vector right = (wanted - problem.known).cwiseQuotient(scale);
    const Vector next = weighted_solution(rows, right, weight);
    const double change = (next - value).norm();
    value = next;
    scale = fitted(problem, value);
    residual = problem.times.cwiseQuotient(scale).array().log();
    wanted = scale.cwiseProduct((residual.array() + 1).matrix());
    rho = weights(problem, residual);
    weight = scale.cwiseProduct(rho) / scale.mean();
    if (change <= 1e-12 * value.norm()) break;
  }
  const double sum = residual.cwiseProduct(weight).dot(residual);
  return {value, standard_errors(rows, residual, weight),
          standard_errors_by_kind(rows, residual, weight, problem.kinds),
          std::sqrt(sum / weight.sum()), rho};
}

/// The times as the given units have them, all as many times as long as most of them say; or
/// longer, where one is. A few that are far too short then do not decide where the fit begins:
/// divided by themselves they would weigh more than all others.
Vector likely_times(std::span<const TimedWork> times, std::span<const double> given) {
  const auto samples = static_cast<Eigen::Index>(times.size());
  Vector likely(samples);
  std::vector<double> longer;
  for (Eigen::Index r = 0; r < samples; ++r) {
    const TimedWork& one = times[static_cast<std::size_t>(r)];
    likely(r) = one.known;
    for (std::size_t c = 0; c < given.size(); ++c) likely(r) += one.work[c] * given[c];
    if (likely(r) > 0) longer.push_back(one.seconds / likely(r));
  }
  const double factor = longer.empty() ? 1 : upper_median(longer);
  for (Eigen::Index r = 0; r < samples; ++r) {
    likely(r) = std::max(factor * likely(r), times[static_cast<std::size_t>(r)].seconds);
  }
  return likely;
}

/// How little the times say about a unit; above kLargestRelativeError: nothing.
double doubt(double value, double standard_error) {
  if (!(value > 0) || !std::isfinite(standard_error)) {
    return std::numeric_limits<double>::infinity();
  }
  return standard_error / value;
}

TimeFit fit_units(std::span<const TimedWork> times, std::span<const double> given, Misses misses) {
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
  const Kinds kinds = kinds_of(times);
  Problem problem{Matrix(),
                  Vector(samples),
                  Vector(samples),
                  likely_times(times, given),
                  weights_within(times, kinds),
                  kinds};
  while (true) {
    problem.work.resize(samples, static_cast<Eigen::Index>(open.size()));
    for (Eigen::Index r = 0; r < samples; ++r) {
      const TimedWork& one = times[static_cast<std::size_t>(r)];
      problem.times(r) = one.seconds;
      problem.known(r) = one.known;
      for (std::size_t c = 0; c < given.size(); ++c) {
        if (std::find(open.begin(), open.end(), c) == open.end()) {
          problem.known(r) += one.work[c] * given[c];
        }
      }
      for (std::size_t i = 0; i < open.size(); ++i) {
        problem.work(r, static_cast<Eigen::Index>(i)) = one.work[open[i]];
      }
    }
    if (open.empty()) {
      fit.weights.assign(times.size(), 1);
      const Vector residual = problem.times.cwiseQuotient(fitted(problem, Vector(0))).array().log();
      fit.residual = std::sqrt(residual.squaredNorm() / static_cast<double>(samples));
      return fit;
    }
    // Columns of a like size: bytes and calls differ by nine orders of magnitude.
    const Vector size =
        (problem.likely.cwiseInverse().asDiagonal() * problem.work).colwise().norm();
    problem.work *= size.cwiseInverse().asDiagonal();
    const Solution solved = solve(problem);
    fit.residual = solved.residual;
    fit.weights.assign(solved.weight.begin(), solved.weight.end());
    std::size_t worst = 0;
    double worst_doubt = -1;
    for (std::size_t i = 0; i < open.size(); ++i) {
      const auto at = static_cast<Eigen::Index>(i);
      UnitTime& unit = fit.units[open[i]];
      unit = {solved.value(at) / size(at), solved.standard_error(at) / size(at), true};
      unit.error_by_kind = solved.error_by_kind(at) / size(at);
      double error = unit.standard_error;
      if (misses == Misses::kByKind) {
        error = open.size() > 1 && kinds.count <= open.size()
                    ? std::numeric_limits<double>::infinity()
                    : std::max(error, unit.error_by_kind);
      }
      const double one = doubt(unit.value, error);
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

TimeFit fit_times(std::span<const TimedWork> times, std::span<const double> given, Misses misses) {
  TimeFit fit = fit_units(times, given, misses);
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
