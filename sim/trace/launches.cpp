#include "sim/trace/launches.h"

#include <algorithm>
#include <tuple>

namespace zenflow::sim {

std::vector<std::uint32_t> launch_of_spans(const Timeline& timeline) {
  std::vector<std::uint32_t> launch(timeline.spans.size(), kNoSpan);
  for (const TimelineFlow& flow : timeline.flows) {
    if (flow.kind == FlowKind::kLaunch) launch[flow.to] = flow.from;
  }
  struct Call {
    std::int64_t correlation;
    Picoseconds start;
    std::uint32_t span;
  };
  const auto is_call = [&](const TimelineSpan& span) {
    return span.correlation >= 0 && kind_of(timeline, span) == SpanKind::kLaunch;
  };
  std::vector<Call> calls;
  // Growing would take more memory for a moment than the calls themselves.
  calls.reserve(static_cast<std::size_t>(
      std::count_if(timeline.spans.begin(), timeline.spans.end(), is_call)));
  const auto count = static_cast<std::uint32_t>(timeline.spans.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const TimelineSpan& span = timeline.spans[i];
    if (is_call(span)) calls.push_back({span.correlation, span.start, i});
  }
  const auto order = [](const Call& call) {
    return std::tuple(call.correlation, call.start, call.span);
  };
  const auto by_order = [&](const Call& a, const Call& b) { return order(a) < order(b); };
  if (!std::is_sorted(calls.begin(), calls.end(), by_order)) {
    std::sort(calls.begin(), calls.end(), by_order);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const TimelineSpan& span = timeline.spans[i];
    if (launch[i] != kNoSpan || span.correlation < 0) continue;
    if (!is_gpu_work(kind_of(timeline, span))) continue;
    const auto behind = std::upper_bound(calls.begin(), calls.end(), span,
                                         [](const TimelineSpan& work, const Call& call) {
                                           return std::tuple(work.correlation, work.start) <
                                                  std::tuple(call.correlation, call.start);
                                         });
    // None began before it: the first of that number, whose clock is off then.
    if (behind != calls.begin() && (behind - 1)->correlation == span.correlation) {
      launch[i] = (behind - 1)->span;
    } else if (behind != calls.end() && behind->correlation == span.correlation) {
      launch[i] = behind->span;
    }
  }
  return launch;
}

}  // namespace zenflow::sim
