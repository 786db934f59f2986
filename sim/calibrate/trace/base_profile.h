/// The profile that a fit begins with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sim/config/document.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

/// The profile with that name in `directories`, or of that file. Throws Error(kInput) as
/// find_profile does.
[[nodiscard]] Node load_profile(const std::string& name,
                                const std::vector<std::filesystem::path>& directories);

/// Whether the profile is of a device that traces name so. The host is "host".
[[nodiscard]] bool is_of_device(const HardwareProfile& profile, const std::string& device);

/// Names of profiles in `directories` of one of `devices`, as traces name them; a host device is
/// that of profile this_host. Throws Error(kInput) "--profile: ..." listing what there is if there
/// is none.
[[nodiscard]] std::vector<std::string> profiles_of_devices(
    const std::vector<std::string>& devices, const std::vector<std::filesystem::path>& directories);

}  // namespace zenflow::sim
