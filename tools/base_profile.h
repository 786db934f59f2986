/// The profile that a fit begins with.
#pragma once

#include <string>
#include <vector>

#include "sim/config/document.h"

namespace zenflow::tools {

/// Of a name or a file. Throws Error(kInput) as sim::find_profile does.
[[nodiscard]] Node load_profile(const std::string& name);

/// Names of shipped profiles of one of `devices`, as traces name them; a host device is that of
/// profile this_host. Throws Error(kInput) "--profile: ..." listing what there is if there is none.
[[nodiscard]] std::vector<std::string> profiles_of_devices(const std::vector<std::string>& devices);

}  // namespace zenflow::tools
