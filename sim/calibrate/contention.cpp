#include "sim/calibrate/contention.h"

#include <algorithm>

#include "sim/engine/fair_share.h"

namespace zenflow::sim {

ConcurrentWork concurrent_work(const Interval& span, std::span<const WorkTimes> others) {
  // Each change flips a bit.
  std::vector<std::pair<Picoseconds, WorkSet>> changes = {{span.start, 0}};
  for (const WorkTimes& other : others) {
    const Intervals& times = *other.times;
    auto at = std::partition_point(times.begin(), times.end(),
                                   [&](const Interval& one) { return one.end <= span.start; });
    for (; at != times.end() && at->start < span.end; ++at) {
      changes.emplace_back(std::max(at->start, span.start), other.bit);
      changes.emplace_back(std::min(at->end, span.end), other.bit);
    }
  }
  std::sort(changes.begin(), changes.end());
  std::map<WorkSet, double> lengths;
  WorkSet set = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    set ^= changes[i].second;
    const Picoseconds until = i + 1 < changes.size() ? changes[i + 1].first : span.end;
    if (until > changes[i].first) lengths[set] += to_seconds(until - changes[i].first).value();
  }
  return {lengths.begin(), lengths.end()};
}

double FairProgress::of(std::size_t own, WorkSet others) {
  if (flows_[own] == kNoFlow) return 1;
  const auto [entry, is_new] = known_.try_emplace({others, own}, 1.0);
  if (!is_new) return entry->second;
  std::vector<FlowId> active;
  std::size_t at = 0;
  for (std::size_t kind = 0; kind < flows_.size(); ++kind) {
    const bool runs = kind == own || ((others >> kind) & 1U) != 0;
    if (!runs || flows_[kind] == kNoFlow) continue;
    if (kind == own) at = active.size();
    active.push_back(flows_[kind]);
  }
  entry->second = fair_rates(machine_, active)[at] / machine_.flows[flows_[own]].solo_rate.value();
  return entry->second;
}

double FairProgress::mean(std::size_t own, const ConcurrentWork& concurrent) {
  double whole = 0;
  double progressed = 0;
  for (const auto& [others, seconds] : concurrent) {
    whole += seconds;
    progressed += seconds * of(own, others);
  }
  return whole > 0 ? progressed / whole : 1;
}

}  // namespace zenflow::sim
