/// How fast running flows progress, remembered for each set of flows seen before.
/// Internal to sim/engine.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "sim/engine/fair_share_solver.h"
#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// A schedule meets a few dozen different sets of running flows over and over, so solving
/// each of them once turns a change of rates into a look-up. The memory is a direct-mapped
/// cache: what it holds depends on history, what it answers does not.
class FlowRates {
 public:
  explicit FlowRates(const Machine& machine)
      : solver_(machine),
        flows_(machine.flows.size()),
        counts_(flows_),
        keys_(flows_),
        rates_(flows_) {
    for (std::size_t flow = 0; flow < flows_; ++flow) {
      keys_[flow] = scrambled(flow + 1);
      solo_rates_.push_back(machine.flows[flow].solo_rate.value());
    }
    if (flows_ == 0) return;
    const std::size_t slots =
        std::bit_floor(std::clamp<std::size_t>(kCacheValues / flows_, 2, 128));
    key_shift_ = 64 - std::countr_zero(slots);
    slot_counts_.resize(slots * flows_);
    slot_progress_.resize(slots * flows_);
    for (const FlowId flow : machine.background) join(flow);
  }

  void join(FlowId flow) {
    ++counts_[flow];
    key_ += keys_[flow];
  }
  void leave(FlowId flow) {
    --counts_[flow];
    key_ -= keys_[flow];
  }

  /// By flow, for flows that have joined: rate / solo_rate, in (0, 1]. Valid until the next call.
  [[nodiscard]] const double* progress() {
    const std::size_t at = (key_ >> key_shift_) * flows_;
    const auto slot_counts = slot_counts_.begin() + static_cast<std::ptrdiff_t>(at);
    double* const progress = slot_progress_.data() + at;
    if (!std::equal(counts_.begin(), counts_.end(), slot_counts)) {
      solver_.solve(counts_, rates_);
      std::copy(counts_.begin(), counts_.end(), slot_counts);
      for (std::size_t flow = 0; flow < flows_; ++flow) {
        progress[flow] = rates_[flow] / solo_rates_[flow];
      }
    }
    return progress;
  }

 private:
  static constexpr std::size_t kCacheValues = 4096;

  /// The finaliser of splitmix64: distinct sets of flows get distinct sums, nearly always.
  static std::uint64_t scrambled(std::uint64_t x) {
    x *= 0x9E3779B97F4A7C15U;
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }

  FairShareSolver solver_;
  std::size_t flows_;
  std::vector<std::uint32_t> counts_;  // running tasks by flow
  std::uint64_t key_ = 0;              // sum of the keys of the running tasks' flows
  int key_shift_ = 0;                  // leaves as many bits of the key as there are slots
  std::vector<std::uint64_t> keys_;
  std::vector<double> rates_;
  std::vector<double> solo_rates_;
  // A slot starts out as the answer for no flows at all, which nobody asks for.
  std::vector<std::uint32_t> slot_counts_;  // [slots, flows]
  std::vector<double> slot_progress_;       // [slots, flows]
};

}  // namespace zenflow::sim
