#include "sim/calibrate/live_operation_times.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>

#include "sim/base/median.h"
#include "sim/calibrate/live_rows.h"
#include "sim/cost/cpu_cost.h"

namespace zenflow::sim {
namespace {

using Unit = LiveUnit;

/// The step in which `time` lies; before the first: that.
std::int64_t step_at(const std::vector<TimelineStep>& steps, Picoseconds time) {
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), time,
                       [](Picoseconds at, const TimelineStep& step) { return at < step.start; });
  return after == steps.begin() ? steps.front().number : std::prev(after)->number;
}

class WorkReader {
 public:
  WorkReader(const LiveRun& run, const HostProfile& host)
      : run_(run), host_(host), work_(*run.job, run.live) {
    for (const LiveLayer& layer : run.layers) deferred_ += layer.deferred_elements();
  }

  /// Nothing: forward, backward, or no work at all.
  [[nodiscard]] std::optional<PerUnit<double>> of(const LiveSample& sample) const {
    PerUnit<double> work{};
    const double elements = run_.layers[sample.layer].deferred_elements();
    switch (sample.operation) {
      case Operation::kGradientsDown:
        work[Unit::kDown] = sample.bytes;
        work[Unit::kCopies] = 1;
        return work;
      case Operation::kWeightsUp:
        work[Unit::kUp] = sample.bytes;
        work[Unit::kCopies] = 1;
        return work;
      case Operation::kCpuUpdate:
        if (elements <= 0) return std::nullopt;
        work[Unit::kUpdated] = work_.update_bytes() * elements *
                               (host_.adam_bandwidth / adam_rate(host_, run_.live.optimizer_cores));
        work[Unit::kUpdateCalls] = 1;
        return work;
      case Operation::kAccumulate:
        if (elements <= 0) return std::nullopt;
        work[Unit::kSummed] = work_.sum_bytes(sample.first) * elements / run_.live.sum_cores;
        return work;
      case Operation::kGpuAccumulate:
        work[Unit::kSummed] = work_.sum_bytes(sample.first) * deferred_;
        return work;
      case Operation::kPackGradients:
      case Operation::kUpdateSelected:
      case Operation::kCarrySelected:
      case Operation::kPlaceWeights:
        return of_device(*device_work(work_, run_.layers, sample));
      default:
        return std::nullopt;
    }
  }

 private:
  static std::optional<PerUnit<double>> of_device(const DeviceWork& moved) {
    PerUnit<double> work{};
    work[Unit::kStreamed] = moved.streamed;
    work[Unit::kColumns] = moved.columns;
    work[Unit::kKernels] = moved.kernels;
    return work;
  }

  const LiveRun& run_;
  const HostProfile& host_;
  LiveWork work_;
  double deferred_ = 0;  // elements of all layers
};

struct Collected {
  PerUnit<double> work{};
  std::map<std::int64_t, std::vector<double>> seconds;  ///< by place in the window
};

double times(const PerUnit<double>& work, const PerUnit<double>& units) {
  double sum = 0;
  for (std::size_t i = 0; i < kLiveUnits; ++i) sum += work[i] * units[i];
  return sum;
}

/// Operations as they would be in isolation, and fits of the units that they have in common.
class UnitFits {
 public:
  UnitFits(std::vector<OperationTime> operations, const PerUnit<double>& given)
      : operations_(std::move(operations)), given_(given) {
    for (std::size_t i = 0; i < kLiveUnits; ++i) units_[i] = {given[i], 0, false};
  }

  PerUnit<UnitTime> take() {
    fit({Unit::kUp, Unit::kDown, Unit::kCopies});
    fit({Unit::kUpdated, Unit::kUpdateCalls});
    fit({Unit::kSummed});
    fit({Unit::kStreamed, Unit::kColumns, Unit::kKernels});
    if (has(Unit::kStreamed) && has(Unit::kColumns) &&
        !(units_[Unit::kStreamed].identifiable && units_[Unit::kColumns].identifiable)) {
      tie();
    }
    return units_;
  }

 private:
  [[nodiscard]] bool has(Unit unit) const {
    return std::any_of(operations_.begin(), operations_.end(),
                       [unit](const OperationTime& one) { return one.work[unit] > 0; });
  }
  [[nodiscard]] static bool has_any(const OperationTime& one, const std::vector<Unit>& of) {
    return std::any_of(of.begin(), of.end(), [&](Unit unit) { return one.work[unit] > 0; });
  }

