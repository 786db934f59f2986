#include "sim/trace/timeline.h"

namespace zenflow::sim {
namespace {

const std::string* own_category(const Timeline& timeline, const TimelineSpan& span) {
  const SpanDetail* detail = timeline.detail_of(span);
  return detail == nullptr || detail->category.empty() ? nullptr : &detail->category;
}

SpanKind kind_of_category(const std::string& category) {
  if (category == "kernel") return SpanKind::kKernel;
  if (category == "gpu_memcpy") return SpanKind::kCopy;
  if (category == "gpu_memset") return SpanKind::kMemset;
  if (category == "cuda_sync") return SpanKind::kSync;
  if (category == "cuda_runtime" || category == "cuda_driver") return SpanKind::kCall;
  if (category == "user_annotation") return SpanKind::kRange;
  return SpanKind::kOperation;
}

const char* category_of_track(TrackKind kind, double bytes) {
  switch (kind) {
    case TrackKind::kGpuKernels:
      return "kernel";
    case TrackKind::kGpuCopies:
      return bytes > 0 ? "gpu_memcpy" : "kernel";
    case TrackKind::kHost:
      return "cpu_op";
    case TrackKind::kRuntime:
      return "cuda_runtime";
  }
  return "cpu_op";
}

}  // namespace

const SpanDetail* Timeline::detail_of(const TimelineSpan& span) const {
  const std::int32_t detail = extra_of(span).detail;
  return detail < 0 ? nullptr : &details[static_cast<std::size_t>(detail)];
}

std::string_view operation_name(const Timeline& timeline, const TimelineSpan& span) {
  const SpanDetail* detail = timeline.detail_of(span);
  if (detail == nullptr) return timeline.name_of(span);
  for (const auto& [name, value] : detail->fields) {
    const bool is_text = name == kCarriesField && value.size() >= 2 && value.front() == '"';
    if (is_text) return std::string_view(value).substr(1, value.size() - 2);
  }
  return timeline.name_of(span);
}

std::string category_of(const Timeline& timeline, const TimelineSpan& span) {
  if (const std::string* own = own_category(timeline, span)) return *own;
  switch (span.kind) {
    case SpanKind::kOfTrack:
      break;
    case SpanKind::kKernel:
    case SpanKind::kCollective:
      return "kernel";
    case SpanKind::kCopy:
      return "gpu_memcpy";
    case SpanKind::kMemset:
      return "gpu_memset";
    case SpanKind::kSync:
      return "cuda_sync";
    case SpanKind::kLaunch:
    case SpanKind::kCall:
      return "cuda_runtime";
    case SpanKind::kRange:
      return "user_annotation";
    case SpanKind::kOperation:
      return "cpu_op";
  }
  return category_of_track(timeline.tracks[span.track].kind, timeline.extra_of(span).bytes);
}

SpanKind kind_of(const Timeline& timeline, const TimelineSpan& span) {
  if (span.kind != SpanKind::kOfTrack) return span.kind;
  const SpanKind kind = kind_of_category(category_of(timeline, span));
  // Simulated and recorded launches are calls that something else on the timeline answers to.
  return kind == SpanKind::kCall && span.correlation >= 0 ? SpanKind::kLaunch : kind;
}

bool is_recorded_wait(const Timeline& timeline, const TimelineSpan& span) {
  const SpanExtra& extra = timeline.extra_of(span);
  return extra.cause != WaitCause::kNone && extra.stalled.count == 0;
}

std::string to_string(SpanPhase phase) {
  switch (phase) {
    case SpanPhase::kNone:
      return "unassigned";
    case SpanPhase::kForward:
      return "forward";
    case SpanPhase::kBackward:
      return "backward";
    case SpanPhase::kOptimizer:
      return "optimizer";
    case SpanPhase::kCopy:
      return "copy";
    case SpanPhase::kCollective:
      return "collective";
    case SpanPhase::kSelection:
      return "selection";
    case SpanPhase::kOther:
      return "other";
  }
  return "unassigned";
}

void append(Timeline& timeline, const Timeline& more) {
  const auto tracks = static_cast<std::uint32_t>(timeline.tracks.size());
  const auto spans = static_cast<std::uint32_t>(timeline.spans.size());
  const auto details = static_cast<std::int32_t>(timeline.details.size());
  const auto add_all = [](auto& to, const auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  for (std::size_t i = timeline.devices.size(); i < more.devices.size(); ++i) {
    timeline.devices.push_back(more.devices[i]);
  }
  add_all(timeline.tracks, more.tracks);
  add_all(timeline.details, more.details);
  add_all(timeline.processes, more.processes);
  add_all(timeline.counters, more.counters);
  add_all(timeline.steps, more.steps);
  add_all(timeline.metadata, more.metadata);
  for (TimelineSpan span : more.spans) {
    span.track += tracks;
    span.name = timeline.names.intern(more.names[span.name]);
    SpanExtra extra = more.extra_of(span);
    if (extra.detail >= 0) extra.detail += details;
    span.extra = timeline.extras.intern(extra);
    timeline.spans.push_back(span);
  }
  for (TimelineFlow flow : more.flows) {
    flow.from += spans;
    flow.to += spans;
    timeline.flows.push_back(flow);
  }
}

Timeline of_device(Timeline timeline, int device) {
  std::erase_if(timeline.spans, [&](const TimelineSpan& span) {
    return timeline.tracks[span.track].device != device;
  });
  timeline.flows.clear();
  return timeline;
}

}  // namespace zenflow::sim
