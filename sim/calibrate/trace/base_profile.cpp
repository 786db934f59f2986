#include "sim/calibrate/trace/base_profile.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/trace/device_match.h"
#include "sim/config/scenario.h"

namespace zenflow::sim {

bool is_of_device(const HardwareProfile& profile, const std::string& device) {
  // What zenflow-train calls the device on which it runs without a GPU.
  if (device == "host") return profile.gpu.runs_on_host();
  return same_device(device, profile.gpu.name);
}

Node load_profile(const std::string& name, const std::vector<std::filesystem::path>& directories) {
  const Location nowhere{std::make_shared<const std::string>("--profile"), 0, 0};
  return load_hardware(find_profile(name, ".", directories, nowhere), directories);
}

std::vector<std::string> profiles_of_devices(
    const std::vector<std::string>& devices,
    const std::vector<std::filesystem::path>& directories) {
  const std::vector<std::string> known = list_profiles(directories);
  std::vector<std::string> matches;
  std::string listed;
  for (const std::string& device : devices) {
    listed += (listed.empty() ? "\"" : ", \"") + device + "\"";
    for (const std::string& name : known) {
      const HardwareProfile profile = read_hardware_profile(load_profile(name, directories));
      const bool is_new = std::find(matches.begin(), matches.end(), name) == matches.end();
      if (is_new && is_of_device(profile, device)) matches.push_back(name);
    }
  }
  if (!matches.empty()) return matches;
  throw Error(ErrorKind::kInput,
              fmt::format("--profile: expected a base profile: the traces name {}; {}",
                          listed.empty() ? "no GPU" : listed + ", of which none is known",
                          known_profiles(directories)));
}

}  // namespace zenflow::sim
