#include "sim/trace/import/own_trace.h"

#include <algorithm>
#include <charconv>
#include <tuple>
#include <utility>

#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/own_operations.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

std::optional<Picoseconds> time_of(std::string_view text) {
  const auto time = parse_microseconds(text);
  return time ? since(*time, 0) : std::nullopt;
}

SpanKind kind_of_event(const KinetoEvent& event) {
  switch (class_of(event.category)) {
    case EventClass::kKernel:
      return is_collective(event.name) ? SpanKind::kCollective : SpanKind::kKernel;
    case EventClass::kCopy:
      return SpanKind::kCopy;
    case EventClass::kMemset:
      return SpanKind::kMemset;
    case EventClass::kCall:
      return event.correlation ? SpanKind::kLaunch : SpanKind::kCall;
    case EventClass::kSync:
      return SpanKind::kSync;
    case EventClass::kRange:
      return SpanKind::kRange;
    default:
      return SpanKind::kOperation;
  }
}

constexpr std::string_view kStepName = "ProfilerStep#";
constexpr std::string_view kNotOurs = "events that our own traces do not have";

/// Whether a number of the file fits where timelines have one.
bool fits(std::int64_t number) {
  return std::in_range<std::int32_t>(number);
}

}  // namespace

OwnTraceReader::OwnTraceReader(Timeline& timeline, TraceCollector& collector,
                               const ChromeHeader& header)
    : timeline_(&timeline), collector_(&collector) {
  for (const ChromeDevice& device : header.devices) timeline_->devices.push_back(device.name);
}

bool OwnTraceReader::is_device(std::int64_t process) const {
  return process >= 0 && process < static_cast<std::int64_t>(timeline_->devices.size());
}

void OwnTraceReader::take(const KinetoEvent& event, const Fields& fields, LeftOutCounter& left_out,
                          std::uint64_t offset) {
  const auto unless = [](bool is_taken) { return is_taken ? std::string_view{} : kNotOurs; };
  std::string_view unused = kNotOurs;
  switch (event.phase) {
    case 'M':
      unused = unless(take_metadata(event));
      break;
    case 'X':
      unused = take_span(event, fields);
      break;
    case 's':
    case 'f':
      unused = unless(take_arrow(event));
      break;
    case 'C':
      unused = unless(take_counter(event, fields));
      break;
    default:
      break;
  }
  if (!unused.empty()) {
    const Picoseconds time =
        unused == kNotOurs ? Picoseconds{} : time_of(event.duration).value_or(Picoseconds{});
    left_out.add_unusable(unused, time, offset, "byte");
  }
}

bool OwnTraceReader::take_metadata(const KinetoEvent& event) {
  const auto process = whole_number(event.process);
  const auto thread = whole_number(event.thread);
  if (!process || !thread) return false;
  if (event.name == "process_name") {
    const bool is_ours = is_device(*process) &&
                         timeline_->devices[static_cast<std::size_t>(*process)] == event.label;
    if (!is_ours) timeline_->processes.push_back({*process, std::string(event.label)});
    return true;
  }
  // Threads are in order, so their sort index says nothing new.
  if (event.name != "thread_name") return event.name == "thread_sort_index";
  if (*thread == 0 && is_device(*process) && event.label == "steps") return true;
  const auto next = static_cast<std::uint32_t>(timeline_->tracks.size());
  tracks_[{*process, *thread}] = next;
  Track& track = timeline_->tracks.emplace_back();
  track.name = event.label;
  if (is_device(*process)) {
    track.device = static_cast<int>(*process);
  } else {
    track.process = *process;
  }
  if (*thread != next + 1) track.number = *thread;
  has_stream_.push_back(false);
  return true;
}

std::string_view OwnTraceReader::take_span(const KinetoEvent& event, const Fields& fields) {
  const auto process = whole_number(event.process);
  const auto thread = whole_number(event.thread);
  const auto start = time_of(event.start);
  const auto length = time_of(event.duration);
  if (!process || !thread || !start || !length || length->count < 0) return kNotOurs;
  if (!fits(event.step.value_or(-1))) return kNotOurs;
  const auto track = tracks_.find({*process, *thread});
  if (track == tracks_.end()) {
    if (!event.name.starts_with(kStepName)) return kNotOurs;
    const auto number = whole_number(event.name.substr(kStepName.size()));
    if (!number || !fits(*number)) return kNotOurs;
    const bool counts = collector_->add_step({*number, *start, *start + *length});
    return counts ? std::string_view{} : TraceCollector::kBeyondSums;
  }
  const WaitCause cause = wait_cause(event.cause);
  if (cause == WaitCause::kNone && !event.cause.empty()) return kNotOurs;
  SpanExtra extra{.bytes = static_cast<double>(event.bytes.value_or(0)),
                  .stalled = time_of(event.stalled).value_or(Picoseconds{}),
                  .cause = cause,
                  .step = static_cast<std::int32_t>(event.step.value_or(-1))};
  TimelineSpan span{.track = track->second,
                    .name = timeline_->names.intern(event.name),
                    .start = *start,
                    .end = *start + *length,
                    .correlation = event.correlation.value_or(-1),
                    .extra = timeline_->extras.intern(extra),
                    .kind = kind_of_event(event)};
  if (event.stream) has_stream_[span.track] = true;
  SpanDetail detail{.category = "", .fields = fields};
  if (category_of(*timeline_, span) != event.category) detail.category = event.category;
  if (!detail.category.empty() || !detail.fields.empty()) {
    const auto next = static_cast<std::int32_t>(timeline_->details.size());
    const auto [entry, is_new] = details_.try_emplace(detail, next);
    if (is_new) timeline_->details.push_back(std::move(detail));
    extra.detail = entry->second;
    span.extra = timeline_->extras.intern(extra);
  }
  return collector_->add(span) ? std::string_view{} : TraceCollector::kBeyondSums;
}

