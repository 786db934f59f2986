/// Robust least squares for times: how long a unit of each kind of work takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace zenflow::sim {

/// One measured time, and the amounts of work in it: bytes, FLOPs, calls.
struct TimedWork {
  std::vector<double> work;
  double seconds = 0;
  double known = 0;  ///< seconds of it that other work takes, known from elsewhere
};

/// What a unit of one kind of work takes, in seconds.
struct UnitTime {
  double value = 0;
  double standard_error = 0;
  bool identifiable = false;  ///< identifiable; else `value` is what was given
  std::size_t samples = 0;    ///< times with such work
  std::size_t damped = 0;     ///< of those: rho leaves them less than half of their weight
  /// The standard error if times of equal work miss together, as they do where the formula is not
  /// the machine's. 0 if there are no more kinds of work than units, which then meet all of them.
  double error_by_kind = 0;
};

struct TimeFit {
  std::vector<UnitTime> units;
  std::size_t samples = 0;
  double residual = 0;            ///< root mean square of log(measured / fitted), outliers damped
  std::vector<double> weights{};  ///< rho's, of each time
};

/// Below this a time is damped: an outlier, no part of the range of validity.
inline constexpr double kDampedWeight = 0.5;

/// What residuals are taken for, where a unit is judged: independent, or alike in times of equal
/// work, as they are where the formula is not the machine's.
enum class Misses : std::uint8_t { kAlone, kByKind };

/// Minimises sum f rho(log(t / f)), f = known + work . unit, with Huber's rho, by iteratively
/// reweighted least squares. Ratios, because too short and too long by one factor are equally
/// wrong: relative to what was measured, a span that is far too short (a copy that an emulated link
/// lets catch up) would weigh more than all others. Weighted by length, because what is predicted
/// with the units is a sum of such times: where f fits two kinds of work badly, one too long and
/// one too short, their sum is right. Huber's, because an interrupted span is longer by far. Times
/// of equal work, where they are five or more, are held against each other for that: a kind that f
/// fits badly is no outlier. What is slowed by others is not corrected: it belongs to the machine
/// as it was used. `given` says only where to begin.
///
/// A unit whose standard error exceeds a quarter of its value, or whose value is not above zero, is
/// not determined by the times; the worst of them takes its value from `given` and the others are
/// fitted anew. Standard errors take the residuals for independent, whatever the size of each;
/// with Misses::kByKind a unit's error_by_kind must be within the quarter, too, and no more kinds
/// of work than units, which then meet all of them, tell none of several. Precondition: every
/// `work` has given.size() amounts. No times: nothing is determined.
[[nodiscard]] TimeFit fit_times(std::span<const TimedWork> times, std::span<const double> given,
                                Misses misses = Misses::kAlone);

}  // namespace zenflow::sim
