#include "sim/accuracy/recorded_figures.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

struct NamedPhase {
  std::string_view beginning;  ///< of the span's name
  Metric metric;
};

// The runtime's names, then those of simulated tasks (simulated_timeline.h).
constexpr std::array<NamedPhase, 14> kDevicePhases = {{
    {"forward", Metric::kForward},
    {"backward", Metric::kBackward},
    {"gradient norm", Metric::kPacking},  // and "gradient norms"
    {"gather selected", Metric::kPacking},
    {"gather deferred", Metric::kPacking},
    {"bias corrections", Metric::kGpuUpdate},
    {"update selected", Metric::kGpuUpdate},
    {"carry selected", Metric::kGpuUpdate},
    {"gpu_update", Metric::kGpuUpdate},
    {"sum gradients", Metric::kAccumulate},
    {"gpu_accumulate", Metric::kAccumulate},
    {"column", Metric::kSelection},  // norms, indices, exchange
    {"select", Metric::kSelection},
    {"initial weights", Metric::kSelection},  // of columns newly chosen
}};

enum class Lane : std::uint8_t { kCompute, kDown, kUp, kUpdate, kSum, kTraining, kOther };

Lane lane_of(std::string_view track) {
  if (track == "compute") return Lane::kCompute;
  if (track == "d2h") return Lane::kDown;
  if (track == "h2d") return Lane::kUp;
  if (track == "cpu optimizer" || track == "cpu_update") return Lane::kUpdate;
  if (track == "cpu sums" || track == "cpu_accumulate") return Lane::kSum;
  if (track == "training thread") return Lane::kTraining;
  return Lane::kOther;
}

bool is_wait(const Timeline& timeline, const TimelineSpan& span) {
  return span.kind == SpanKind::kSync || timeline.name_of(span) == "wait";
}

class Reader {
 public:
  Reader(const Timeline& timeline, const RecordedSteps& steps)
      : timeline_(timeline), steps_(steps), count_(static_cast<double>(steps.end - steps.first)) {}

