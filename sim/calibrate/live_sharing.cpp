#include "sim/calibrate/live_sharing.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "sim/cost/transfer_cost.h"

namespace zenflow::sim {
namespace {

struct SharedOperation {
  Operation operation;
  const char* what;
  const char* amount;  ///< the samples', in millions
};
constexpr std::array<SharedOperation, 4> kShared = {{
    {Operation::kGradientsDown, "copies of gradients", "MB"},
    {Operation::kWeightsUp, "copies of weights", "MB"},
    {Operation::kCpuUpdate, "updates of layers", "MB of traffic"},
    {Operation::kAccumulate, "sums of layers", "MB of traffic"},
}};

/// Its bytes, on the link or of memory traffic, and what it takes in isolation.
struct IsolatedTime {
  double bytes;
  Seconds time;
};
IsolatedTime isolated_time(const LiveSample& sample, const LiveRun& run, const LiveWork& work,
                           const HostLinkProfile& link) {
  const double elements = run.layers[sample.layer].deferred_elements();
  switch (sample.operation) {
    case Operation::kCpuUpdate:
      return {work.update_bytes() * elements, work.update().call(elements)};
    case Operation::kAccumulate:
      return {work.sum_bytes(sample.first) * elements, work.sum(sample.first).call(elements)};
    default: {
      const bool down = sample.operation == Operation::kGradientsDown;
      const Direction way = down ? Direction::kD2H : Direction::kH2D;
      return {sample.bytes, copy_time(link, way, true, Bytes(sample.bytes))};
    }
  }
}

/// Predicted seconds of all samples of one operation, in their order.
std::vector<double> predict(const std::vector<LiveRun>& runs, Operation operation,
                            const HardwareProfile& profile) {
  std::vector<double> seconds;
  for (const LiveRun& run : runs) {
    Job job = *run.job;
    job.scenario.hardware = profile;
    const LiveWork work(job, run.live);
    LiveProgress progress(run, profile);
    for (std::size_t i = 0; i < run.samples.size(); ++i) {
      if (run.samples[i].operation != operation) continue;
      const IsolatedTime isolated = isolated_time(run.samples[i], run, work, profile.host_link);
      if (isolated.bytes > 0) seconds.push_back(isolated.time.value() / progress.of(i));
    }
  }
  return seconds;
}

}  // namespace

bool overlap(const std::vector<LiveRun>& runs) {
  const auto is_contended = [](const ConcurrentWork& concurrent) {
    return std::any_of(concurrent.begin(), concurrent.end(),
                       [](const auto& part) { return part.first != 0; });
  };
  return std::any_of(runs.begin(), runs.end(), [&](const LiveRun& run) {
    return std::any_of(run.concurrent.begin(), run.concurrent.end(), is_contended);
  });
}

std::vector<TimedGroup> shared_times(const std::vector<LiveRun>& runs) {
  constexpr double kMega = 1e6;
  std::vector<TimedGroup> groups;
  for (const SharedOperation& one : kShared) {
    TimedGroup group{.what = one.what,
                     .seconds = {},
                     .amounts = {},
                     .amount_unit = kMega,
                     .amount_name = one.amount,
                     .predict = {}};
    for (const LiveRun& run : runs) {
      const LiveWork work(*run.job, run.live);
      for (const LiveSample& sample : run.samples) {
        if (sample.operation != one.operation) continue;
        const IsolatedTime isolated =
            isolated_time(sample, run, work, run.job->scenario.hardware.host_link);
        if (isolated.bytes <= 0) continue;
        group.seconds.push_back(sample.seconds);
        group.amounts.push_back(isolated.bytes);
      }
    }
    if (group.seconds.empty()) continue;
    group.predict = [&runs, operation = one.operation](const HardwareProfile& profile) {
      return predict(runs, operation, profile);
    };
    groups.push_back(std::move(group));
  }
  return groups;
}

void set_core_bandwidth(HostProfile& host, double cores, double value) {
  host.core_bandwidth = BytesPerSecond(value);
  host.elementwise_bandwidth = std::max(host.elementwise_bandwidth, cores * host.core_bandwidth);
}

std::vector<ProfileConstant> shared_constants(const HardwareProfile& profile, double sum_cores,
                                              bool several_cores) {
  constexpr std::array<std::string_view, 2> kCapacities = {"host.dram_bandwidth",
                                                           "host_link.bidirectional"};
  constexpr std::array<std::string_view, 6> kRates = {"host_link.h2d",     "host_link.d2h",
                                                      "host_link.latency", "host.adam_bandwidth",
                                                      "host.adam_launch",  "host.core_bandwidth"};
  const auto is_in = [](const auto& list, const std::string& path) {
    return std::find(list.begin(), list.end(), path) != list.end();
  };
  std::vector<ProfileConstant> found;
  for (ProfileConstant& one : profile_constants(profile)) {
    one.is_capacity = is_in(kCapacities, one.path);
    const bool is_half = several_cores && one.path == "host.adam_half_cores";
    if (!one.is_capacity && !is_in(kRates, one.path) && !is_half) continue;
    if (one.path == "host.core_bandwidth") {
      one.set = [sum_cores](HardwareProfile& p, double value) {
        set_core_bandwidth(p.host, sum_cores, value);
      };
    }
    found.push_back(std::move(one));
  }
  return found;
}

}  // namespace zenflow::sim
