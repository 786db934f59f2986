#include "sim/schedule/live_cluster.h"

#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {
namespace {

/// Each rank that owns parameters differs from every other one; those that own none are alike.
std::vector<AlikeRanks> alike_ranks(const Job& job) {
  const std::int64_t ranks = job.scenario.ranks();
  std::vector<AlikeRanks> classes;
  AlikeRanks without{.count = ranks};
  for (const int rank : owning_ranks(job.scenario.model, static_cast<int>(ranks))) {
    classes.push_back({rank, 1});
    --without.count;
    if (without.first_rank == rank) ++without.first_rank;
  }
  if (without.count > 0) classes.push_back(without);
  return classes;
}

}  // namespace

Cluster live_cluster(const Job& job, const LiveSettings& live) {
  const HardwareProfile& hardware = job.scenario.hardware;
  const LiveWork costs(job, live);
  const CpuWork update = costs.update();
  const CpuWork sum = costs.sum(false);
  const RankRates rates{copy_rate(hardware.host_link, Direction::kD2H, true),
                        copy_rate(hardware.host_link, Direction::kH2D, true),
                        Bytes(update.bytes) / update.time, Bytes(sum.bytes) / sum.time};
  if (hardware.gpu.runs_on_host()) {
    return make_host_device_cluster(job.scenario, rates, {live.optimizer_cores, live.sum_cores},
                                    alike_ranks(job));
  }
  return make_cluster(job.scenario, rates);
}

}  // namespace zenflow::sim
