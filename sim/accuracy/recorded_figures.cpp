#include "sim/accuracy/recorded_figures.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/live_setting.h"

namespace zenflow::sim {
namespace {

bool is_wait(const Timeline& timeline, const TimelineSpan& span) {
  return span.kind == SpanKind::kSync || timeline.name_of(span) == "wait";
}

class Reader {
 public:
  Reader(const Timeline& timeline, const RecordedSteps& steps)
      : timeline_(timeline), steps_(steps), count_(static_cast<double>(steps.end - steps.first)) {}

  StepFigures take() {
    require_compute_track(timeline_.name, timeline_);
    for (const Track& track : timeline_.tracks) lanes_.push_back(lane_of_track(track.name));
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
    const auto lane = lanes_[span.track];
    if (!lane) return;
    if (is_wait(timeline_, span)) return add_wait(span, *lane);
    const double bytes = std::max(0.0, timeline_.extra_of(span).bytes);
    switch (*lane) {
      case LaneKind::kCompute:
        return add_compute(span);
      case LaneKind::kD2H:
        *figures_[Metric::kD2HBytes] += bytes;
        return add_time(Metric::kCopyDown, span);
      case LaneKind::kH2D:
        // What is then put in its place is not moved again.
        if (span.operation != Operation::kPlaceWeights) *figures_[Metric::kH2DBytes] += bytes;
        return add_time(Metric::kCopyUp, span);
      case LaneKind::kCpuUpdate:
        return add_time(Metric::kCpuUpdate, span);
      case LaneKind::kCpuAccumulate:
        return add_time(Metric::kAccumulate, span);
      default:
        return;
    }
  }

  void add_compute(const TimelineSpan& span) {
    // A GPU's operations are ranges over its work; what the stream waited for is not recorded.
    if (span.kind == SpanKind::kRange) has_causes_ = false;
    add_time(Metric::kCompute, span);
    if (const auto phase = phase_of(span.operation)) add_time(*phase, span);
  }

  void add_wait(const TimelineSpan& span, LaneKind lane) {
    const WaitCause cause = timeline_.extra_of(span).cause;
    const double time = to_milliseconds(span.end - span.start) / count_;
    if (lane == LaneKind::kCompute && cause == WaitCause::kNone) has_causes_ = false;
    // The training thread waits for updates, the device for copies.
    const bool updates = cause == WaitCause::kCpuUpdate;
    if (lane == (updates ? LaneKind::kTraining : LaneKind::kCompute)) {
      waited_.at(static_cast<std::size_t>(cause)) += time;
    }
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
    const bool is_simulated = std::none_of(
        timeline_.tracks.begin(), timeline_.tracks.end(),
        [](const Track& track) { return track.name == recorded_name(LaneKind::kTraining); });
    if (!has_causes_ || is_simulated) return;
    for (const WaitCause cause :
         {WaitCause::kCpuUpdate, WaitCause::kD2H, WaitCause::kH2D, WaitCause::kCollective,
          WaitCause::kNvme, WaitCause::kSelection}) {
      const double taken = std::min(left, waited_.at(static_cast<std::size_t>(cause)));
      left -= taken;
      figures_[stall_by(cause)] = taken;
    }
    figures_[stall_by(WaitCause::kLaunch)] = left;
  }

  const Timeline& timeline_;
  const RecordedSteps& steps_;
  double count_;
  std::vector<std::optional<LaneKind>> lanes_;  // by track
  StepFigures figures_;
  bool has_causes_ = true;
  std::array<double, kWaitCauses> waited_{};  // milliseconds
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
