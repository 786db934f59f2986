/// Which cores of a machine are whose, where several processes train on it.
#pragma once

#include <string>
#include <vector>

namespace zenflow::runtime {

/// CPUs that the calling thread may use, by number. Throws Error(kRuntime) if the system does not
/// say.
[[nodiscard]] std::vector<int> allowed_cpus();

/// Lets the calling thread, and those that it starts from now on, use these alone. Throws
/// Error(kRuntime).
void bind_to_cpus(const std::vector<int>& cpus);

/// Shares `allowed` out to processes as evenly as the machine's caches and NUMA nodes are, one
/// share each. Process i gets cores near the PCI device `devices[i]` ("0000:3b:00.0"); none are
/// near one that is empty or not found. There may be more processes than cores, which then share
/// some. Source: hwloc, hwloc_distrib. Throws Error(kRuntime) if hwloc cannot read the machine.
[[nodiscard]] std::vector<std::vector<int>> share_cpus(const std::vector<int>& allowed,
                                                       const std::vector<std::string>& devices);

/// "0-3,8" of 0, 1, 2, 3, 8.
[[nodiscard]] std::string list_of_cpus(const std::vector<int>& cpus);

}  // namespace zenflow::runtime
