/// Ranks that send each other messages, in host memory.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/comm/communicator.h"

namespace zenflow::runtime {

/// The owner adds what arrives in rank order.
class MessageCommunicator : public HostCommunicator {
 public:
  void share(int owner, std::span<float> values) final;
  void gather_norms(std::span<const std::size_t> first, std::span<std::byte> norms) final;
  [[nodiscard]] RankTraffic traffic() const final {
    return {gradient_bytes_, weight_bytes_, control_bytes_, selection_bytes_};
  }
  /// By round trips to rank 0, one rank after the other.
  [[nodiscard]] ClockOffset clock_offset() final;

 protected:
  enum class Channel : std::uint8_t {
    kControl,
    kBulk
  };  ///< by the thread that trains, or a stream
  /// Of at most kMessageBytes; both block. Messages between two ranks keep their order.
  virtual void send(Channel channel, int to, std::span<const std::byte> message) = 0;
  virtual void receive(Channel channel, int from, std::span<std::byte> message) = 0;
  // Gradients, by the thread of a stream.
  /// Whether start_send returns before the other rank receives.
  [[nodiscard]] virtual bool sends_ahead() const { return false; }
  virtual void start_send(int to, std::span<const std::byte> message) {
    send(Channel::kBulk, to, message);
  }
  /// Returns when all that was started has gone.
  virtual void finish_sends() {}
  struct OwnedBytes {
    int owner;
    std::span<std::byte> bytes;  ///< any number
  };
  /// Each owner's bytes, on every rank.
  virtual void broadcast_on(Channel channel, std::span<const OwnedBytes> all) = 0;

  void reduce_now(ElementType type, std::span<const OwnedTensor> tensors) final;
  void broadcast_now(ElementType type, std::span<const OwnedTensor> tensors) final;

  /// A few MB, so that what a sum needs besides stays small.
  static constexpr std::size_t kMessageBytes = std::size_t{4} << 20;
  /// Calls use(part) for parts of at most kMessageBytes.
  template <class T, class Use>
  static void in_messages(std::span<T> values, const Use& use) {
    constexpr std::size_t kMost = kMessageBytes / sizeof(T);
    for (std::size_t at = 0; at < values.size(); at += kMost) {
      use(values.subspan(at, std::min(kMost, values.size() - at)));
    }
  }
  [[nodiscard]] std::uint64_t others() const { return static_cast<std::uint64_t>(size() - 1); }

  std::atomic<std::uint64_t> control_bytes_ = 0;

 private:
  /// This rank's tensor, as it arrives from the others.
  template <class T, class Round>
  void add_others(std::span<T> values, const Round& round);
  void add_others(ElementType type, const OwnedTensor& tensor);
  void answer_with_time(int rank);
  [[nodiscard]] ClockOffset ask_for_time();

  std::atomic<std::uint64_t> gradient_bytes_ = 0;
  std::atomic<std::uint64_t> weight_bytes_ = 0;
  std::atomic<std::uint64_t> selection_bytes_ = 0;
  std::vector<std::byte> arrived_;  // of the stream's thread
  std::vector<float> sums_;
};

}  // namespace zenflow::runtime