  StepFigures take() {
    for (const Track& track : timeline_.tracks) lanes_.push_back(lane_of(track.name));
    if (std::find(lanes_.begin(), lanes_.end(), Lane::kCompute) == lanes_.end()) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: no track \"compute\": expected a recording of zenflow-train "
                              "--trace; of other programs' give --schedule in place of --setting",
                              timeline_.name));
    }
    for (const Metric metric :
         {Metric::kForward, Metric::kBackward, Metric::kPacking, Metric::kGpuUpdate,
          Metric::kSelection, Metric::kCollective, Metric::kCopyDown, Metric::kCopyUp,
          Metric::kAccumulate, Metric::kCpuUpdate, Metric::kNvme, Metric::kCompute,
          Metric::kD2HBytes, Metric::kH2DBytes}) {
      figures_[metric] = 0;
    }
    for (const TimelineSpan& span : timeline_.spans) {
      if (counts(span)) add(span);
    }
    // Whole numbers until here: the mean is the one that a traffic formula gives.
    *figures_[Metric::kD2HBytes] /= count_;
    *figures_[Metric::kH2DBytes] /= count_;
    step_times();
    stall();
    return figures_;
  }

 private:
  /// By the step that a span says it belongs to, else by when it begins.
  [[nodiscard]] bool counts(const TimelineSpan& span) const {
    const std::int32_t step = timeline_.extra_of(span).step;
    if (step >= 0) return step >= steps_.first && step < steps_.end;
    return span.start >= steps_.begin && span.start < steps_.finish;
  }

  void add_time(Metric metric, const TimelineSpan& span) {
    *figures_[metric] += to_milliseconds(span.end - span.start) / count_;
  }

  void add(const TimelineSpan& span) {
    const std::string_view name = operation_name(timeline_, span);
    const Lane lane = lanes_[span.track];
    if (is_wait(timeline_, span)) return add_wait(span, lane);
    switch (lane) {
      case Lane::kCompute:
        return add_compute(span, name);
      case Lane::kDown:
        *figures_[Metric::kD2HBytes] += std::max(0.0, timeline_.extra_of(span).bytes);
        return add_time(Metric::kCopyDown, span);
      case Lane::kUp:
        // What is then put in its place is not moved again.
        if (name != "scatter weights") {
          *figures_[Metric::kH2DBytes] += std::max(0.0, timeline_.extra_of(span).bytes);
        }
        return add_time(Metric::kCopyUp, span);
      case Lane::kUpdate:
        return add_time(Metric::kCpuUpdate, span);
      case Lane::kSum:
        return add_time(Metric::kAccumulate, span);
      case Lane::kTraining:
      case Lane::kOther:
        return;
    }
  }

  void add_compute(const TimelineSpan& span, std::string_view name) {
    // A GPU's operations are ranges over its work; what the stream waited for is not recorded.
    if (span.kind == SpanKind::kRange) has_causes_ = false;
    add_time(Metric::kCompute, span);
    for (const NamedPhase& one : kDevicePhases) {
      if (!name.starts_with(one.beginning)) continue;
      // Simulated: the first one after a layer's backward packs that layer's gradients.
      const bool packs = one.beginning == "gpu_update" && std::exchange(after_backward_, false);
      if (one.metric == Metric::kBackward) after_backward_ = true;
      return add_time(packs ? Metric::kPacking : one.metric, span);
    }
  }

  void add_wait(const TimelineSpan& span, Lane lane) {
    const std::string& cause = timeline_.names[timeline_.extra_of(span).cause];
    const double time = to_milliseconds(span.end - span.start) / count_;
    if (lane == Lane::kCompute && cause.empty()) has_causes_ = false;
    if (lane == Lane::kTraining && cause == "cpu_update") waited_for_update_ += time;
    if (lane == Lane::kCompute && cause == "d2h") waited_for_d2h_ += time;
    if (lane == Lane::kCompute && cause == "h2d") waited_for_h2d_ += time;
  }

  void step_times() {
    std::vector<double> sums(static_cast<std::size_t>(steps_.window), 0.0);
    for (const TimelineStep& step : timeline_.steps) {
      if (step.number < steps_.first || step.number >= steps_.end) continue;
      sums[static_cast<std::size_t>((step.number - steps_.first) % steps_.window)] +=
          to_milliseconds(step.end - step.start);
    }
    double all = 0;
    for (double& sum : sums) {
      all += sum;
      sum *= static_cast<double>(steps_.window) / count_;
    }
    figures_.step_times = std::move(sums);
    figures_[Metric::kStep] = all / count_;
  }

  /// As a training run's own summary splits it (runtime/train/step_statistics.h).
  void stall() {
    const double compute = std::min(*figures_[Metric::kStep], *figures_[Metric::kCompute]);
    figures_[Metric::kCompute] = compute;
    double left = *figures_[Metric::kStep] - compute;
    figures_[Metric::kStall] = left;
    const bool is_simulated =
        std::find(lanes_.begin(), lanes_.end(), Lane::kTraining) == lanes_.end();
    if (!has_causes_ || is_simulated) return;
    const auto take = [&](Metric metric, double wanted) {
      const double taken = std::min(left, wanted);
      left -= taken;
      figures_[metric] = taken;
    };
    take(Metric::kStallCpuUpdate, waited_for_update_);
    take(Metric::kStallD2H, waited_for_d2h_);
    take(Metric::kStallH2D, waited_for_h2d_);
    take(Metric::kStallCollective, 0);
    take(Metric::kStallNvme, 0);
    take(Metric::kStallSelection, 0);
    take(Metric::kStallLaunch, left);
  }

  const Timeline& timeline_;
  const RecordedSteps& steps_;
  double count_;
  std::vector<Lane> lanes_;
  StepFigures figures_;
  bool after_backward_ = false;
  bool has_causes_ = true;
  double waited_for_update_ = 0;
  double waited_for_d2h_ = 0;
  double waited_for_h2d_ = 0;
};

}  // namespace

RecordedSteps recorded_steps(const Timeline& timeline, std::int64_t first, std::int64_t window) {
  std::int64_t last = -1;
  for (const TimelineStep& step : timeline.steps) last = std::max(last, step.number);
  RecordedSteps steps{first, first, window, {}, {}};
  if (last >= first) steps.end = first + (last + 1 - first) / window * window;
  if (steps.end == first) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected at least {} steps from step {} on, found steps up to {}",
                            timeline.name, window, first, last));
  }
  for (const TimelineStep& step : timeline.steps) {
    if (step.number == steps.first) steps.begin = step.start;
    if (step.number == steps.end - 1) steps.finish = step.end;
  }
  return steps;
}

StepFigures recorded_figures(const Timeline& timeline, const RecordedSteps& steps) {
  return Reader(timeline, steps).take();
}

}  // namespace zenflow::sim
