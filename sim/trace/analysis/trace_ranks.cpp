#include <algorithm>
#include <map>

#include "sim/base/stop.h"
#include "sim/trace/analysis/trace_parts.h"

namespace zenflow::sim {
namespace {

using Lengths = std::vector<Picoseconds>;

/// A name's collectives, by device, in the order in which each began them.
using ByDevice = std::map<int, Lengths>;

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
    collectives[span.name][timeline.tracks[span.track].device].push_back(span.end - span.start);
  }
  return collectives;
}

/// All took part in each: as many on every device.
bool is_of_all(const ByDevice& lengths, std::size_t devices) {
  const std::size_t count = lengths.begin()->second.size();
  return lengths.size() == devices &&
         std::all_of(lengths.begin(), lengths.end(),
                     [count](const auto& one) { return one.second.size() == count; });
}

}  // namespace

std::vector<RankWait> rank_waits(const Timeline& timeline, const SpanIndices& work,
                                 const std::vector<DeviceAnalysis>& devices) {
  if (devices.size() < 2) return {};
  std::map<int, RankWait> waits;
  for (const DeviceAnalysis& one : devices) {
    waits[one.device] = {.device = one.device, .name = one.name};
  }
  for (const auto& [name, lengths] : collectives_of(timeline, work)) {
    throw_if_stopped();
    if (!is_of_all(lengths, devices.size())) continue;
    for (std::size_t i = 0; i < lengths.begin()->second.size(); ++i) {
      const auto shortest =
          std::min_element(lengths.begin(), lengths.end(),
                           [i](const auto& a, const auto& b) { return a.second[i] < b.second[i]; });
      ++waits[shortest->first].came_last;
      for (const auto& [device, of] : lengths) {
        RankWait& wait = waits[device];
        ++wait.collectives;
        wait.time += of[i];
        wait.waited += of[i] - shortest->second[i];
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
