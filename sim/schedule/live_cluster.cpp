#include "sim/schedule/live_cluster.h"

#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {

Cluster live_cluster(const Job& job, const LiveSettings& live) {
  const HardwareProfile& hardware = job.scenario.hardware;
  const LiveWork costs(job, live);
  const CpuWork update = costs.update();
  const CpuWork sum = costs.sum(false);
  const RankRates rates{copy_rate(hardware.host_link, Direction::kD2H, true),
                        copy_rate(hardware.host_link, Direction::kH2D, true),
                        Bytes(update.bytes) / update.time, Bytes(sum.bytes) / sum.time};
  if (hardware.gpu.runs_on_host()) {
    return make_host_device_cluster(job.scenario, rates, {live.optimizer_cores, live.sum_cores});
  }
  return make_cluster(job.scenario, rates);
}

}  // namespace zenflow::sim
