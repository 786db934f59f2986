/// Ranks in one process: a thread each.
#pragma once

#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstring>
#include <deque>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "kernels/bf16/bf16.h"
#include "runtime/comm/communicator.h"

namespace zenflow::testing {

class ThreadRanks {
 public:
  explicit ThreadRanks(int count) : control_(count), bulk_(count) {
    for (int r = 0; r < count; ++r) ranks_.emplace_back(*this, r);
  }

  /// Calls `work` for all ranks at once. A rank that leaves early leaves the others waiting.
  void run(const std::function<void(runtime::Communicator&)>& work) {
    std::vector<std::jthread> threads;
    for (Rank& rank : ranks_) threads.emplace_back([&] { work(rank); });
  }

 private:
  /// Where ranks show each other what they have.
  struct Meeting {
    explicit Meeting(int count) : barrier(count), offered(static_cast<std::size_t>(count)) {}

    template <class Use>
    void meet(int rank, void* values, const Use& use) {
      offered[static_cast<std::size_t>(rank)] = values;
      barrier.arrive_and_wait();
      use();
      barrier.arrive_and_wait();
    }
    template <class T>
    [[nodiscard]] const T* of(std::size_t rank) const {
      return static_cast<const T*>(offered[rank]);
    }

    std::barrier<> barrier;
    std::vector<void*> offered;
  };

  class Rank final : public runtime::HostCommunicator {
   public:
    Rank(ThreadRanks& all, int rank) : all_(all), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return static_cast<int>(all_.ranks_.size()); }

    void sum(std::span<double> values) override {
      std::vector<double> sums(values.size(), 0.0);
      all_.control_.meet(rank_, values.data(), [&] {
        for (std::size_t r = 0; r < all_.ranks_.size(); ++r) {
          const double* const of_rank = all_.control_.of<double>(r);
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_rank[i];
        }
      });
      std::copy(sums.begin(), sums.end(), values.begin());
      all_.control_.meet(rank_, nullptr, [] {});
    }
    void share(int owner, std::span<float> values) override {
      copy_from(all_.control_, owner, std::as_writable_bytes(values));
    }
    void gather_norms(std::span<const std::size_t> first, std::span<std::byte> norms) override {
      for (std::size_t r = 0; r + 1 < first.size(); ++r) {
        const std::span<std::byte> part = norms.subspan(first[r], first[r + 1] - first[r]);
        const bool owns = static_cast<int>(r) == rank_;
        if (owns) traffic_.selection += part.size() * (all_.ranks_.size() - 1);
        copy_from(all_.control_, static_cast<int>(r), part);
      }
    }
    /// Of selections alone.
    [[nodiscard]] runtime::RankTraffic traffic() const override { return traffic_; }

   protected:
    void broadcast_now(int owner, std::span<std::byte> bytes) override {
      copy_from(all_.bulk_, owner, bytes);
    }
    void reduce_now(int owner, std::span<float> values) override {
      reduce_as(
          owner, values, [](float value) { return value; }, [](float sum) { return sum; });
    }
    void reduce_now(int owner, std::span<std::uint16_t> values) override {
      using kernels::Bf16;
      reduce_as(
          owner, values, [](std::uint16_t bits) { return kernels::to_float(Bf16{bits}); },
          [](float sum) { return kernels::round_to_bf16(sum).bits; });
    }

   private:
    void copy_from(Meeting& meeting, int owner, std::span<std::byte> bytes) const {
      meeting.meet(rank_, bytes.data(), [&] {
        if (rank_ == owner) return;
        std::memcpy(bytes.data(), meeting.of<std::byte>(static_cast<std::size_t>(owner)),
                    bytes.size());
      });
    }
    template <class T, class Read, class Round>
    void reduce_as(int owner, std::span<T> values, const Read& read, const Round& round) {
      all_.bulk_.meet(rank_, values.data(), [&] {
        if (rank_ != owner) return;
        for (std::size_t i = 0; i < values.size(); ++i) {
          float sum = read(all_.bulk_.of<T>(0)[i]);
          for (std::size_t r = 1; r < all_.ranks_.size(); ++r) {
            sum += read(all_.bulk_.of<T>(r)[i]);
          }
          values[i] = round(sum);
        }
      });
    }

    ThreadRanks& all_;
    int rank_;
    runtime::RankTraffic traffic_;
  };

  Meeting control_;
  Meeting bulk_;
  std::deque<Rank> ranks_;
};

}  // namespace zenflow::testing
