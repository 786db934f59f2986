#include "sim/tune/worker_effect.h"

#include <algorithm>
#include <vector>

#include "sim/engine/fair_share.h"

namespace zenflow::sim {
namespace {

/// How fast `flow` goes while the flows in `concurrent` run too, of its speed at best.
double share_of(const Machine& machine, FlowId flow, const std::vector<FlowId>& concurrent) {
  if (flow == kNoFlow) return 1;
  std::vector<FlowId> active = {flow};
  for (const FlowId other : concurrent) {
    if (other != kNoFlow) active.push_back(other);
  }
  return fair_rates(machine, active).front() / machine.flows[flow].solo_rate.value();
}

/// The effect on one rank class. Flows of the same kind on other ranks are already in its own
/// coefficients.
WorkerEffect effect_on(const Cluster& cluster, const RankClass& rank) {
  const Machine& machine = cluster.machine;
  const FlowId worker = rank.cpu_update.flow;
  const auto slowed = [&](FlowId copy, const std::vector<FlowId>& concurrent) {
    std::vector<FlowId> with_worker = concurrent;
    with_worker.push_back(worker);
    return share_of(machine, copy, with_worker) / share_of(machine, copy, concurrent);
  };
  WorkerEffect effect;
  effect.d2h = slowed(rank.d2h.flow, {});
  effect.h2d = slowed(rank.h2d.flow, {});
  std::vector<FlowId> all;
  for (const RankClass& one : cluster.classes) {
    for (const LaneUse& use : {one.compute, one.d2h, one.h2d, one.cpu_update}) {
      if (use.flow != worker) all.push_back(use.flow);
    }
  }
  effect.worker = share_of(machine, worker, all);
  // At full speed it leaves half of the cores, and every bit below as much more.
  if (rank.compute.flow != kNoFlow) effect.compute = 1 - effect.worker / 2;
  effect.apart = rank.compute.flow == kNoFlow && effect.d2h == 1 && effect.h2d == 1 &&
                 slowed(rank.d2h.flow, {rank.h2d.flow}) == 1 &&
                 slowed(rank.h2d.flow, {rank.d2h.flow}) == 1;
  return effect;
}

}  // namespace

WorkerEffect worker_effect(const Scenario& scenario, const RankRates& rates) {
  const Cluster cluster = make_cluster(scenario, rates);
  WorkerEffect least{0, 0, 0, 1, true};
  for (const RankClass& one : cluster.classes) {
    const WorkerEffect effect = effect_on(cluster, one);
    least.compute = std::max(least.compute, effect.compute);
    least.d2h = std::max(least.d2h, effect.d2h);
    least.h2d = std::max(least.h2d, effect.h2d);
    least.worker = std::min(least.worker, effect.worker);
    least.apart = least.apart && effect.apart;
  }
  return least;
}

}  // namespace zenflow::sim
