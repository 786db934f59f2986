#include "sim/calibrate/trace/launch_times.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/calibrate/trace/clock_tick.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

double seconds(Picoseconds time) {
  return to_seconds(time).value();
}

MeasuredTime summary(const char* what, double tick, std::vector<double> values) {
  MeasuredTime found{what};
  found.samples = values.size();
  if (values.empty()) return found;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const double place = share * static_cast<double>(values.size() - 1);
    const double value = values[static_cast<std::size_t>(place)];
    const auto [first, last] =
        std::equal_range(values.begin(), values.end(), value,
                         [tick](double a, double b) { return a < b - tick / 2; });
    const auto below = static_cast<double>(first - values.begin());
    const auto equal = static_cast<double>(last - first);
    return std::max(0.0, value + tick * ((place + 0.5 - below) / equal - 0.5));
  };
  found.median = at(0.5);
  found.lower = at(0.25);
  found.upper = at(0.75);
  return found;
}

struct Values {
  std::vector<double> call;
  std::vector<double> delay;
  std::vector<double> gap;
  std::vector<double> starve;
};

/// Along one stream, by start.
void add_stream(const Timeline& timeline, const SpanLaunches& launch,
                const std::vector<std::uint32_t>& work, Values& values) {
  Picoseconds ended{};
  bool after_kernel = false;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const TimelineSpan& span = timeline.spans[work[i]];
    const bool is_kernel = kind_of(timeline, span) == SpanKind::kKernel;
    const std::uint32_t call_at = launch[work[i]];
    if (is_kernel && call_at != kNoSpan) {
      const TimelineSpan& call = timeline.spans[call_at];
      values.call.push_back(seconds(call.end - call.start));
      const bool was_idle = i == 0 || call.start > ended;
      // Clocks of host and GPU may disagree by microseconds.
      if (was_idle && span.start > call.start)
        values.delay.push_back(seconds(span.start - call.start));
      if (i > 0 && after_kernel && span.start >= ended) {
        (call.end < ended ? values.gap : values.starve).push_back(seconds(span.start - ended));
      }
    }
    ended = i == 0 ? span.end : std::max(ended, span.end);
    after_kernel = is_kernel;
  }
}

/// The work that ended last before the wait returned, if it ended during the wait.
std::vector<double> wakes(const Timeline& timeline, std::vector<Picoseconds> ends) {
  std::sort(ends.begin(), ends.end());
  std::vector<double> found;
  for (const TimelineSpan& span : timeline.spans) {
    if (kind_of(timeline, span) != SpanKind::kCall) continue;
    const std::string& name = timeline.name_of(span);
    const bool waits =
        name.find("DeviceSynchronize") != name.npos || name.find("StreamSynchronize") != name.npos;
    if (!waits) continue;
    const auto after = std::upper_bound(ends.begin(), ends.end(), span.end);
    if (after == ends.begin()) continue;
    const Picoseconds last = *std::prev(after);
    if (last > span.start) found.push_back(seconds(span.end - last));
  }
  return found;
}

}  // namespace

LaunchTimes launch_times(const Timeline& timeline, const SpanLaunches& launch) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> streams;
  std::vector<Picoseconds> ends;
  for (std::uint32_t i = 0; i < timeline.spans.size(); ++i) {
    const TimelineSpan& span = timeline.spans[i];
    if (!is_gpu_work(kind_of(timeline, span))) continue;
    streams[span.track].push_back(i);
    ends.push_back(span.end);
  }
  Values values;
  for (auto& [track, work] : streams) {
    std::stable_sort(work.begin(), work.end(), [&](std::uint32_t a, std::uint32_t b) {
      return timeline.spans[a].start < timeline.spans[b].start;
    });
    add_stream(timeline, launch, work, values);
  }
  const double tick = clock_tick(timeline, is_gpu_work);
  return {summary("a launching call", tick, std::move(values.call)),
          summary("launch to start, idle stream", tick, std::move(values.delay)),
          summary("gap between queued kernels", tick, std::move(values.gap)),
          summary("gap waiting for the host", tick, std::move(values.starve)),
          summary("end of work to return of wait", tick, wakes(timeline, std::move(ends)))};
}

}  // namespace zenflow::sim
