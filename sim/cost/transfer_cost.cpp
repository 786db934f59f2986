#include "sim/cost/transfer_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <string_view>

namespace zenflow::sim {
namespace {

/// A ring that passes (n-1)/n of the buffer `rounds` times. Of its hops, one leaves each node but
/// the last.
Seconds ring_time(const Communicator& group, Bytes bytes, double rounds) {
  const double hops = static_cast<double>(group.ranks - 1);
  const double between = static_cast<double>(group.links.nodes - 1);
  const Bytes passed = hops / static_cast<double>(group.ranks) * bytes;
  return rounds * ((hops - between) * group.latency + between * group.links.latency +
                   passed / group.bandwidth);
}

/// Levels of a binary tree of so many nodes below its root.
double levels_of(std::int64_t nodes) {
  return static_cast<double>(std::bit_width(static_cast<std::uint64_t>(nodes)) - 1);
}

/// An all-reduce over two trees of nodes, each of which carries half of the bytes: what goes over a
/// node's network in each direction. With two nodes each sends half and receives half twice; else
/// a node has two children in one tree, and is a leaf of the other one.
Seconds tree_network_time(const NodeLinks& links, Bytes bytes) {
  return (links.nodes == 2 ? 1.0 : 2.0) * (bytes / links.network);
}

/// Up and down a chain of the GPUs in each node, and the trees.
Seconds tree_over_nodes_time(const Communicator& group, Bytes bytes) {
  constexpr double kShare = 0.92;  // of a ring's bus bandwidth
  const NodeLinks& links = group.links;
  const double chain = static_cast<double>(group.ranks / links.nodes - 1);
  const Seconds network = tree_network_time(links, bytes);
  const Seconds within = chain > 0 ? 2.0 * (bytes / links.within) : Seconds(0);
  return 2.0 * (chain * group.latency + levels_of(links.nodes) * links.latency) +
         std::max(network, within) / kShare;
}

/// The switch of each node adds up what its GPUs have and spreads the sums, each GPU on the trees
/// of its own network card in between.
Seconds nvls_tree_time(const Communicator& group, Bytes bytes) {
  // Each GPU sends and receives the bytes once where a ring does it twice, but not at its rate.
  constexpr double kGain = 1.48;
  const NodeLinks& links = group.links;
  return group.latency + 2.0 * levels_of(links.nodes) * links.latency +
         std::max(tree_network_time(links, bytes), 2.0 / kGain * (bytes / links.within));
}

Seconds tree_all_reduce_time(const Communicator& group, Bytes bytes) {
  if (group.links.nodes > 1) return tree_over_nodes_time(group, bytes);
  const double depth =
      static_cast<double>(std::bit_width(static_cast<std::uint64_t>(group.ranks - 1)));
  return 2.0 * depth * group.latency + 2.0 * (bytes / group.bandwidth);
}

/// A profile's latency is of a collective on one node: what begins it, and its hops. Over nodes
/// there are so many hops that each counts as what it takes alone, by NCCL's table (ring, Simple).
Seconds hop_latency(const GpuLinkProfile& link) {
  return link.kind.starts_with("PCIe") ? Seconds(5.7e-6) : Seconds(3.4e-6);
}

/// Third-generation NVSwitch, to which NVLink 4 and later GPUs connect unless by bridges.
bool switch_adds_up(const GpuLinkProfile& link) {
  constexpr std::string_view kNvlink = "NVLink ";
  const std::string_view kind = link.kind;
  return kind.starts_with(kNvlink) && kind.size() > kNvlink.size() && kind[kNvlink.size()] >= '4' &&
         kind[kNvlink.size()] <= '9' && kind.find("bridge") == std::string_view::npos;
}

}  // namespace

BytesPerSecond copy_rate(const HostLinkProfile& link, Direction direction, bool pinned) {
  if (direction == Direction::kH2D) return pinned ? link.pinned.h2d : link.pageable_h2d;
  return pinned ? link.pinned.d2h : link.pageable_d2h;
}

Seconds copy_time(const HostLinkProfile& link, Direction direction, bool pinned, Bytes bytes) {
  return link.latency + bytes / copy_rate(link, direction, pinned);
}

Communicator communicator(const HardwareProfile& hardware, std::int64_t gpus, std::int64_t nodes) {
  Communicator group{gpus * nodes, BytesPerSecond(0), Seconds(0)};
  if (gpus > 1) {
    group.bandwidth = hardware.gpu_link->bandwidth;
    group.latency = hardware.gpu_link->latency;
  }
  if (nodes > 1) {
    const NetworkProfile& network = *hardware.network;
    group.latency =
        std::min(group.latency, gpus > 1 ? hop_latency(*hardware.gpu_link) : Seconds(0));
    group.links = {nodes, network.bandwidth, network.latency, group.bandwidth,
                   gpus > 1 && switch_adds_up(*hardware.gpu_link)};
    group.bandwidth = gpus > 1 ? std::min(group.bandwidth, network.bandwidth) : network.bandwidth;
  }
  return group;
}

Seconds reduce_scatter_time(const Communicator& group, Bytes bytes) {
  return group.ranks == 1 ? Seconds(0) : ring_time(group, bytes, 1);
}

Seconds all_gather_time(const Communicator& group, Bytes bytes) {
  return group.ranks == 1 ? Seconds(0) : ring_time(group, bytes, 1);
}

Seconds all_reduce_time(const Communicator& group, Bytes bytes) {
  if (group.ranks == 1) return Seconds(0);
  const Seconds best = std::min(ring_time(group, bytes, 2), tree_all_reduce_time(group, bytes));
  return group.links.adds_up ? std::min(best, nvls_tree_time(group, bytes)) : best;
}

Seconds reduce_to_owner_time(const Communicator& group, const HostProfile& host, Bytes bytes,
                             std::int64_t tensors) {
  constexpr double kTrafficPerByte = 3;  // what arrives and the sum are read, the sum is written
  const auto others = static_cast<double>(group.ranks - 1);
  const auto messages = static_cast<double>(tensors);
  return others * (messages * group.latency + bytes / group.bandwidth) +
         (others + 1) * kTrafficPerByte * bytes / host.core_bandwidth;
}

Seconds broadcast_time(const Communicator& group, Bytes bytes, std::int64_t tensors) {
  const auto others = static_cast<double>(group.ranks - 1);
  return others * (static_cast<double>(tensors) * group.latency + bytes / group.bandwidth);
}

double expected_largest(std::int64_t n) {
  constexpr double kEnd = 9;  // beyond it nothing is left
  constexpr int kIntervals = 1800;
  constexpr double kWidth = 2 * kEnd / kIntervals;
  double sum = 0;
  for (int i = 0; i <= kIntervals; ++i) {  // Simpson's rule
    const double x = -kEnd + i * kWidth;
    const double density = std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi);
    const double below = std::erfc(-x / std::numbers::sqrt2) / 2;
    const double weight = i == 0 || i == kIntervals ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * x * density * std::pow(below, static_cast<double>(n - 1));
  }
  return n == 1 ? 0 : static_cast<double>(n) * sum * kWidth / 3;
}

Seconds nvme_time(const NvmeProfile& nvme, NvmeAccess access, Bytes bytes) {
  return nvme.latency + bytes / (access == NvmeAccess::kRead ? nvme.read : nvme.write);
}

}  // namespace zenflow::sim
