#include "sim/accuracy/step_figures.h"

#include <algorithm>

#include <fmt/format.h>

#include "sim/base/median.h"

namespace zenflow::sim {
namespace {

struct MetricRow {
  MetricGroup group;
  std::string_view key;  ///< of a cause: its name
};

constexpr std::array<MetricRow, kMetrics> kRows = {{
    {MetricGroup::kStep, "step_time_ms"},
    {MetricGroup::kStep, "gpu_compute_ms"},
    {MetricGroup::kStep, "gpu_stall_ms"},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kStallCause, {}},
    {MetricGroup::kTraffic, "d2h_bytes_per_step"},
    {MetricGroup::kTraffic, "h2d_bytes_per_step"},
    {MetricGroup::kMemory, "gpu_peak_bytes"},
    {MetricGroup::kMemory, "host_peak_bytes"},
    {MetricGroup::kPhase, "forward"},
    {MetricGroup::kPhase, "backward"},
    {MetricGroup::kPhase, "gradient_packing"},
    {MetricGroup::kPhase, "gpu_update"},
    {MetricGroup::kPhase, "selection"},
    {MetricGroup::kPhase, "collective"},
    {MetricGroup::kPhase, "d2h"},
    {MetricGroup::kPhase, "h2d"},
    {MetricGroup::kPhase, "accumulate"},
    {MetricGroup::kPhase, "cpu_update"},
    {MetricGroup::kPhase, "nvme"},
    {MetricGroup::kTimer, "forward"},
    {MetricGroup::kTimer, "backward"},
    {MetricGroup::kTimer, "step"},
}};

const MetricRow& row_of(Metric metric) {
  return kRows[static_cast<std::size_t>(metric)];
}

}  // namespace

const std::array<Metric, kMetrics>& all_metrics() {
  static const std::array<Metric, kMetrics> kAll = [] {
    std::array<Metric, kMetrics> all{};
    for (std::size_t i = 0; i < kMetrics; ++i) all[i] = static_cast<Metric>(i);
    return all;
  }();
  return kAll;
}

std::optional<Metric> phase_of(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return Metric::kForward;
    case Operation::kBackward:
      return Metric::kBackward;
    case Operation::kPackGradients:
    case Operation::kGradientNorm:
    case Operation::kGradientNorms:
    case Operation::kGatherSelected:
    case Operation::kGatherDeferred:
      return Metric::kPacking;
    case Operation::kBiasCorrections:
    case Operation::kUpdateSelected:
    case Operation::kCarrySelected:
    case Operation::kGpuUpdate:
      return Metric::kGpuUpdate;
    case Operation::kSelect:
    case Operation::kBroadcast:
    case Operation::kColumnNorms:
    case Operation::kColumnIndices:
    case Operation::kColumnExchange:
    case Operation::kInitialWeights:  // of columns newly chosen
      return Metric::kSelection;
    case Operation::kReduceScatter:
    case Operation::kAllReduce:
    case Operation::kAllGather:
      return Metric::kCollective;
    case Operation::kD2H:
    case Operation::kGradientsDown:
    case Operation::kGradientSumsDown:
      return Metric::kCopyDown;
    case Operation::kH2D:
    case Operation::kWeightsUp:
    case Operation::kPlaceWeights:
      return Metric::kCopyUp;
    case Operation::kAccumulate:
    case Operation::kGpuAccumulate:
      return Metric::kAccumulate;
    case Operation::kCpuUpdate:
    case Operation::kCpuScale:
    case Operation::kCpuCast:
      return Metric::kCpuUpdate;
    case Operation::kNvmeRead:
    case Operation::kNvmeWrite:
      return Metric::kNvme;
    case Operation::kUnknown:
    case Operation::kEnqueue:
    case Operation::kExport:
    case Operation::kCheckpoint:
    case Operation::kBatch:
    case Operation::kLoss:
    case Operation::kEvaluationLogits:
    case Operation::kRotaryAngles:
    case Operation::kProbe:
    case Operation::kSlowestRank:  // a wait
      break;
  }
  return std::nullopt;
}

MetricGroup group_of(Metric metric) {
  return row_of(metric).group;
}

std::string_view key_of(Metric metric) {
  if (group_of(metric) != MetricGroup::kStallCause) return row_of(metric).key;
  return name_of(static_cast<WaitCause>(static_cast<std::size_t>(metric) -
                                        static_cast<std::size_t>(Metric::kStallByCause)));
}

std::string path_of(Metric metric) {
  const std::string key(key_of(metric));
  switch (group_of(metric)) {
    case MetricGroup::kStallCause:
      return "stall_by_cause_ms." + key;
    case MetricGroup::kMemory:
      return "memory." + key;
    case MetricGroup::kPhase:
      return "phases_ms." + key;
    case MetricGroup::kTimer:
      return "timers_ms." + key;
    case MetricGroup::kStep:
    case MetricGroup::kTraffic:
      break;
  }
  return key;
}

std::string title_of(Metric metric) {
  switch (metric) {
    case Metric::kStep:
      return "step";
    case Metric::kCompute:
      return "GPU compute";
    case Metric::kStall:
      return "stall";
    case Metric::kD2HBytes:
      return "bytes down";
    case Metric::kH2DBytes:
      return "bytes up";
    case Metric::kDeviceMemory:
      return "device memory, peak";
    case Metric::kHostMemory:
      return "host memory, peak";
    default:
      break;
  }
  switch (group_of(metric)) {
    case MetricGroup::kPhase:
      return fmt::format("phase: {}", key_of(metric));
    case MetricGroup::kTimer:
      return fmt::format("timer: {}", key_of(metric));
    default:
      return fmt::format("stall: {}", key_of(metric));
  }
}

std::string format_metric(Metric metric, double value) {
  const MetricGroup group = group_of(metric);
  if (group == MetricGroup::kTraffic || group == MetricGroup::kMemory) {
    constexpr double kMega = 1e6;
    return value < kMega / 10 ? fmt::format("{:.0f} B", value)
                              : fmt::format("{:.2f} MB", value / kMega);
  }
  constexpr double kWhole = 1000;
  return fmt::format("{:.{}f}", value, value >= kWhole ? 0 : 2);
}

StepFigures median_of(const std::vector<StepFigures>& runs) {
  StepFigures result;
  for (const Metric metric : all_metrics()) {
    std::vector<double> values;
    for (const StepFigures& run : runs) {
      if (run[metric]) values.push_back(*run[metric]);
    }
    if (values.size() == runs.size()) result[metric] = median(std::move(values));
  }
  const std::size_t steps = runs.front().step_times.size();
  const bool alike = std::all_of(runs.begin(), runs.end(), [&](const StepFigures& run) {
    return run.step_times.size() == steps;
  });
  for (std::size_t i = 0; alike && i < steps; ++i) {
    std::vector<double> values;
    for (const StepFigures& run : runs) values.push_back(run.step_times[i]);
    result.step_times.push_back(median(std::move(values)));
  }
  return result;
}

}  // namespace zenflow::sim