/// An arrow's two events follow each other.
bool OwnTraceReader::take_arrow(const KinetoEvent& event) {
  const auto process = whole_number(event.process);
  const auto thread = whole_number(event.thread);
  const auto time = time_of(event.start);
  if (!process || !thread || !time) return false;
  const auto track = tracks_.find({*process, *thread});
  if (track == tracks_.end()) return false;
  if (event.phase == 's') {
    const FlowKind kind = event.category == "ac2g" ? FlowKind::kLaunch : FlowKind::kDependency;
    arrows_.push_back({kind, track->second, 0, *time, {}, false});
    return true;
  }
  if (arrows_.empty() || arrows_.back().is_whole) return false;
  arrows_.back().to_track = track->second;
  arrows_.back().to = *time;
  arrows_.back().is_whole = true;
  return true;
}

bool OwnTraceReader::take_counter(const KinetoEvent& event, const Fields& fields) {
  const auto device = whole_number(event.process);
  const auto time = time_of(event.start);
  if (!device || !fits(*device) || !time) return false;
  std::vector<std::string> series;
  std::vector<double> values;
  for (const auto& [name, text] : fields) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return false;
    series.push_back(name);
    values.push_back(value);
  }
  std::vector<TimelineCounter>& counters = timeline_->counters;
  const bool goes_on = !counters.empty() && counters.back().name == event.name &&
                       counters.back().device == *device && counters.back().series == series;
  if (!goes_on) {
    counters.push_back({std::string(event.name), static_cast<int>(*device), std::move(series), {}});
  }
  counters.back().samples.emplace_back(*time, std::move(values));
  return true;
}

void OwnTraceReader::finish() {
  std::stable_sort(timeline_->steps.begin(), timeline_->steps.end(),
                   [](const TimelineStep& a, const TimelineStep& b) { return a.start < b.start; });
  settle_tracks();
  settle_flows();
  find_operations(*timeline_);
}

void OwnTraceReader::settle_tracks() {
  std::vector<bool> has_kernels(timeline_->tracks.size(), false);
  std::vector<bool> has_calls(timeline_->tracks.size(), false);
  for (const TimelineSpan& span : timeline_->spans) {
    const bool computes = span.kind == SpanKind::kKernel || span.kind == SpanKind::kCollective;
    if (computes) has_kernels[span.track] = true;
    if (span.kind != SpanKind::kOperation) has_calls[span.track] = true;
  }
  for (std::size_t i = 0; i < timeline_->tracks.size(); ++i) {
    Track& track = timeline_->tracks[i];
    if (has_stream_[i]) {
      track.kind = has_kernels[i] ? TrackKind::kGpuKernels : TrackKind::kGpuCopies;
    } else {
      track.kind = has_calls[i] ? TrackKind::kRuntime : TrackKind::kHost;
    }
  }
}

/// Arrows name rows and times. If spans begin together on a row, all but the last are empty.
void OwnTraceReader::settle_flows() {
  using Place = std::tuple<std::uint32_t, Picoseconds, std::uint32_t>;
  std::vector<Place> places;
  places.reserve(timeline_->spans.size());
  for (std::uint32_t i = 0; i < timeline_->spans.size(); ++i) {
    places.emplace_back(timeline_->spans[i].track, timeline_->spans[i].start, i);
  }
  std::sort(places.begin(), places.end());
  const auto find = [&](std::uint32_t track, Picoseconds time) -> std::optional<std::uint32_t> {
    const auto behind =
        std::upper_bound(places.begin(), places.end(), Place{track, time, 0xFFFFFFFFU});
    if (behind == places.begin()) return std::nullopt;
    const auto& [of, start, span] = *(behind - 1);
    if (of != track || start != time) return std::nullopt;
    return span;
  };
  for (const Arrow& arrow : arrows_) {
    if (!arrow.is_whole) continue;
    const auto from = find(arrow.from_track, arrow.from);
    const auto to = find(arrow.to_track, arrow.to);
    if (from && to) timeline_->flows.push_back({*from, *to, arrow.kind});
  }
}

}  // namespace zenflow::sim
