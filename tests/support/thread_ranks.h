/// Ranks in one process: a thread each.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <deque>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/comm/message_communicator.h"
#include "tests/support/mailboxes.h"

namespace zenflow::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int count) : boxes_{Mailboxes(count), Mailboxes(count)} {
    for (int r = 0; r < count; ++r) ranks_.emplace_back(*this, r);
  }

  /// Calls `work` for all ranks at once. A rank that leaves early leaves the others waiting.
  void run(const std::function<void(runtime::Communicator&)>& work) {
    std::vector<std::jthread> threads;
    for (Rank& rank : ranks_) threads.emplace_back([&] { work(rank); });
  }

 private:
  class Rank final : public runtime::MessageCommunicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(all_.ranks_.size()); }

    void sum(std::span<double> values) override {
      const std::vector<double> own(values.begin(), values.end());
      to_others(Channel::kControl, std::as_bytes(std::span(own)));
      std::fill(values.begin(), values.end(), 0.0);
      std::vector<double> arrived(own.size());
      for (int r = 0; r < size(); ++r) {
        if (r != rank_) receive(Channel::kControl, r, std::as_writable_bytes(std::span(arrived)));
        const std::vector<double>& of_rank = r == rank_ ? own : arrived;
        for (std::size_t i = 0; i < own.size(); ++i) values[i] += of_rank[i];
      }
    }

   protected:
    void send(Channel channel, int to, std::span<const std::byte> message) override {
      all_.boxes(channel).send(rank_, to, message);
    }
    void receive(Channel channel, int from, std::span<std::byte> message) override {
      const std::vector<std::byte> arrived = all_.boxes(channel).receive(from, rank_);
      std::copy(arrived.begin(), arrived.end(), message.begin());
    }
    void broadcast_on(Channel channel, std::span<const OwnedBytes> all) override {
      for (const auto& [owner, bytes] : all) {
        if (rank_ != owner) {
          receive(channel, owner, bytes);
        } else {
          to_others(channel, bytes);
        }
      }
    }

   private:
    void to_others(Channel channel, std::span<const std::byte> bytes) {
      for (int r = 0; r < size(); ++r) {
        if (r != rank_) send(channel, r, bytes);
      }
    }

    ThreadRanks& all_;
    int rank_;
  };

  /// By runtime::MessageCommunicator's channels.
  template <class Channel>
  [[nodiscard]] Mailboxes& boxes(Channel channel) {
    return boxes_.at(static_cast<std::size_t>(channel));
  }

  std::array<Mailboxes, 2> boxes_;
  std::deque<Rank> ranks_;
};

}  // namespace zenflow::testing
