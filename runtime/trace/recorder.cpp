#include "runtime/trace/recorder.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace zenflow::runtime {

std::string_view name_of(WaitCause cause) {
  switch (cause) {
    case WaitCause::kNone:
      return "";
    case WaitCause::kCpuUpdate:
      return "cpu_update";
    case WaitCause::kD2H:
      return "d2h";
    case WaitCause::kH2D:
      return "h2d";
    case WaitCause::kCompute:
      return "compute";
  }
  return "";
}

TrackRecorder::Totals TrackRecorder::totals() const {
  Totals totals;
  totals.busy = std::chrono::nanoseconds(busy_.load(std::memory_order_relaxed));
  for (std::size_t i = 0; i < kWaitCauses; ++i) {
    totals.waiting[i] = std::chrono::nanoseconds(waiting_[i].load(std::memory_order_relaxed));
  }
  return totals;
}

std::size_t Recorder::span_count() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& track : tracks_) {
    const std::lock_guard of_track(track->mutex_);
    count += track->spans_.size();
  }
  return count;
}

std::chrono::duration<double> Recorder::cost_of_a_span() {
  constexpr int kSpans = 20'000;
  TrackRecorder track;
  track.enabled_ = true;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kSpans; ++i) {
    // Two readings of the clock, as around an operation.
    const Clock::time_point begin = Clock::now();
    track.span("overhead", i, begin, Clock::now());
  }
  return std::chrono::duration<double>(Clock::now() - start) / kSpans;
}

TrackRecorder& Recorder::add_track(std::string name, sim::TrackKind kind) {
  const std::lock_guard lock(mutex_);
  names_.push_back({.name = std::move(name), .kind = kind, .device = 0});
  tracks_.push_back(std::make_unique<TrackRecorder>());
  tracks_.back()->enabled_ = enabled_ || keeping_;
  return *tracks_.back();
}

const TrackRecorder* Recorder::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t t = 0; t < names_.size(); ++t) {
    if (names_[t].name == name) return tracks_[t].get();
  }
  return nullptr;
}

void Recorder::begin_step(std::int64_t step) {
  if (enabled_ || keeping_) steps_.emplace_back(step, Clock::now());
}

Picoseconds Recorder::since_origin(Clock::time_point time) const {
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin_);
  return {elapsed.count() * 1000};
}

void Recorder::keep_spans(bool keep) {
  if (enabled_ || keep == keeping_) return;
  const std::lock_guard lock(mutex_);
  keeping_ = keep;
  steps_.clear();
  for (const auto& track : tracks_) {
    track->enabled_ = keep;
    const std::lock_guard of_track(track->mutex_);
    track->spans_.clear();  // when keeping ends, and what a writer put in while it did
  }
}

sim::Timeline Recorder::recent(std::int64_t first_step, std::string name,
                               std::string device) const {
  const auto first = std::find_if(steps_.begin(), steps_.end(),
                                  [&](const auto& step) { return step.first >= first_step; });
  const Clock::time_point begin = first == steps_.end() ? Clock::now() : first->second;
  sim::Timeline timeline =
      timeline_of(std::move(name), std::move(device), [&](const TrackRecorder::Span& span) {
        return span.step >= 0 ? span.step + 1 >= first_step : span.start >= begin;
      });
  for (auto step = first; step != steps_.end(); ++step) {
    const auto next = std::next(step);
    const Clock::time_point end = next == steps_.end() ? Clock::now() : next->second;
    timeline.steps.push_back({step->first, since_origin(step->second), since_origin(end)});
  }
  return timeline;
}

sim::Timeline Recorder::timeline(std::string name, std::string device) const {
  sim::Timeline timeline = timeline_of(std::move(name), std::move(device),
                                       [](const TrackRecorder::Span&) { return true; });
  for (std::size_t i = 0; i + 1 < steps_.size(); ++i) {
    timeline.steps.push_back({.number = steps_[i].first,
                              .start = since_origin(steps_[i].second),
                              .end = since_origin(steps_[i + 1].second)});
  }
  return timeline;
}

template <class Wanted>
sim::Timeline Recorder::timeline_of(std::string name, std::string device, Wanted&& wanted) const {
  const std::lock_guard lock(mutex_);
  sim::Timeline timeline;
  timeline.name = std::move(name);
  timeline.devices = {std::move(device)};
  timeline.tracks = names_;
  for (std::uint32_t t = 0; t < tracks_.size(); ++t) {
    const std::lock_guard of_track(tracks_[t]->mutex_);
    for (const TrackRecorder::Span& span : tracks_[t]->spans_) {
      if (!wanted(span)) continue;
      timeline.spans.push_back({.track = t,
                                .name = timeline.names.intern(span.name),
                                .start = since_origin(span.start),
                                .end = since_origin(span.end),
                                .bytes = span.bytes,
                                .step = static_cast<std::int32_t>(span.step),
                                .cause = timeline.names.intern(name_of(span.cause))});
    }
  }
  return timeline;
}

}  // namespace zenflow::runtime
