/// What threads with numbers send each other.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace zenflow::testing {

/// Messages between two threads keep their order. Nobody waits to send, so that a busy machine
/// changes threads where one needs another's values, and not twice a message.
class Mailboxes {
 public:
  explicit Mailboxes(int count)
      : count_(static_cast<std::size_t>(count)), boxes_(count_ * count_) {}

  void send(int from, int to, std::span<const std::byte> message) {
    Box& box = boxes_[index(from, to)];
    {
      const std::lock_guard lock(box.mutex);
      box.messages.emplace_back(message.begin(), message.end());
    }
    box.arrived.notify_one();
  }
  /// Waits for it.
  [[nodiscard]] std::vector<std::byte> receive(int from, int to) {
    Box& box = boxes_[index(from, to)];
    std::unique_lock lock(box.mutex);
    box.arrived.wait(lock, [&] { return !box.messages.empty(); });
    std::vector<std::byte> message = std::move(box.messages.front());
    box.messages.pop_front();
    return message;
  }

 private:
  struct Box {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::vector<std::byte>> messages;
  };

  [[nodiscard]] std::size_t index(int from, int to) const {
    return static_cast<std::size_t>(from) * count_ + static_cast<std::size_t>(to);
  }

  std::size_t count_;
  std::vector<Box> boxes_;
};

}  // namespace zenflow::testing
