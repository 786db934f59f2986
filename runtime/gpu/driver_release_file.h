/// The installed driver, without a library of NVIDIA's.
#pragma once

#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "runtime/gpu/driver.h"

namespace zenflow::runtime {

/// What the kernel module says; nothing if it is not loaded.
[[nodiscard]] inline std::optional<std::string> installed_driver_release() {
  std::ifstream file("/proc/driver/nvidia/version");
  return driver_release({std::istreambuf_iterator<char>(file), {}});
}

}  // namespace zenflow::runtime
