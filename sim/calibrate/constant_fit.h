/// A profile's constants from measured times, whatever formula leads from the one to the other.
///
///   minimise  sum over spans of rho(((t - f) / f) / sigma)  +  sum over constants of x^2
///
/// with t measured, f predicted, sigma^2 = s^2 + (c / f)^2, s the robust scatter of the span's
/// group, c what the recording clock's resolution adds to the span's length, x the logarithm of a
/// constant over its base value. Gauss-Newton with numerical derivatives; rho is Huber's until it
/// has converged, then Tukey's biweight: an interrupted span is left out and not only damped.
///
/// The second sum says that the base profile may be wrong by a factor e. It weighs nothing on a
/// constant that the spans identify; one that they do not identify stays as it is; and where they
/// identify only a combination of several, none of these is taken for known: see
/// ConstantEstimate::from_base.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sim/calibrate/profile_constants.h"

namespace zenflow::sim {

/// Measured times that scatter alike and are predicted by one formula.
struct TimedGroup {
  std::string what;             ///< "products by shape"
  std::vector<double> seconds;  ///< measured, above zero
  std::vector<double> amounts;  ///< of each, for the range of validity
  double amount_unit = 1;       ///< what `amounts` are divided by to be shown
  std::string amount_name;      ///< "MB"
  /// Seconds that a machine with this profile takes, of the same length; above zero.
  std::function<std::vector<double>(const HardwareProfile&)> predict;
  std::vector<std::string> only{};  ///< constants that it may identify; empty: all
  /// Seconds, standard deviation, that rounding to the clock's ticks adds to each; empty: none.
  std::vector<double> clock_errors{};
  /// Amounts between these were not taken: no part of the range of validity.
  std::optional<std::pair<double, double>> untaken{};
};

struct ConstantEstimate {
  double value = 0;  ///< base units; of the base profile unless identifiable
  bool identifiable = false;
  double relative_error = 0;  ///< standard error
  double from_base = 0;       ///< what of it is not known of other constants, or of this one
  std::size_t samples = 0;    ///< spans of which it decides at least 1 %, less those set aside
  std::size_t damped = 0;     ///< of `samples`: rho leaves them less than half of their weight
  std::size_t set_aside = 0;  ///< further ones, which rho leaves no weight: outliers
  double residual = 0;        ///< relative, root mean square, of the group that it decides most
  std::string range{};        ///< amounts of that group's samples that are not damped
  std::string group{};        ///< that group
  std::string reason{};       ///< why it is not identifiable
};

struct ConstantFit {
  HardwareProfile profile;                  ///< with the identifiable constants
  std::vector<ConstantEstimate> estimates;  ///< by constant
};

/// A constant that the profile does not state is looked for, and unless it is identifiable the
/// others are fitted without it. A constant is identifiable if its standard error is at most a
/// quarter of it, if at most 0.03 of that (of a factor e) comes from the base profile, and if it
/// decides 1 % of three spans or more. The standard error of a group of fewer than eight spans
/// assumes a scatter of at least 5 %. Spans of one amount in a group are not taken to miss
/// independently of each other.
[[nodiscard]] ConstantFit fit_constants(const HardwareProfile& base,
                                        const std::vector<ProfileConstant>& constants,
                                        const std::vector<TimedGroup>& groups);

}  // namespace zenflow::sim
