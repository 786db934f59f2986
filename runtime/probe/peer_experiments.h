/// Copies between the GPUs of a machine.
#pragma once

#include <cstddef>
#include <memory>

#include "runtime/probe/runner.h"

namespace zenflow::runtime {

/// The GPUs that copy, by CUDA's numbers.
class PeerDevices {
 public:
  virtual ~PeerDevices() = default;
  [[nodiscard]] virtual int count() const = 0;
  /// Whether copies go from one GPU to the other without host memory between.
  [[nodiscard]] virtual bool is_direct(int from, int to) const = 0;

  /// Memory of `bytes` on every GPU to copy from, and as much to copy to. Throws Error(kInfeasible)
  /// if one has not so much.
  virtual void prepare(std::size_t bytes) = 0;
  virtual void release() = 0;
  /// Seconds of one copy of all the memory; of two at once, there and back, until both have ended.
  [[nodiscard]] virtual double copy(int from, int to) = 0;
  [[nodiscard]] virtual double copy_both_ways(int one, int other) = 0;
};

/// "peer.I-J" in either direction for every pair, "peer.I-J.both", the sum of both directions at
/// once. Refers to `devices`.
[[nodiscard]] std::unique_ptr<ExperimentGroup> peer_experiments(PeerDevices& devices,
                                                                std::size_t bytes);

/// CUDA's GPUs. Throws Error(kDevice) in a build without CUDA or if CUDA fails.
[[nodiscard]] std::unique_ptr<PeerDevices> make_cuda_peer_devices();

}  // namespace zenflow::runtime
