#include "sim/trace/import/optimizer_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace zenflow::sim {
namespace {

using Ranges = std::vector<const TimelineSpan*>;

/// What lies before each range, behind the one before it.
struct Between {
  std::vector<std::int64_t> kernels;
  std::vector<bool> has_backward;
  std::optional<Picoseconds> first_kernel{};  ///< when it was launched, before the first range
};

/// The first of the ranges that begin after `time`; as many as there are: none.
std::size_t range_after(const Ranges& ranges, Picoseconds time) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), time,
                       [](Picoseconds at, const TimelineSpan* one) { return at < one->start; });
  return static_cast<std::size_t>(next - ranges.begin());
}

Between work_between(const Timeline& timeline, const SpanLaunches& launch,
                     const std::vector<HostInterval>& intervals, const TraceRules& rules,
                     const Ranges& ranges) {
  Between found{std::vector<std::int64_t>(ranges.size(), 0),
                std::vector<bool>(ranges.size(), false)};
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const TimelineSpan& span = timeline.spans[i];
    if (kind_of(timeline, span) != SpanKind::kKernel) continue;
    const Picoseconds time = launch[i] == kNoSpan ? span.start : timeline.spans[launch[i]].start;
    const std::size_t next = range_after(ranges, time);
    if (next == ranges.size() || (next > 0 && time < ranges[next - 1]->end)) continue;
    ++found.kernels[next];
    if (span.phase == SpanPhase::kBackward) found.has_backward[next] = true;
    if (next == 0) found.first_kernel = std::min(found.first_kernel.value_or(time), time);
  }
  // Added up to a range: backwards between it and the one before. There may be many of both.
  std::vector<std::int64_t> changes(ranges.size() + 1, 0);
  for (const HostInterval& one : intervals) {
    if (rules.phases[one.rule].phase != SpanPhase::kBackward) continue;
    const std::size_t first = range_after(ranges, one.start);
    const auto covers =
        std::lower_bound(ranges.begin(), ranges.end(), one.end,
                         [](const TimelineSpan* range, Picoseconds at) { return range->end < at; });
    const auto behind = static_cast<std::size_t>(covers - ranges.begin()) + 1;
    ++changes[first];
    --changes[std::clamp(behind, first, ranges.size())];
  }
  std::int64_t backwards = 0;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    backwards += changes[i];
    if (backwards > 0) found.has_backward[i] = true;
  }
  return found;
}

/// Of the first range: not known.
std::vector<std::int64_t> times_between(const Ranges& ranges) {
  std::vector<std::int64_t> times(ranges.size(), 0);
  for (std::size_t i = 1; i < ranges.size(); ++i) {
    times[i] = (ranges[i]->start - ranges[i - 1]->end).count;
  }
  return times;
}

}  // namespace

std::vector<TimelineStep> steps_between_updates(const Timeline& timeline,
                                                const SpanLaunches& launch,
                                                const std::vector<HostInterval>& intervals,
                                                const TraceRules& rules, const Ranges& ranges) {
  if (ranges.size() < 2) return {};
  const Between between = work_between(timeline, launch, intervals, rules, ranges);
  const auto most_of = [](const std::vector<std::int64_t>& amounts) {
    return *std::max_element(amounts.begin() + 1, amounts.end());
  };
  const bool has_kernels = most_of(between.kernels) > 0;
  const std::vector<std::int64_t> amounts = has_kernels ? between.kernels : times_between(ranges);
  const std::int64_t most = most_of(amounts);
  constexpr std::int64_t kShare = 8;
  const bool shows_backward =
      std::find(between.has_backward.begin() + 1, between.has_backward.end(), true) !=
      between.has_backward.end();
  const auto has_forward = [&](std::size_t i) {
    if (shows_backward) return bool{between.has_backward[i]};
    return amounts[i] >= std::max<std::int64_t>(1, most / kShare);
  };
  std::vector<Picoseconds> ends;
  std::vector<std::int64_t> forwards;  // kernels of each but the first
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    if (i > 0 && !has_forward(i)) {
      ends.back() = ranges[i]->end;
      continue;
    }
    ends.push_back(ranges[i]->end);
    if (i > 0) forwards.push_back(between.kernels[i]);
  }
  if (ends.size() < 2) return {};
  std::vector<TimelineStep> steps;
  const auto add = [&](Picoseconds start, Picoseconds end) {
    steps.push_back({static_cast<std::int64_t>(steps.size()), start, end});
  };
  std::sort(forwards.begin(), forwards.end());
  // A first step may have a few less: gradients that are not yet there need not be set to zero.
  const auto whole = 0.98 * static_cast<double>(forwards[forwards.size() / 2]);
  const bool is_first_whole =
      has_kernels && between.first_kernel && static_cast<double>(between.kernels[0]) >= whole;
  if (is_first_whole) add(*between.first_kernel, ends[0]);
  for (std::size_t i = 0; i + 1 < ends.size(); ++i) add(ends[i], ends[i + 1]);
  return steps;
}

}  // namespace zenflow::sim
