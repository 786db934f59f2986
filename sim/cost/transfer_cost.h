/// Time of moving bytes: host copies, collectives, NVMe.
///
///   copy          latency + bytes / bandwidth                    (alpha-beta; Hockney 1994)
///   NVMe          latency + bytes / rate
///
/// Collectives of N ranks, g to each of n nodes, as NCCL runs them. `a` is the latency of a hop
/// within a node and `b` of one between nodes, W the bandwidth within a node (what a GPU achieves
/// in one direction) and V that of a node's network, which its ranks share. A ring crosses each
/// node's network once, so B = min(W, V).
///
///   ring       (N-n) a + (n-1) b + (N-1)/N bytes / B    reduce-scatter, all-gather
///   ring       twice that                               all-reduce
///   tree       2 ceil(log2 N) a + 2 bytes / B           all-reduce, one node
///   tree       2 (g-1) a + 2 floor(log2 n) b            all-reduce, several nodes: a chain in
///              + max(2 bytes / W, m bytes / V) / 0.92   each, two binary trees between them
///   NVLS tree  a + 2 floor(log2 n) b                    all-reduce, several nodes whose GPUs'
///              + max(2 bytes / (1.48 W), m bytes / V)   switch adds up: hierarchical
///
/// m, what a node's network takes in each direction: all bytes once for two nodes, twice for more.
/// An all-reduce takes the least of what there is. Source: Thakur, Rabenseifner, Gropp 2005;
/// Sanders, Speck, Traff 2009 (two trees); NCCL 2.28, src/graph/tuning.cc (hops, levels, 0.92);
/// github NVIDIA/nccl-tests issue 212 (1.48: an all-reduce of eight H100 by their switch has a bus
/// bandwidth of 480 GB/s, by a ring 370).
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

/// What joins the nodes of a communicator, and what is within each.
struct NodeLinks {
  std::int64_t nodes = 1;
  BytesPerSecond network{0};  ///< of a node, each direction, shared by its ranks
  Seconds latency{0};         ///< of a hop from node to node
  BytesPerSecond within{0};   ///< between GPUs of a node; 0: it has one
  bool adds_up = false;       ///< the switch between a node's GPUs adds up and multicasts: NVLS
};

/// A group of GPUs that run collectives together.
struct Communicator {
  std::int64_t ranks = 1;
  BytesPerSecond bandwidth;  ///< of a ring over all of them
  Seconds latency;           ///< of a hop within a node
  NodeLinks links{};
};

/// Over all GPUs used. Precondition: one rank, or the profile has the links in question.
[[nodiscard]] Communicator communicator(const HardwareProfile& hardware, std::int64_t gpus,
                                        std::int64_t nodes);

/// `bytes`: size of the whole (unsharded) buffer. Zero for one rank.
[[nodiscard]] Seconds reduce_scatter_time(const Communicator& group, Bytes bytes);
[[nodiscard]] Seconds all_gather_time(const Communicator& group, Bytes bytes);
/// The fastest of ring, tree and NVLS tree, of those that the group has.
[[nodiscard]] Seconds all_reduce_time(const Communicator& group, Bytes bytes);

/// Between ranks whose devices are hosts, as zenflow-train's MPI ranks do it: the tensors of a
/// layer at once, each in messages of its own. The owner of a gradient takes each other rank's and
/// adds it up: (n-1) (latency + bytes / bandwidth), and 12 bytes of memory traffic an fp32 element
/// and rank on one core, of cached pieces. The owner of a weight sends it to each other rank: (n-1)
/// (latency + bytes / bandwidth). Known error: owners of a layer's tensors work side by side, as
/// far as their memory allows it; here one after the other.
/// Source: runtime/comm/mpi_communicator.cpp.
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
