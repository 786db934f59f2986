#include "sim/engine/fair_share.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/engine/fair_share_solver.h"

namespace zenflow::sim {
namespace {

// Sums of rates carry rounding errors of some 1e-16. Without this slack, three flows of
// 8.1 GB/s on a link of 24.3 GB/s would be slowed by one part in 1e16, and every task on
// them would end a picosecond late.
constexpr double kRoundingSlack = 1.0 + 1e-12;

}  // namespace

FairShareSolver::FairShareSolver(const Machine& machine)
    : used_(machine.links.size()), weight_(machine.links.size()) {
  for (const Link& link : machine.links) capacity_.push_back(link.capacity.value());
  use_begin_.push_back(0);
  for (const Flow& flow : machine.flows) {
    solo_rate_.push_back(flow.solo_rate.value());
    uses_.insert(uses_.end(), flow.uses.begin(), flow.uses.end());
    use_begin_.push_back(static_cast<std::uint32_t>(uses_.size()));
  }
  present_.reserve(machine.flows.size());
  open_.reserve(machine.flows.size());
  fixed_.reserve(machine.flows.size());
}

void FairShareSolver::solve(std::span<const std::uint32_t> counts, std::span<double> rates) {
  present_.clear();
  for (std::size_t flow = 0; flow < counts.size(); ++flow) {
    if (counts[flow] == 0) continue;
    present_.push_back(static_cast<FlowId>(flow));
    rates[flow] = solo_rate_[flow];
  }
  if (all_fit(counts)) return;
  open_ = present_;
  fixed_.clear();
  // Fixing flows at less than the common level leaves more for the others, so the level
  // never falls; enforced, because a difference of large sums could round below zero.
  double level = 0.0;
  while (!open_.empty()) {
    level = std::max(level, link_level(counts, rates));
    if (!fix_at_solo_rate(level, rates)) fix_on_full_links(level, rates);
  }
}

bool FairShareSolver::all_fit(std::span<const std::uint32_t> counts) {
  std::fill(weight_.begin(), weight_.end(), 0.0);
  for (const FlowId flow : present_) {
    for (const LinkUse& use : uses(flow)) {
      weight_[use.link] += counts[flow] * use.coefficient * solo_rate_[flow];
    }
  }
  for (std::size_t link = 0; link < capacity_.size(); ++link) {
    if (weight_[link] > capacity_[link] * kRoundingSlack) return false;
  }
  return true;
}

double FairShareSolver::link_level(std::span<const std::uint32_t> counts,
                                   std::span<const double> rates) {
  // Summed afresh every round: subtracting what was fixed would leave residues behind.
  std::fill(used_.begin(), used_.end(), 0.0);
  std::fill(weight_.begin(), weight_.end(), 0.0);
  for (const FlowId flow : fixed_) {
    for (const LinkUse& use : uses(flow)) {
      used_[use.link] += counts[flow] * use.coefficient * rates[flow];
    }
  }
  for (const FlowId flow : open_) {
    for (const LinkUse& use : uses(flow)) weight_[use.link] += counts[flow] * use.coefficient;
  }
  double level = std::numeric_limits<double>::infinity();
  for (std::size_t link = 0; link < capacity_.size(); ++link) {
    if (weight_[link] > 0) level = std::min(level, (capacity_[link] - used_[link]) / weight_[link]);
  }
  return level;
}

/// Flows whose solo rate lies below the level all reach it: the level only rises from here.
bool FairShareSolver::fix_at_solo_rate(double level, std::span<double> rates) {
  const std::size_t before = fixed_.size();
  for (const FlowId flow : open_) {
    if (solo_rate_[flow] > level * kRoundingSlack) continue;
    rates[flow] = solo_rate_[flow];
    fixed_.push_back(flow);
  }
  std::erase_if(open_, [&](FlowId flow) { return solo_rate_[flow] <= level * kRoundingSlack; });
  return fixed_.size() > before;
}

void FairShareSolver::fix_on_full_links(double level, std::span<double> rates) {
  const auto is_full = [&](const LinkUse& use) {
    return (capacity_[use.link] - used_[use.link]) <= level * kRoundingSlack * weight_[use.link];
  };
  const auto is_held = [&](FlowId flow) {
    return std::any_of(uses(flow).begin(), uses(flow).end(), is_full);
  };
  for (const FlowId flow : open_) {
    if (!is_held(flow)) continue;
    rates[flow] = level;
    fixed_.push_back(flow);
  }
  std::erase_if(open_, is_held);
}

std::vector<double> fair_rates(const Machine& machine, std::span<const FlowId> active) {
  std::vector<std::uint32_t> counts(machine.flows.size(), 0);
  const auto join = [&](FlowId flow) {
    if (flow >= counts.size()) {
      throw Error(
          ErrorKind::kRuntime,
          fmt::format("fair share: flow {} is active, but there are {}", flow, counts.size()));
    }
    ++counts[flow];
  };
  for (const FlowId flow : active) join(flow);
  for (const FlowId flow : machine.background) join(flow);
  std::vector<double> by_flow(machine.flows.size(), 0.0);
  FairShareSolver(machine).solve(counts, by_flow);
  std::vector<double> rates;
  rates.reserve(active.size());
  for (const FlowId flow : active) rates.push_back(by_flow[flow]);
  return rates;
}

}  // namespace zenflow::sim
