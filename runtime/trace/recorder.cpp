#include "runtime/trace/recorder.h"

#include <algorithm>
#include <utility>

namespace zenflow::runtime {

TrackRecorder& Recorder::add_track(std::string name, sim::TrackKind kind) {
  const std::lock_guard lock(mutex_);
  names_.push_back({.name = std::move(name), .kind = kind, .device = 0});
  tracks_.push_back(std::make_unique<TrackRecorder>());
  tracks_.back()->enabled_ = enabled_;
  return *tracks_.back();
}

void Recorder::begin_step(std::int64_t step) {
  if (enabled_) steps_.emplace_back(step, Clock::now());
}

Picoseconds Recorder::since_origin(Clock::time_point time) const {
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin_);
  return {elapsed.count() * 1000};
}

sim::Timeline Recorder::timeline(std::string name, std::string device) const {
  const std::lock_guard lock(mutex_);
  sim::Timeline timeline;
  timeline.name = std::move(name);
  timeline.devices = {std::move(device)};
  timeline.tracks = names_;
  for (std::uint32_t t = 0; t < tracks_.size(); ++t) {
    for (const TrackRecorder::Span& span : tracks_[t]->spans_) {
      timeline.spans.push_back({.track = t,
                                .start = since_origin(span.start),
                                .end = since_origin(span.end),
                                .name = std::string(span.name),
                                .step = span.step,
                                .bytes = span.bytes,
                                .cause = std::string(span.cause)});
    }
  }
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    timeline.steps.push_back({.number = steps_[i].first,
                              .start = since_origin(steps_[i].second),
                              .end = since_origin(steps_[i + 1].second)});
  }
  return timeline;
}

}  // namespace zenflow::runtime
