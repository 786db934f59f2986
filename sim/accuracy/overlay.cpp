#include "sim/accuracy/overlay.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/operation.h"

namespace zenflow::sim {
namespace {

/// Lanes in the order in which they are shown, below the marks of steps and the training thread.
constexpr std::array kShown = {LaneKind::kCompute, LaneKind::kD2H, LaneKind::kH2D,
                               LaneKind::kCpuUpdate, LaneKind::kCpuAccumulate};
constexpr std::size_t kFirstLane = 2;

struct ShownLane {
  std::size_t rank;  // place among its setting's tracks
  std::string name;
};

ShownLane lane_of(const Track& track) {
  if (track.name == recorded_name(LaneKind::kTraining)) return {1, track.name};
  for (std::size_t i = 0; i < kShown.size(); ++i) {
    if (lane_of_track(track.name) != kShown[i]) continue;
    return {kFirstLane + i, std::string(simulated_name(kShown[i]))};
  }
  // Streams of other programs' traces have numbers for names.
  if (track.kind == TrackKind::kGpuKernels) return {kFirstLane, track.name};
  if (track.kind == TrackKind::kGpuCopies) return {kFirstLane + 2, track.name};
  return {kFirstLane + kShown.size(), track.name};
}

class Builder {
 public:
  Timeline take(const std::vector<OverlaidSetting>& settings) {
    out_.name = "predicted and measured";
    for (const OverlaidSetting& setting : settings) {
      device_ = static_cast<int>(out_.devices.size());
      out_.devices.push_back(setting.name);
      places_.clear();
      collect(setting.predicted, 0);
      collect(setting.measured, 1);
      std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) {
        return std::tie(a.lane.rank, a.lane.name, a.side, a.track) <
               std::tie(b.lane.rank, b.lane.name, b.side, b.track);
      });
      for (const Place& place : places_) add(place);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::uint32_t kSteps = 0xFFFFFFFFU;  // the track of step marks
  struct Place {
    ShownLane lane;
    int side;  // 0: predicted
    const TimelineStretch* stretch;
    std::uint32_t track;
  };

  void collect(const TimelineStretch& stretch, int side) {
    places_.push_back({{0, "steps"}, side, &stretch, kSteps});
    std::vector<bool> has_spans(stretch.timeline->tracks.size(), false);
    for (const TimelineSpan& span : stretch.timeline->spans) {
      if (is_inside(stretch, span.start)) has_spans[span.track] = true;
    }
    for (std::uint32_t t = 0; t < has_spans.size(); ++t) {
      const Track& track = stretch.timeline->tracks[t];
      const bool launches = side == 0 && track.kind == TrackKind::kRuntime;
      if (has_spans[t] && !launches) places_.push_back({lane_of(track), side, &stretch, t});
    }
  }

  static bool is_inside(const TimelineStretch& stretch, Picoseconds time) {
    return time >= stretch.begin && time < stretch.end;
  }

  void add(const Place& place) {
    const auto number = static_cast<std::uint32_t>(out_.tracks.size());
    const Timeline& from = *place.stretch->timeline;
    const bool is_steps = place.track == kSteps;
    out_.tracks.push_back(
        {fmt::format("{}: {}", place.lane.name, place.side == 0 ? "predicted" : "measured"),
         is_steps ? TrackKind::kHost : from.tracks[place.track].kind, device_});
    const Picoseconds origin = place.stretch->begin;
    if (is_steps) {
      for (const TimelineStep& step : from.steps) {
        if (!is_inside(*place.stretch, step.start)) continue;
        out_.spans.push_back({.track = number,
                              .name = out_.names.intern(fmt::format("step {}", step.number)),
                              .start = step.start - origin,
                              .end = step.end - origin});
      }
      return;
    }
    for (TimelineSpan span : from.spans) {
      if (span.track != place.track || !is_inside(*place.stretch, span.start)) continue;
      span.track = number;
      span.name = out_.names.intern(from.names[span.name]);
      span.start = span.start - origin;
      span.end = span.end - origin;
      span.correlation = -1;  // numbers of two timelines mean different things
      SpanExtra extra = from.extra_of(span);
      extra.detail = -1;
      span.extra = out_.extras.intern(extra);
      out_.spans.push_back(span);
    }
  }

  Timeline out_;
  int device_ = 0;
  std::vector<Place> places_;
};

}  // namespace

Timeline overlay(const std::vector<OverlaidSetting>& settings) {
  return Builder().take(settings);
}

TimelineStretch settled_stretch(const Prediction& prediction, const Timeline& timeline,
                                std::size_t windows) {
  const FullRun& run = prediction.run;
  const std::size_t last = std::min(run.measured_begin + windows, run.measured_end);
  const std::int64_t first_step = run.program.shapes[run.measured_begin].first_step;
  const WindowShape& shape = run.program.shapes[last - 1];
  const std::int64_t end_step = shape.first_step + shape.steps;
  TimelineStretch stretch{&timeline, {}, {}};
  for (const TimelineStep& step : timeline.steps) {
    if (step.number == first_step) stretch.begin = step.start;
    if (step.number == end_step - 1) stretch.end = step.end;
  }
  return stretch;
}

}  // namespace zenflow::sim
