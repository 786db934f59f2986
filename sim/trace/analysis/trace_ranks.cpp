#include <algorithm>
#include <map>

#include "sim/base/intervals.h"
#include "sim/base/stop.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/merge_ranks.h"

namespace zenflow::sim {
namespace {

/// A name's collectives, by device, in the order in which each began them.
using ByDevice = std::map<int, std::vector<Interval>>;

std::map<NameId, ByDevice> collectives_of(const Timeline& timeline, const SpanIndices& work) {
  const auto& spans = timeline.spans;
  std::vector<std::uint32_t> by_start;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const TimelineSpan& span = spans[work[i]];
    if (kind_of(timeline, span) == SpanKind::kCollective) by_start.push_back(work[i]);
  }
  std::stable_sort(by_start.begin(), by_start.end(), [&](std::uint32_t a, std::uint32_t b) {
    return spans[a].start < spans[b].start;
  });
  std::map<NameId, ByDevice> collectives;
  for (const std::uint32_t index : by_start) {
    const TimelineSpan& span = spans[index];
    collectives[span.name][timeline.tracks[span.track].device].push_back({span.start, span.end});
  }
  return collectives;
}

/// All took part in each: as many on every device.
bool is_of_all(const ByDevice& stays, std::size_t devices) {
  const std::size_t count = stays.begin()->second.size();
  return stays.size() == devices &&
         std::all_of(stays.begin(), stays.end(),
                     [count](const auto& one) { return one.second.size() == count; });
}

Picoseconds length_of(const Interval& stay) {
  return stay.end - stay.start;
}

/// The device that the others waited for in the i-th.
int last_to_come(const ByDevice& stays, std::size_t i, bool has_one_clock) {
  const auto last = std::min_element(stays.begin(), stays.end(), [&](const auto& a, const auto& b) {
    return has_one_clock ? a.second[i].start > b.second[i].start
                         : length_of(a.second[i]) < length_of(b.second[i]);
  });
  return last->first;
}

/// Of a device's stay, while the last one had not come.
Picoseconds wait_of(const Interval& stay, const Interval& last, bool has_one_clock) {
  if (!has_one_clock) return length_of(stay) - length_of(last);
  return std::max(Picoseconds{}, std::min(stay.end, last.start) - stay.start);
}

}  // namespace

std::vector<RankWait> rank_waits(const Timeline& timeline, const SpanIndices& work,
                                 const std::vector<DeviceAnalysis>& devices) {
  if (devices.size() < 2) return {};
  const bool has_one_clock =
      std::any_of(timeline.metadata.begin(), timeline.metadata.end(),
                  [](const auto& one) { return one.first == kMergedRanksKey; });
  std::map<int, RankWait> waits;
  for (const DeviceAnalysis& one : devices) {
    waits[one.device] = {.device = one.device, .name = one.name};
  }
  for (const auto& [name, stays] : collectives_of(timeline, work)) {
    throw_if_stopped();
    if (!is_of_all(stays, devices.size())) continue;
    for (std::size_t i = 0; i < stays.begin()->second.size(); ++i) {
      const int last = last_to_come(stays, i, has_one_clock);
      ++waits[last].came_last;
      for (const auto& [device, of] : stays) {
        RankWait& wait = waits[device];
        ++wait.collectives;
        wait.time += length_of(of[i]);
        wait.waited += wait_of(of[i], stays.at(last)[i], has_one_clock);
      }
    }
  }
  std::vector<RankWait> list;
  for (const auto& [device, wait] : waits) {
    if (wait.collectives > 0) list.push_back(wait);
  }
  return list;
}

}  // namespace zenflow::sim
