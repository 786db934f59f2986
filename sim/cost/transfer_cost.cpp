#include "sim/cost/transfer_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace zenflow::sim {
namespace {

/// A ring that passes (n-1)/n of the buffer `rounds` times.
Seconds ring_time(const Communicator& group, Bytes bytes, double rounds) {
  const double hops = static_cast<double>(group.ranks - 1);
  const Bytes passed = hops / static_cast<double>(group.ranks) * bytes;
  return rounds * (hops * group.latency + passed / group.bandwidth);
}

Seconds tree_all_reduce_time(const Communicator& group, Bytes bytes) {
  const double depth =
      static_cast<double>(std::bit_width(static_cast<std::uint64_t>(group.ranks - 1)));
  return 2.0 * depth * group.latency + 2.0 * (bytes / group.bandwidth);
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
    group.bandwidth = gpus > 1 ? std::min(group.bandwidth, network.bandwidth) : network.bandwidth;
    group.latency = std::max(group.latency, network.latency);
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
  return std::min(ring_time(group, bytes, 2), tree_all_reduce_time(group, bytes));
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
  const double depth =
      static_cast<double>(std::bit_width(static_cast<std::uint64_t>(group.ranks - 1)));
  return depth * (static_cast<double>(tensors) * group.latency + bytes / group.bandwidth);
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
