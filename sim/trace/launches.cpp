#include "sim/trace/launches.h"

#include <algorithm>
#include <tuple>

namespace zenflow::sim {

SpanLaunches launch_of_spans(const Timeline& timeline) {
  SpanLaunches launch(timeline.spans.size());
  for (const TimelineFlow& flow : timeline.flows) {
    if (flow.kind == FlowKind::kLaunch) launch.set(flow.to, flow.from);
  }
  const auto& spans = timeline.spans;
  const auto is_call = [&](const TimelineSpan& span) {
    return span.correlation >= 0 && kind_of(timeline, span) == SpanKind::kLaunch;
  };
  const auto count = static_cast<std::uint32_t>(spans.size());
  // Numbers alone: there are millions, and growing would take more for a moment.
  std::vector<std::uint32_t> calls;
  calls.reserve(static_cast<std::size_t>(std::count_if(spans.begin(), spans.end(), is_call)));
  for (std::uint32_t i = 0; i < count; ++i) {
    if (is_call(spans[i])) calls.push_back(i);
  }
  const auto order = [&](std::uint32_t call) {
    return std::tuple(spans[call].correlation, spans[call].start, call);
  };
  const auto by_order = [&](std::uint32_t a, std::uint32_t b) { return order(a) < order(b); };
  if (!std::is_sorted(calls.begin(), calls.end(), by_order)) {
    std::sort(calls.begin(), calls.end(), by_order);
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const TimelineSpan& span = spans[i];
    if (launch[i] != kNoSpan || span.correlation < 0) continue;
    if (!is_gpu_work(kind_of(timeline, span))) continue;
    const auto behind = std::upper_bound(
        calls.begin(), calls.end(), span, [&](const TimelineSpan& work, std::uint32_t call) {
          return std::tuple(work.correlation, work.start) <
                 std::tuple(spans[call].correlation, spans[call].start);
        });
    // None began before it: the first of that number, whose clock is off then.
    if (behind != calls.begin() && spans[*(behind - 1)].correlation == span.correlation) {
      launch.set(i, *(behind - 1));
    } else if (behind != calls.end() && spans[*behind].correlation == span.correlation) {
      launch.set(i, *behind);
    }
  }
  return launch;
}

}  // namespace zenflow::sim
