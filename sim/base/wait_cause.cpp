#include "sim/base/wait_cause.h"

#include <algorithm>
#include <array>

namespace zenflow {
namespace {

constexpr std::array<std::string_view, kWaitCauses> kNames = {
    "cpu_update",     "d2h",   "h2d",          "collective", "nvme", "selection", "launch",
    "copy_on_device", "other", "not_recorded", "compute",    ""};

}  // namespace

std::string_view name_of(WaitCause cause) {
  return kNames.at(static_cast<std::size_t>(cause));
}

WaitCause wait_cause(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end() - 1, name);
  return static_cast<WaitCause>(found - kNames.begin());
}

}  // namespace zenflow
