/// The constants of a hardware profile that times depend on, by the names that the profile has.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

/// One number, in base units: bytes/s, seconds, FLOPs, or a ratio.
struct ProfileConstant {
  std::string path;  ///< "host_link.h2d"
  std::string unit;  ///< as profiles write it: "GB/s"; empty: a ratio
  double scale = 1;  ///< base units of one `unit`
  std::function<double(const HardwareProfile&)> get;
  std::function<void(HardwareProfile&, double)> set;
};

/// Those that the profile states, above zero. Peaks and the memory's bandwidth are not among them:
/// the efficiencies are shares of them, and times do not tell the two apart.
[[nodiscard]] std::vector<ProfileConstant> profile_constants(const HardwareProfile& profile);

}  // namespace zenflow::sim
