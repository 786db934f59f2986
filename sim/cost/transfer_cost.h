/// Time of moving bytes: host copies, collectives, NVMe.
///
///   copy          latency + bytes / bandwidth                    (alpha-beta; Hockney 1994)
///   ring          (n-1) latency + (n-1)/n bytes / bandwidth      reduce-scatter, all-gather
///   ring          2 (n-1) latency + 2 (n-1)/n bytes / bandwidth  all-reduce
///   tree          2 ceil(log2 n) latency + 2 bytes / bandwidth   all-reduce of small messages
///   NVMe          latency + bytes / rate
///
/// `bandwidth` of a collective is the bus bandwidth a GPU achieves in one direction. With
/// several nodes the ring also crosses each node's network once, so it is the lesser of the
/// GPU link's and the network's. Source: Thakur, Rabenseifner, Gropp 2005; NCCL's tuning model.
#pragma once

#include <cstdint>

#include "sim/base/units.h"
#include "sim/config/hardware_profile.h"

namespace zenflow::sim {

enum class Direction { kH2D, kD2H };

/// One copy alone on its link.
[[nodiscard]] Seconds copy_time(const HostLinkProfile& link, Direction direction, bool pinned,
                                Bytes bytes);
[[nodiscard]] BytesPerSecond copy_rate(const HostLinkProfile& link, Direction direction,
                                       bool pinned);

/// A group of GPUs that run collectives together.
struct Communicator {
  std::int64_t ranks = 1;
  BytesPerSecond bandwidth;
  Seconds latency;
};

/// Over all GPUs used. Precondition: one rank, or the profile has the links in question.
[[nodiscard]] Communicator communicator(const HardwareProfile& hardware, std::int64_t gpus,
                                        std::int64_t nodes);

/// `bytes`: size of the whole (unsharded) buffer. Zero for one rank.
[[nodiscard]] Seconds reduce_scatter_time(const Communicator& group, Bytes bytes);
[[nodiscard]] Seconds all_gather_time(const Communicator& group, Bytes bytes);
/// The faster of ring and tree.
[[nodiscard]] Seconds all_reduce_time(const Communicator& group, Bytes bytes);

/// Between ranks whose devices are hosts, as zenflow-train's MPI ranks do it, tensor by tensor. The
/// owner of a gradient takes each other rank's and adds it up: (n-1) (latency + bytes / bandwidth),
/// and 12 bytes of memory traffic an fp32 element and rank on one core, of cached pieces. A weight
/// goes down a binomial tree: ceil(log2 n) (latency + bytes / bandwidth).
/// Sources: runtime/comm/mpi_communicator.cpp; Open MPI's broadcast for messages of this size.
[[nodiscard]] Seconds reduce_to_owner_time(const Communicator& group, const HostProfile& host,
                                           Bytes bytes, std::int64_t tensors);
[[nodiscard]] Seconds broadcast_time(const Communicator& group, Bytes bytes, std::int64_t tensors);

/// The mean of the largest of n independent numbers with mean 0 and standard deviation 1, normally
/// distributed: by how many standard deviations the slowest of n ranks is late. 0.564 of 2, 3.24 of
/// 1,000. Source: order statistics, n times the integral of x phi(x) Phi(x)^(n-1).
[[nodiscard]] double expected_largest(std::int64_t n);

enum class NvmeAccess { kRead, kWrite };
[[nodiscard]] Seconds nvme_time(const NvmeProfile& nvme, NvmeAccess access, Bytes bytes);

}  // namespace zenflow::sim
