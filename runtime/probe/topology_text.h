/// Sockets, NUMA nodes, GPUs and how they hang together, in sentences.
#pragma once

#include <string>
#include <vector>

#include "runtime/machine/machine_facts.h"
#include "runtime/probe/cpu_topology.h"

namespace zenflow::runtime {

/// "PCIe 4.0 x16" by the most that GPU and slot can do; "PCIe" if the system does not say.
[[nodiscard]] std::string link_kind(const GpuSlot& gpu);

/// One line for each GPU, and one for each root port whose link several GPUs share.
[[nodiscard]] std::vector<std::string> gpu_topology(const std::vector<GpuSlot>& gpus);

/// One line for each NUMA node.
[[nodiscard]] std::vector<std::string> cpu_topology_text(const CpuTopology& topology);

}  // namespace zenflow::runtime
