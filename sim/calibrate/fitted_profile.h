/// Numbers of a hardware profile with what they were fitted to, and the profile that has them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "sim/config/document.h"

namespace zenflow::sim {

/// One number of the profile.
struct FittedNumber {
  std::string path;     ///< "host_link.h2d"; of list items all, or those named: "switches[0,2].h2d"
  double value = 0;     ///< in `unit`
  std::string unit;     ///< "GB/s"; empty: a ratio
  bool fitted = false;  ///< the recordings determine it
  /// Not fitted, but not as in the base profile either: scaled with what it is a share of, so that
  /// the rate stays, or moved to where the profile stays consistent.
  bool adjusted = false;
  double standard_error = 0;  ///< in `unit`
  std::size_t samples = 0;    ///< that it was fitted to
  double residual = 0;        ///< relative, root mean square, of the fit it belongs to
  std::string range{};        ///< of the samples that count: "0.4 to 6.4 MB"
  std::string reason{};       ///< why it is not fitted; empty: nothing depends on it
  std::size_t damped = 0;     ///< of `samples`, those that count for less than half
  std::size_t set_aside = 0;  ///< outliers, beside `samples`: they do not count
};

/// The base profile's text with the fitted numbers and where they come from; JSON inside YAML.
/// `origin`: "3 runs of llama_10m, 2026-11-20". `remarks`: comments ahead of it, a line each.
[[nodiscard]] std::string fitted_profile_text(const Node& base,
                                              const std::vector<FittedNumber>& numbers,
                                              const std::string& name, const std::string& origin,
                                              const std::vector<std::string>& remarks = {});

/// A table of the numbers that were fitted or adjusted; below it the others, by reason.
[[nodiscard]] std::string fitted_table(const std::vector<FittedNumber>& numbers, bool bold);

}  // namespace zenflow::sim
