/// What ranks exchange. One implementation a transport; a run of one process has SelfCommunicator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>

#include "runtime/device/device.h"

namespace zenflow::runtime {

/// Bytes that a rank has sent to others.
struct RankTraffic {
  std::uint64_t gradients = 0;
  std::uint64_t weights = 0;
  std::uint64_t control = 0;    ///< parts of the gradient's norm, losses, what is decided by
  std::uint64_t selection = 0;  ///< norms of columns

  RankTraffic& operator+=(const RankTraffic& more) {
    gradients += more.gradients;
    weights += more.weights;
    control += more.control;
    selection += more.selection;
    return *this;
  }
  /// What has come since.
  friend RankTraffic operator-(const RankTraffic& now, const RankTraffic& then) {
    return {now.gradients - then.gradients, now.weights - then.weights, now.control - then.control,
            now.selection - then.selection};
  }
};

/// What a rank's clock shows beyond rank 0's at the same moment, in nanoseconds.
struct ClockOffset {
  double nanoseconds = 0;
  double uncertainty = 0;  ///< either way
};

/// A tensor that all ranks have, in memory of the device, and the rank that updates it.
struct OwnedTensor {
  int owner = 0;
  void* values = nullptr;
  std::size_t elements = 0;
};

/// Every rank calls the same functions in the same order, of each of the two kinds: they have an
/// order of their own, since they come from different threads. Throws Error(kRuntime) if a rank is
/// gone.
class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int size() const = 0;

  // By the thread that trains. Sums are over all ranks, in rank order, so that every rank gets the
  // same bits.
  virtual void sum(std::span<double> values) = 0;
  /// The owner's values, on every rank.
  virtual void share(int owner, std::span<float> values) = 0;
  /// Norms of columns, known to the ranks that own them, on every rank: rank r's lie from byte
  /// first[r] up to first[r + 1]. The same `first` on every rank, with size() + 1 entries.
  virtual void gather_norms(std::span<const std::size_t> first, std::span<std::byte> norms) = 0;
  /// Of this rank, by messages to rank 0 and back: half of the shortest round trip is uncertain.
  /// Source: Cristian, "Probabilistic clock synchronization", 1989.
  [[nodiscard]] virtual ClockOffset clock_offset() { return {}; }

  // Enqueued on a stream, by the thread that trains; every rank enqueues the same in the same
  // order. The tensors of a call go as one operation, for which ranks wait once.
  /// Each tensor's sum over all ranks, at its owner; elsewhere nothing changes.
  virtual void reduce(Device& device, Stream& stream, Label label, ElementType type,
                      std::span<const OwnedTensor> tensors) = 0;
  /// Each owner's tensors, on every rank.
  virtual void broadcast(Device& device, Stream& stream, Label label, ElementType type,
                         std::span<const OwnedTensor> tensors) = 0;

  [[nodiscard]] virtual RankTraffic traffic() const { return {}; }

  /// This rank fails with the exit code `code`: ends the job of all ranks, this process among them,
  /// without waiting for any.
  [[noreturn]] void end_job(int code) {
    end_others(code);
    std::_Exit(code);
  }

 protected:
  /// They end with this exit code, too.
  virtual void end_others(int) {}
};

/// Says what has become of a rank, on a thread of its own: "has not answered for 20 s", "has ended
/// unexpectedly". The job ends behind it with code 1.
using RankLost = std::function<void(int rank, const std::string& how)>;

/// Ranks that reach each other's values from the host: of a device whose memory is the host's.
class HostCommunicator : public Communicator {
 public:
  // Work of the stream; what it throws is what the stream fails with.
  void reduce(Device& device, Stream& stream, Label label, ElementType type,
              std::span<const OwnedTensor> tensors) final;
  void broadcast(Device& device, Stream& stream, Label label, ElementType type,
                 std::span<const OwnedTensor> tensors) final;

 protected:
  // By the thread of the stream.
  /// Sums in rank order, so that they have the same bits in every run: of fp32, or of bfloat16
  /// added up in fp32 and rounded once.
  virtual void reduce_now(ElementType type, std::span<const OwnedTensor> tensors) = 0;
  virtual void broadcast_now(ElementType type, std::span<const OwnedTensor> tensors) = 0;
};

/// Rank 0 of 1.
class SelfCommunicator final : public Communicator {
 public:
  [[nodiscard]] int rank() const override { return 0; }
  [[nodiscard]] int size() const override { return 1; }
  void sum(std::span<double>) override {}
  void share(int, std::span<float>) override {}
  void gather_norms(std::span<const std::size_t>, std::span<std::byte>) override {}
  void reduce(Device&, Stream&, Label, ElementType, std::span<const OwnedTensor>) override {}
  void broadcast(Device&, Stream&, Label, ElementType, std::span<const OwnedTensor>) override {}
};

}  // namespace zenflow::runtime
