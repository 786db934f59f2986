#include <algorithm>
#include <cstddef>

#include "sim/trace/analysis/trace_parts.h"

namespace zenflow::sim {

std::vector<NamedTime> longest_ranges(const Timeline& timeline) {
  const auto is_range = [&](const TimelineSpan& span) {
    return kind_of(timeline, span) == SpanKind::kRange;
  };
  const auto is_of_host = [&](const TimelineSpan& span) {
    return timeline.tracks[span.track].process >= 0;
  };
  const auto& spans = timeline.spans;
  const bool has_host = std::any_of(spans.begin(), spans.end(), [&](const TimelineSpan& span) {
    return is_of_host(span) && is_range(span);
  });
  struct Sum {
    std::uint64_t spans = 0;
    Picoseconds time{};
  };
  std::vector<Sum> sums;  // by name
  for (const TimelineSpan& span : spans) {
    if (!is_range(span) || (has_host && !is_of_host(span))) continue;
    if (sums.empty()) sums.resize(timeline.names.size());
    ++sums[span.name].spans;
    sums[span.name].time += span.end - span.start;
  }
  std::vector<NameId> names;
  for (NameId name = 0; name < sums.size(); ++name) {
    if (sums[name].spans > 0) names.push_back(name);
  }
  constexpr std::size_t kMost = 50;
  const auto most = names.begin() + static_cast<std::ptrdiff_t>(std::min(kMost, names.size()));
  std::partial_sort(names.begin(), most, names.end(), [&](NameId a, NameId b) {
    return sums[a].time != sums[b].time ? sums[a].time > sums[b].time : a < b;
  });
  std::vector<NamedTime> longest;
  for (auto name = names.begin(); name != most; ++name) {
    longest.push_back({timeline.names[*name], sums[*name].spans, sums[*name].time});
  }
  return longest;
}

}  // namespace zenflow::sim
