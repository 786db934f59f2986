/// The constants of a hardware profile that times depend on, by the names that the profile has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/config/switch_groups.h"

namespace zenflow::sim {

/// One number, in base units: bytes/s, seconds, FLOPs, or a ratio.
struct ProfileConstant {
  std::string path;  ///< "host_link.h2d"
  std::string unit;  ///< as profiles write it: "GB/s"; empty: a ratio
  double scale = 1;  ///< base units of one `unit`
  std::function<double(const HardwareProfile&)> get;
  std::function<void(HardwareProfile&, double)> set;
  bool is_capacity = false;  ///< of a link that several share: bounds rates or has no part in them
  bool may_be_idle = false;  ///< likewise, if it has no part once the others are fitted
  /// For a capacity that several share: the constant that is the rate of one in isolation. Unless
  /// that is known, times of several at once do not say which of the two they show.
  std::string isolated{};
  /// What a search begins with where the profile has zero, which it does not state. 0: what it does
  /// not state is not looked for.
  double unstated = 0;
};

/// Those that the profile states, above zero, and those to be looked for all the same. Peaks and
/// the memory's bandwidth are not among them: the efficiencies are shares of them, and only their
/// product is identifiable.
[[nodiscard]] std::vector<ProfileConstant> profile_constants(const HardwareProfile& profile);

}  // namespace zenflow::sim
