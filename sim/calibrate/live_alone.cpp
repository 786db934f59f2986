#include "sim/calibrate/live_alone.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/calibrate/live_fit.h"
#include "sim/report/simulated_timeline.h"
#include "sim/report/simulation.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {
namespace {

constexpr int kMostRounds = 10;
constexpr double kClose = 0.005;
constexpr double kDamping = 0.5;   // kinds of work compete for the same time: no overshooting
constexpr double kMostAtOnce = 2;  // by which a rate changes in a round
constexpr std::int64_t kFirstWindow = 2;  // of the simulated recording
constexpr std::int64_t kWindows = 5;

/// Seconds of one unit of each kind of work; the first are forward's and backward's.
constexpr std::size_t kModelUnits = 3;
using Units = std::array<double, 13>;

Units units_of(const HardwareProfile& machine) {
  const GpuProfile& gpu = machine.gpu;
  const double peak = gpu.peak.at(DType::kFp32).value();
  const double bandwidth = gpu.memory_bandwidth.value();
  return {1 / (gpu.gemm_efficiency * peak),
          1 / (gpu.attention_efficiency * peak),
          1 / (gpu.elementwise_efficiency * bandwidth),
          1 / (gpu.streaming_efficiency * bandwidth),
          1 / (gpu.column_share_of_bandwidth() * bandwidth),
          gpu.kernel_launch.value(),
          1 / machine.host_link.pinned.h2d.value(),
          1 / machine.host_link.pinned.d2h.value(),
          machine.host_link.latency.value(),
          1 / machine.host.adam_bandwidth.value(),
          1 / machine.host.core_bandwidth.value(),
          machine.host.step_gap.value(),
          machine.host.adam_launch.value()};
}

/// All types have one peak, as unknown_machine() has it.
void set_units(const Units& units, HardwareProfile& machine) {
  GpuProfile& gpu = machine.gpu;
  const double peak = 1 / std::min(units[0], units[1]);
  for (auto& [type, rate] : gpu.peak) rate = FlopsPerSecond(peak);
  gpu.gemm_efficiency = 1 / units[0] / peak;
  gpu.attention_efficiency = 1 / units[1] / peak;
  const double bandwidth = 1 / std::min({units[2], units[3], units[4]});
  gpu.memory_bandwidth = BytesPerSecond(bandwidth);
  gpu.elementwise_efficiency = 1 / units[2] / bandwidth;
  gpu.streaming_efficiency = 1 / units[3] / bandwidth;
  gpu.column_efficiency = 1 / units[4] / bandwidth;
  gpu.kernel_launch = Seconds(units[5]);
  HostPath& path = machine.host_link.pinned;
  path.h2d = BytesPerSecond(1 / units[6]);
  path.d2h = BytesPerSecond(1 / units[7]);
  path.bidirectional = path.h2d + path.d2h;
  machine.host_link.latency = Seconds(units[8]);
  HostProfile& host = machine.host;
  host.adam_bandwidth = BytesPerSecond(1 / units[9]);
  host.core_bandwidth = BytesPerSecond(1 / units[10]);
  host.elementwise_bandwidth =
      std::max(host.elementwise_bandwidth, static_cast<double>(host.cores) * host.core_bandwidth);
  host.dram_bandwidth =
      std::max({host.dram_bandwidth, host.adam_bandwidth, host.elementwise_bandwidth});
  host.step_gap = Seconds(units[11]);
  host.adam_launch = Seconds(units[12]);
}

/// Mean seconds of a layer's forward or backward.
double model_seconds(const Timeline& timeline, std::int64_t first_step) {
  Picoseconds begin{};
  for (const TimelineStep& step : timeline.steps) {
    if (step.number == first_step) begin = step.start;
  }
  double sum = 0;
  double count = 0;
  for (const TimelineSpan& span : timeline.spans) {
    const std::string& name = timeline.name_of(span);
    if (span.start < begin || timeline.tracks[span.track].name != "compute") continue;
    if (!name.starts_with("forward") && !name.starts_with("backward")) continue;
    sum += to_seconds(span.end - span.start).value();
    count += 1;
  }
  return count > 0 ? sum / count : 0;
}

struct Found {
  Units units;
  double model = 0;
};

/// What a fit makes of a simulated run at `point` on `machine`.
Found fit_of_simulated(const LiveModelSettings& settings, const TunePoint& point,
                       const HardwareProfile& machine) {
  Job job = live_job(settings, point, machine);
  const std::int64_t first = kFirstWindow * point.update_interval;
  job.scenario.run = {.warmup_steps = first,
                      .steps = (kWindows - kFirstWindow) * point.update_interval};
  const std::string schedule = "live-zenflow";
  const FullRun run = simulate_fully(job, find_schedule(schedule));
  const Timeline timeline = simulated_timeline(job, schedule, run);
  return {units_of(fit_live({{&job, schedule, &timeline, first}}).profile),
          model_seconds(timeline, first)};
}

}  // namespace

HardwareProfile alone(const LiveModelSettings& settings, const LiveWindows& recording,
                      const HardwareProfile& fitted) {
  const Found wanted{units_of(fitted), model_seconds(recording.timeline, recording.first_step)};
  Units units = wanted.units;
  HardwareProfile machine = fitted;
  set_units(units, machine);
  for (int round = 0; round < kMostRounds; ++round) {
    const Found found = fit_of_simulated(settings, recording.point, machine);
    const double damping = round == 0 ? 1 : kDamping;
    double worst = 0;
    for (std::size_t i = 0; i < units.size(); ++i) {
      const double aim = i < kModelUnits ? wanted.model : wanted.units[i];
      const double is = i < kModelUnits ? found.model : found.units[i];
      if (aim <= 0 || is <= 0) continue;
      const double ratio = std::clamp(aim / is, 1 / kMostAtOnce, kMostAtOnce);
      units[i] *= std::pow(ratio, damping);
      worst = std::max(worst, std::abs(std::log(ratio)));
    }
    set_units(units, machine);
    if (worst < kClose) break;
  }
  return machine;
}

}  // namespace zenflow::sim