  void fit(const std::vector<Unit>& of) {
    std::vector<TimedWork> rows;
    for (const OperationTime& one : operations_) {
      if (!has_any(one, of)) continue;
      TimedWork row{{}, one.seconds};
      for (const Unit unit : of) row.work.push_back(one.work[unit]);
      rows.push_back(std::move(row));
    }
    std::vector<double> given;
    for (const Unit unit : of) given.push_back(given_[unit]);
    const TimeFit found = fit_times(rows, given);
    for (std::size_t i = 0; i < of.size(); ++i) units_[of[i]] = found.units[i];
  }

  /// Fits one rate for both kinds of bytes, and a time for each kernel; if the rate is not above
  /// zero beside kernels, kernels take what is given.
  void tie() {
    std::vector<TimedWork> rows;
    std::vector<TimedWork> bytes_only;
    for (const OperationTime& one : operations_) {
      if (!has_any(one, {Unit::kStreamed, Unit::kColumns})) continue;
      const double bytes = one.work[Unit::kStreamed] + one.work[Unit::kColumns];
      const double kernels = one.work[Unit::kKernels];
      rows.push_back({{bytes, kernels}, one.seconds});
      bytes_only.push_back({{bytes}, one.seconds, kernels * given_[Unit::kKernels]});
    }
    TimeFit found = fit_times(rows, std::vector{given_[Unit::kStreamed], given_[Unit::kKernels]});
    if (!found.units[0].identifiable) {
      found = fit_times(bytes_only, std::vector{given_[Unit::kStreamed]});
      found.units.push_back({given_[Unit::kKernels], 0, false});
    }
    units_[Unit::kStreamed] = units_[Unit::kColumns] = found.units[0];
    units_[Unit::kKernels] = found.units[1];
  }

  std::vector<OperationTime> operations_;
  const PerUnit<double>& given_;
  PerUnit<UnitTime> units_{};
};

}  // namespace

PerUnit<double> live_units(const HardwareProfile& machine) {
  const GpuProfile& gpu = machine.gpu;
  const double bandwidth = gpu.memory_bandwidth.value();
  const HostPath& link = machine.host_link.pinned;
  const HostProfile& host = machine.host;
  return {1 / (gpu.streaming_efficiency * bandwidth),
          1 / (gpu.column_share_of_bandwidth() * bandwidth),
          gpu.kernel_launch.value(),
          1 / link.h2d.value(),
          1 / link.d2h.value(),
          machine.host_link.latency.value(),
          1 / host.adam_bandwidth.value(),
          host.adam_launch.value(),
          1 / host.core_bandwidth.value()};
}

OperationTimes operation_times(const LiveRun& run, const Timeline& timeline,
                               std::int64_t first_step, const HostProfile& host) {
  const WorkReader reader(run, host);
  std::map<OperationKey, Collected> collected;
  for (const LiveSample& sample : run.samples) {
    const auto work = reader.of(sample);
    if (!work) continue;
    Collected& one =
        collected[{sample.operation, sample.layer,
                   static_cast<std::int64_t>(std::llround(sample.bytes)), sample.first}];
    one.work = *work;
    const std::int64_t place =
        (step_at(timeline.steps, sample.start) - first_step) % run.live.update_interval;
    one.seconds[place].push_back(sample.seconds);
  }
  OperationTimes found;
  for (auto& [key, one] : collected) {
    double sum = 0;
    double count = 0;
    for (auto& [place, seconds] : one.seconds) {
      const auto samples = static_cast<double>(seconds.size());
      sum += samples * upper_median(std::move(seconds));
      count += samples;
    }
    found[key] = {one.work, sum / count};
  }
  return found;
}

PerUnit<UnitTime> isolated_units(const std::vector<OperationTimes>& recorded,
                                 const std::vector<OperationTimes>& simulated,
                                 const PerUnit<double>& units, const PerUnit<double>& given) {
  std::vector<OperationTime> operations;
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    for (const auto& [key, one] : recorded[i]) {
      const auto same = simulated[i].find(key);
      if (same == simulated[i].end()) continue;
      const double slowed = same->second.seconds / times(one.work, units);
      operations.push_back({one.work, one.seconds / slowed});
    }
  }
  return UnitFits(std::move(operations), given).take();
}

}  // namespace zenflow::sim
