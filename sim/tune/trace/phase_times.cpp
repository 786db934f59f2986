#include "sim/tune/trace/phase_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "sim/base/median.h"
#include "sim/schedule/step_plan.h"

namespace zenflow::sim {
namespace {

constexpr const char* kForward = "forward";
constexpr const char* kBackward = "backward";
constexpr const char* kOptimizer = "optimizer";
constexpr const char* kCompute = "compute";
constexpr double kPicosecond = 1e-12;

/// A part's timers: of all micro steps together, and of one.
struct Timers {
  const char* part;
  std::array<const char*, 2> of_step;
  const char* of_micro_step;
};
constexpr std::array<Timers, 3> kTimers{{{kForward, {"fwd", "forward"}, "fwd_microstep"},
                                         {kBackward, {"bwd", "backward"}, "bwd_microstep"},
                                         {kOptimizer, {"step", "optimizer"}, "step_microstep"}}};

std::vector<RecordedPart> of_log(const TimerLog& log, std::int64_t micro_steps) {
  std::vector<RecordedPart> found;
  for (const Timers& one : kTimers) {
    const TimerSeries* series = nullptr;
    double times = 1;
    for (const char* name : one.of_step) {
      if (series == nullptr) series = log.find(name);
    }
    if (series == nullptr) {
      series = log.find(one.of_micro_step);
      times = static_cast<double>(micro_steps);
    } else if (log.summed_micro_steps > 1) {
      // Under ZenFlow of another number of micro steps.
      times = static_cast<double>(micro_steps) / static_cast<double>(log.summed_micro_steps);
    }
    if (series == nullptr || series->values.empty()) continue;
    found.push_back({one.part, 1e-3 * times * median(series->values)});
  }
  return found;
}

double seconds_of(const Evaluation& own, WaitCause cause) {
  return kPicosecond * own.stall[static_cast<std::size_t>(cause)];
}

/// Of a micro step.
double simulated_part(const std::string& name, const Job& job, const Evaluation& own) {
  double forward = 0;
  double backward = 0;
  for (const PlannedLayer& layer : plan_step(job).layers) {
    forward += to_seconds(layer.forward).value();
    backward += to_seconds(layer.backward).value();
  }
  const auto stall = [&](WaitCause cause) { return seconds_of(own, cause); };
  if (name == kForward) return forward;
  if (name == kBackward) {
    return backward + stall(WaitCause::kD2H) + stall(WaitCause::kCollective);
  }
  if (name == kOptimizer) {
    return stall(WaitCause::kCpuUpdate) + stall(WaitCause::kNvme) + stall(WaitCause::kH2D);
  }
  if (name == kCompute) return kPicosecond * own.compute;
  return stall(wait_cause(name));
}

}  // namespace

std::vector<RecordedPart> recorded_parts(const ImportedTrace& trace, const TraceAnalysis& analysis,
                                         double step_seconds, std::int64_t micro_steps) {
  if (trace.timers) return of_log(*trace.timers, micro_steps);
  double whole = 0;
  double compute = 0;
  std::array<double, kStallCauses> stall{};
  for (const DeviceAnalysis& device : analysis.devices) {
    whole += to_seconds(device.span()).value();
    compute += to_seconds(device.compute).value();
    for (std::size_t i = 0; i < kStallCauses; ++i) stall[i] += to_seconds(device.stall[i]).value();
  }
  if (whole <= 0) return {};
  std::vector<RecordedPart> found = {{kCompute, step_seconds * compute / whole}};
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    found.push_back(
        {std::string(name_of(static_cast<WaitCause>(i))), step_seconds * stall[i] / whole});
  }
  return found;
}

std::vector<PartTime> part_times(const std::vector<RecordedPart>& recorded, const Job& job,
                                 const Evaluation& own) {
  const double micro_steps = own.micro_step > 0 ? own.step_time / own.micro_step : 1;
  std::vector<PartTime> found;
  for (const RecordedPart& one : recorded) {
    found.push_back({one.name, one.seconds, micro_steps * simulated_part(one.name, job, own)});
  }
  return found;
}

std::vector<PartTime> missed_parts(std::vector<PartTime> parts, double step_seconds) {
  constexpr double kLarge = 0.15;
  constexpr double kOfStep = 0.03;
  const auto miss = [](const PartTime& one) { return std::abs(one.recorded - one.simulated); };
  parts.erase(std::remove_if(parts.begin(), parts.end(),
                             [&](const PartTime& one) {
                               const double larger = std::max(one.recorded, one.simulated);
                               return miss(one) < kOfStep * step_seconds ||
                                      miss(one) < kLarge * larger;
                             }),
              parts.end());
  std::stable_sort(parts.begin(), parts.end(),
                   [&](const PartTime& a, const PartTime& b) { return miss(a) > miss(b); });
  return parts;
}

}  // namespace zenflow::sim
