/// Max-min fair rates found the slow way: by bisection on feasibility alone. Shares no code
/// and no formula with the solver of sim/engine.
#pragma once

#include <algorithm>
#include <vector>

#include "sim/graph/task_graph.h"

namespace zenflow::sim::testing {

/// Bytes/s on `link` if competitor i of `active` runs at `rates[i]`.
inline double load(const Machine& machine, const std::vector<FlowId>& active,
                   const std::vector<double>& rates, LinkId link) {
  double sum = 0;
  for (std::size_t i = 0; i < active.size(); ++i) {
    for (const LinkUse& use : machine.flows[active[i]].uses) {
      if (use.link == link) sum += use.coefficient * rates[i];
    }
  }
  return sum;
}

inline bool is_feasible(const Machine& machine, const std::vector<FlowId>& active,
                        const std::vector<double>& rates, double tolerance) {
  for (LinkId link = 0; link < machine.links.size(); ++link) {
    if (load(machine, active, rates, link) >
        machine.links[link].capacity.value() * (1 + tolerance)) {
      return false;
    }
  }
  for (std::size_t i = 0; i < active.size(); ++i) {
    if (rates[i] > machine.flows[active[i]].solo_rate.value()) return false;
  }
  return true;
}

/// Raises the level of all competitors that are still free as far as is feasible, then finds
/// out by trial which of them cannot be raised alone; repeats with the others.
inline std::vector<double> reference_max_min(const Machine& machine,
                                             const std::vector<FlowId>& active) {
  std::vector<double> fixed(active.size(), -1.0);
  double highest = 0;
  for (const Flow& flow : machine.flows) highest = std::max(highest, flow.solo_rate.value());
  const auto at_level = [&](double level) {
    std::vector<double> rates = fixed;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      if (rates[i] < 0) rates[i] = std::min(level, machine.flows[active[i]].solo_rate.value());
    }
    return rates;
  };
  while (std::find(fixed.begin(), fixed.end(), -1.0) != fixed.end()) {
    double low = 0;
    double high = highest;
    for (int i = 0; i < 200; ++i) {
      const double middle = low + (high - low) / 2;
      (is_feasible(machine, active, at_level(middle), 1e-13) ? low : high) = middle;
    }
    const std::vector<double> rates = at_level(low);
    bool any = false;
    for (std::size_t i = 0; i < rates.size(); ++i) {
      if (fixed[i] >= 0) continue;
      std::vector<double> raised = rates;
      raised[i] *= 1 + 1e-6;
      if (is_feasible(machine, active, raised, 1e-10)) continue;
      fixed[i] = rates[i];
      any = true;
    }
    // Everybody can be raised alone only if the bisection ended at the highest rate of all.
    if (!any) return rates;
  }
  return fixed;
}

}  // namespace zenflow::sim::testing
