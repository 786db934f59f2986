#include "runtime/probe/topology_text.h"

#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace zenflow::runtime {
namespace {

/// Generation by GT/s of a lane: 2.5, 5, 8, 16, 32, 64.
std::string generation(double speed) {
  constexpr std::array kSpeeds = {2.5, 5.0, 8.0, 16.0, 32.0, 64.0};
  for (std::size_t i = 0; i < kSpeeds.size(); ++i) {
    if (speed == kSpeeds.at(i)) return fmt::format("PCIe {}.0", i + 1);
  }
  return fmt::format("PCIe at {:g} GT/s", speed);
}

}  // namespace

std::string link_kind(const GpuSlot& gpu) {
  std::string kind = gpu.speed_max ? generation(*gpu.speed_max) : "PCIe";
  if (gpu.width) kind += fmt::format(" x{}", *gpu.width);
  return kind;
}

std::vector<std::string> gpu_topology(const std::vector<GpuSlot>& gpus) {
  std::vector<std::string> lines;
  std::map<std::string, std::vector<std::string>> below;
  for (const GpuSlot& gpu : gpus) {
    std::string line = fmt::format("GPU {}: {}", gpu.bus_id, link_kind(gpu));
    if (gpu.numa_node) line += fmt::format(", NUMA node {}", *gpu.numa_node);
    if (!gpu.root_port.empty()) {
      line += ", below root port " + gpu.root_port;
      below[gpu.root_port].push_back(gpu.bus_id);
    }
    lines.push_back(std::move(line));
  }
  for (const auto& [port, ids] : below) {
    if (ids.size() > 1) {
      lines.push_back(
          fmt::format("GPUs {} share the link of root port {}", fmt::join(ids, ", "), port));
    }
  }
  return lines;
}

std::vector<std::string> cpu_topology_text(const CpuTopology& topology) {
  std::vector<std::string> lines;
  for (const CpuTopology::Node& node : topology.nodes()) {
    lines.push_back(fmt::format("NUMA node {} of {} socket{}: {} cores, first logical CPUs {}",
                                node.number, topology.sockets(), topology.sockets() == 1 ? "" : "s",
                                node.cores.size(), fmt::join(node.cores, " ")));
  }
  return lines;
}

}  // namespace zenflow::runtime
