/// Max-min fair rates by class of flow, without allocation after construction.
/// Internal to sim/engine; `fair_rates` is the public face.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim {

/// Competitors of one flow are interchangeable, so they get one rate: the system is solved
/// for the flows present, each weighted by how often it occurs. Sums run in ascending order
/// of flow id; the result depends on the set only, not on the order of arrival.
class FairShareSolver {
 public:
  explicit FairShareSolver(const Machine& machine);

  /// `counts[f]`: how many tasks of flow f compete; `rates[f]`: the rate of each of them,
  /// bytes/s (untouched where the count is 0). Both have one entry a flow of the machine.
  void solve(std::span<const std::uint32_t> counts, std::span<double> rates);

 private:
  [[nodiscard]] bool all_fit(std::span<const std::uint32_t> counts);
  /// How far all open flows can rise together before a link is full.
  [[nodiscard]] double link_level(std::span<const std::uint32_t> counts,
                                  std::span<const double> rates);
  bool fix_at_solo_rate(double level, std::span<double> rates);
  void fix_on_full_links(double level, std::span<double> rates);
  [[nodiscard]] std::span<const LinkUse> uses(FlowId flow) const {
    return {uses_.data() + use_begin_[flow], uses_.data() + use_begin_[flow + 1U]};
  }

  std::vector<double> capacity_;   // by link
  std::vector<double> solo_rate_;  // by flow
  std::vector<LinkUse> uses_;      // flow f's are [use_begin_[f], use_begin_[f + 1])
  std::vector<std::uint32_t> use_begin_;
  std::vector<FlowId> present_;  // flows with a count, ascending
  std::vector<FlowId> open_;     // those of them whose rate is not fixed yet
  std::vector<FlowId> fixed_;
  std::vector<double> used_;    // by link: bytes/s drawn by fixed flows
  std::vector<double> weight_;  // by link: bytes on the link per byte of level, open flows
};

}  // namespace zenflow::sim
