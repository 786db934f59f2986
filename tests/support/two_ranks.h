/// Two ranks in one process: a thread each, sums in rank order.
#pragma once

#include <array>
#include <barrier>
#include <functional>
#include <span>
#include <thread>
#include <vector>

#include "runtime/comm/communicator.h"

namespace zenflow::testing {

class TwoRanks {
 public:
  /// Calls `work` for both ranks at once. A rank that leaves early leaves the other one waiting.
  void run(const std::function<void(runtime::Communicator&)>& work) {
    std::jthread other([&] { work(ranks_[1]); });
    work(ranks_[0]);
  }

 private:
  class Rank final : public runtime::Communicator {
   public:
    Rank(TwoRanks& both, int rank) : both_(both), rank_(rank) {}
    [[nodiscard]] int rank() const override { return rank_; }
    [[nodiscard]] int size() const override { return 2; }
    void sum(std::span<double> values) override { both_.sum(rank_, values); }
    void sum(std::span<float> values) override { both_.sum(rank_, values); }

   private:
    TwoRanks& both_;
    int rank_;
  };

  template <class T>
  void sum(int rank, std::span<T> values) {
    offered_.at(static_cast<std::size_t>(rank)).assign(values.begin(), values.end());
    meeting_.arrive_and_wait();  // both have offered
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<T>(offered_[0][i]) + static_cast<T>(offered_[1][i]);
    }
    meeting_.arrive_and_wait();  // both have read
  }

  std::barrier<> meeting_{2};
  std::array<std::vector<double>, 2> offered_;  // fp32 values are exact in it
  std::array<Rank, 2> ranks_{Rank(*this, 0), Rank(*this, 1)};
};

}  // namespace zenflow::testing
