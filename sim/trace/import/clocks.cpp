#include "sim/trace/import/clocks.h"

#include <algorithm>
#include <cstddef>

#include <fmt/format.h>

#include "sim/trace/launches.h"

namespace zenflow::sim {

void note_clock_differences(const std::string& name, const SpanLaunches& launch,
                            ImportedTrace& trace) {
  const Timeline& timeline = trace.timeline;
  std::uint64_t count = 0;
  const TimelineSpan* first = nullptr;
  Picoseconds largest{};
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    if (launch[i] == kNoSpan) continue;
    const TimelineSpan& work = timeline.spans[i];
    const TimelineSpan& call = timeline.spans[launch[i]];
    if (work.start >= call.start) continue;
    ++count;
    largest = std::max(largest, call.start - work.start);
    if (first == nullptr || work.start < first->start) first = &work;
  }
  if (first == nullptr) return;
  trace.problems.push_back(fmt::format(
      "{}: {} pieces of GPU work begin before the call that launched them, by up to {:.3f} us, the "
      "first (\"{}\") at {:.6f} ms: the clocks of host and GPU disagree by as much, and so do what "
      "is said of launches and host waits",
      name, count, to_milliseconds(largest) * 1e3, timeline.name_of(*first),
      to_milliseconds(first->start)));
}

}  // namespace zenflow::sim
