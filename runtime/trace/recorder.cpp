#include "runtime/trace/recorder.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace zenflow::runtime {

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
  for (const auto& track : tracks_) {
    if (track->kept_ == SpansKept::kWhenAsked) continue;
    const std::lock_guard of_track(track->mutex_);
    count += track->spans_.size();
  }
  return count;
}

std::chrono::duration<double> Recorder::cost_of_a_span() {
  constexpr int kSpans = 20'000;
  TrackRecorder track;
  track.recording_ = 1;
  const Clock::time_point start = Clock::now();
  for (int i = 0; i < kSpans; ++i) {
    // Two readings of the clock, as around an operation.
    const Clock::time_point begin = Clock::now();
    track.span(Operation::kProbe, i, begin, Clock::now());
  }
  return std::chrono::duration<double>(Clock::now() - start) / kSpans;
}

TrackRecorder& Recorder::add_track(std::string name, sim::TrackKind kind, SpansKept kept) {
  const std::lock_guard lock(mutex_);
  names_.push_back({.name = std::move(name), .kind = kind, .device = 0});
  tracks_.push_back(std::make_unique<TrackRecorder>());
  TrackRecorder& track = *tracks_.back();
  track.kept_ = kept;
  track.recording_ = keeps_throughout(track) || keeping_ ? recordings_ : 0;
  track.computes_ = kind == sim::TrackKind::kGpuKernels;
  return track;
}

const TrackRecorder* Recorder::find(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (std::size_t t = 0; t < names_.size(); ++t) {
    if (names_[t].name == name) return tracks_[t].get();
  }
  return nullptr;
}

void Recorder::step(std::int64_t number, Clock::time_point start, Clock::time_point end) {
  if (enabled_ || keeping_) steps_.push_back({number, start, end});
}

void Recorder::keep_spans(bool keep) {
  if (keep == keeping_) return;
  const std::lock_guard lock(mutex_);
  keeping_ = keep;
  if (keep) ++recordings_;
  if (!enabled_) steps_.clear();
  // From the last one: who has a span of some work has those of the work that it leads to.
  for (auto track = tracks_.rbegin(); track != tracks_.rend(); ++track) {
    if (keeps_throughout(**track)) continue;
    (*track)->recording_ = keep ? recordings_ : 0;
    // What a writer puts in while keeping ends is dropped when it begins again.
    const std::lock_guard of_track((*track)->mutex_);
    (*track)->spans_.clear();
  }
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
                               .extra = timeline_.extras.intern(extra(span)),
                               .kind = kind(track, span),
                               .operation = span.operation});
  }

 private:
  using Kind = TrackRecorder::Kind;

  [[nodiscard]] sim::SpanExtra extra(const TrackRecorder::Span& span) {
    return {.bytes = static_cast<double>(span.bytes),
            .cause = span.cause,
            .step = static_cast<std::int32_t>(span.step),
            .detail = detail(span)};
  }

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
    return recorded_name(span.operation);
  }

  [[nodiscard]] sim::SpanKind kind(std::uint32_t track, const TrackRecorder::Span& span) const {
    if (span.kind == Kind::kWait) return sim::SpanKind::kSync;
    if (span.kind != Kind::kWork) return sim::SpanKind::kCopy;
    return is_on_device(track) ? sim::SpanKind::kKernel : sim::SpanKind::kOperation;
  }

  /// Copies of one kind share one. Names have nothing that JSON escapes.
  [[nodiscard]] std::int32_t detail(const TrackRecorder::Span& span) {
    if (span.kind != Kind::kToDevice && span.kind != Kind::kToHost) return -1;
    const auto next = static_cast<std::int32_t>(timeline_.details.size());
    const auto [entry, is_new] = details_.try_emplace({span.operation, span.traffic}, next);
    if (is_new) {
      timeline_.details.push_back(
          {.category = "",
           .fields = {{std::string(sim::kCarriesField),
                       fmt::format("\"{}\"", recorded_name(span.operation))},
                      {"traffic", fmt::format("\"{}\"", name_of(span.traffic))}}});
    }
    return entry->second;
  }

  const Recorder& recorder_;
  sim::Timeline& timeline_;
  std::map<std::pair<Operation, Traffic>, std::int32_t> details_;
};

sim::TimelineStep Recorder::timeline_step(const RecordedStep& step) const {
  return {.number = step.number, .start = since_origin(step.start), .end = since_origin(step.end)};
}

sim::Timeline Recorder::timeline(std::string name, std::string device) const {
  sim::Timeline timeline = timeline_of(
      std::move(name), std::move(device),
      [](const TrackRecorder& track) { return track.kept_ == SpansKept::kAsTheRecorderDoes; },
      [](const TrackRecorder::Span&) { return true; });
  for (const RecordedStep& step : steps_) timeline.steps.push_back(timeline_step(step));
  return timeline;
}

sim::Timeline Recorder::recent(std::int64_t first_step, const RecordedStep& at_hand,
                               std::string name, std::string device) const {
  std::vector<RecordedStep> steps;
  std::copy_if(steps_.begin(), steps_.end(), std::back_inserter(steps),
               [&](const RecordedStep& step) { return step.number >= first_step; });
  steps.push_back(at_hand);
  const Clock::time_point begin = steps.front().start;
  sim::Timeline timeline = timeline_of(
      std::move(name), std::move(device), [](const TrackRecorder&) { return true; },
      [&](const TrackRecorder::Span& span) {
        return span.step >= 0 ? span.step + 1 >= first_step : span.start >= begin;
      });
  for (const RecordedStep& step : steps) timeline.steps.push_back(timeline_step(step));
  return timeline;
}

template <class TrackIsWanted, class IsWanted>
sim::Timeline Recorder::timeline_of(std::string name, std::string device,
                                    TrackIsWanted track_is_wanted, IsWanted is_wanted) const {
  const std::lock_guard lock(mutex_);
  sim::Timeline timeline;
  timeline.name = std::move(name);
  timeline.devices = {std::move(device)};
  TimelineBuilder builder(*this, timeline);
  std::vector<TrackRecorder::Span> wanted;
  for (std::size_t t = 0; t < tracks_.size(); ++t) {
    const TrackRecorder& track = *tracks_[t];
    if (!track_is_wanted(track)) continue;
    timeline.tracks.push_back(names_[t]);
    wanted.clear();
    {
      // The track's writer may wait for this: no more than copies.
      const std::lock_guard of_track(track.mutex_);
      std::copy_if(track.spans_.begin(), track.spans_.end(), std::back_inserter(wanted), is_wanted);
    }
    const auto number = static_cast<std::uint32_t>(timeline.tracks.size() - 1);
    for (const TrackRecorder::Span& span : wanted) builder.add(number, span);
  }
  return timeline;
}

}  // namespace zenflow::runtime
