#include "runtime/trace/recorder.h"

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>

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

std::string_view name_of(Traffic traffic) {
  switch (traffic) {
    case Traffic::kGradients:
      return "gradients";
    case Traffic::kParameters:
      return "parameters";
    case Traffic::kSelection:
      return "selection";
    case Traffic::kControl:
      return "control";
    case Traffic::kInitial:
      return "initial";
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
  for (const auto& track : tracks_) count += track->spans_.size();
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
  tracks_.back()->enabled_ = enabled_;
  tracks_.back()->computes_ = kind == sim::TrackKind::kGpuKernels;
  return *tracks_.back();
}

const TrackRecorder* Recorder::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t t = 0; t < names_.size(); ++t) {
    if (names_[t].name == name) return tracks_[t].get();
  }
  return nullptr;
}

void Recorder::step(std::int64_t number, Clock::time_point start, Clock::time_point end) {
  if (enabled_) steps_.push_back({number, start, end});
}

Picoseconds Recorder::since_origin(Clock::time_point time) const {
  const auto elapsed = std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin_);
  return {elapsed.count() * 1000};
}

class Recorder::TimelineBuilder {
 public:
  TimelineBuilder(const Recorder& recorder, sim::Timeline& timeline)
      : recorder_(recorder), timeline_(timeline) {}

  void add(std::uint32_t track, const TrackRecorder::Span& span) {
    timeline_.spans.push_back({.track = track,
                               .name = timeline_.names.intern(name(track, span)),
                               .start = recorder_.since_origin(span.start),
                               .end = recorder_.since_origin(span.end),
                               .bytes = static_cast<double>(span.bytes),
                               .step = static_cast<std::int32_t>(span.step),
                               .cause = timeline_.names.intern(name_of(span.cause)),
                               .detail = detail(span),
                               .kind = kind(track, span)});
  }

 private:
  using Kind = TrackRecorder::Kind;

  [[nodiscard]] bool is_on_device(std::uint32_t track) const {
    return timeline_.tracks[track].kind != sim::TrackKind::kHost;
  }

  [[nodiscard]] std::string_view name(std::uint32_t track, const TrackRecorder::Span& span) const {
    switch (span.kind) {
      case Kind::kWork:
        break;
      case Kind::kToDevice:
        return "Memcpy HtoD (Pinned -> Device)";
      case Kind::kToHost:
        return "Memcpy DtoH (Device -> Pinned)";
      case Kind::kWait:
        return is_on_device(track) ? "Stream Wait Event" : "Event Sync";
    }
    return span.name;
  }

  [[nodiscard]] sim::SpanKind kind(std::uint32_t track, const TrackRecorder::Span& span) const {
    if (span.kind == Kind::kWait) return sim::SpanKind::kSync;
    if (span.kind != Kind::kWork) return sim::SpanKind::kCopy;
    return is_on_device(track) ? sim::SpanKind::kKernel : sim::SpanKind::kOperation;
  }

  /// Copies of one kind share one. Names are literals without anything that JSON escapes.
  [[nodiscard]] std::int32_t detail(const TrackRecorder::Span& span) {
    if (span.kind != Kind::kToDevice && span.kind != Kind::kToHost) return -1;
    const auto next = static_cast<std::int32_t>(timeline_.details.size());
    const auto [entry, is_new] = details_.try_emplace({span.name, span.traffic}, next);
    if (is_new) {
      timeline_.details.push_back(
          {.category = "",
           .fields = {{std::string(sim::kCarriesField), fmt::format("\"{}\"", span.name)},
                      {"traffic", fmt::format("\"{}\"", name_of(span.traffic))}}});
    }
    return entry->second;
  }

  const Recorder& recorder_;
  sim::Timeline& timeline_;
  std::map<std::pair<std::string_view, Traffic>, std::int32_t> details_;
};

sim::Timeline Recorder::timeline(std::string name, std::string device) const {
  const std::lock_guard lock(mutex_);
  sim::Timeline timeline;
  timeline.name = std::move(name);
  timeline.devices = {std::move(device)};
  timeline.tracks = names_;
  TimelineBuilder builder(*this, timeline);
  for (std::uint32_t t = 0; t < tracks_.size(); ++t) {
    for (const TrackRecorder::Span& span : tracks_[t]->spans_) builder.add(t, span);
  }
  for (const Step& step : steps_) {
    timeline.steps.push_back(
        {.number = step.number, .start = since_origin(step.start), .end = since_origin(step.end)});
  }
  return timeline;
}

}  // namespace zenflow::runtime
