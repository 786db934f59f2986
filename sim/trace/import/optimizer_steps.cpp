#include "sim/trace/import/optimizer_steps.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace zenflow::sim {
namespace {

using Ranges = std::vector<const TimelineSpan*>;

/// What lies before each range, behind the one before it.
struct Between {
  explicit Between(std::size_t ranges)
      : kernels(ranges, 0),
        forward_kernels(ranges, 0),
        has_backward(ranges, false),
        holds_backward(ranges, false),
        is_in_backward(ranges, false),
        besides_backward(ranges, 0) {}

  std::vector<std::int64_t> kernels;
  std::vector<std::int64_t> forward_kernels;
  std::vector<bool> has_backward;
  std::vector<bool> holds_backward;  ///< the range itself: its optimizer is given a closure
  std::vector<bool> is_in_backward;  ///< the range itself: a hook updates what has its gradient
  std::vector<std::int64_t> besides_backward;  ///< time in which none runs; of the first: not known
  std::optional<Picoseconds> first_kernel{};   ///< when it was launched, before the first range
};

/// Marks places from `first` on, below `end`, a pair of changes each.
class Marks {
 public:
  explicit Marks(std::size_t places) : changes_(places + 1, 0) {}
  void add(std::size_t first, std::size_t end) {
    if (end <= first) return;
    ++changes_[first];
    --changes_[end];
  }
  /// Sets those that are marked.
  void set(std::vector<bool>& places) const {
    std::int64_t marks = 0;
    for (std::size_t i = 0; i < places.size(); ++i) {
      marks += changes_[i];
      if (marks > 0) places[i] = true;
    }
  }

 private:
  std::vector<std::int64_t> changes_;
};

/// The first of the ranges that begin after `time`; as many as there are: none.
std::size_t range_after(const Ranges& ranges, Picoseconds time) {
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), time,
                       [](Picoseconds at, const TimelineSpan* one) { return at < one->start; });
  return static_cast<std::size_t>(next - ranges.begin());
}

/// The first of the ranges that end at `time` or later; as many as there are: none.
std::size_t range_ending(const Ranges& ranges, Picoseconds time) {
  const auto next =
      std::lower_bound(ranges.begin(), ranges.end(), time,
                       [](const TimelineSpan* one, Picoseconds at) { return one->end < at; });
  return static_cast<std::size_t>(next - ranges.begin());
}

/// There may be many of both.
void find_backwards(const std::vector<HostInterval>& intervals, const TraceRules& rules,
                    const Ranges& ranges, Between& found) {
  const std::size_t count = ranges.size();
  Marks before(count);
  Marks inside(count);
  Intervals passes;
  for (const HostInterval& one : intervals) {
    if (rules.phases[one.rule].phase != SpanPhase::kBackward) continue;
    const std::size_t first = range_after(ranges, one.start);
    const std::size_t last = range_ending(ranges, one.end);
    before.add(first, std::min(last + 1, count));
    if (first > 0 && one.end <= ranges[first - 1]->end) found.holds_backward[first - 1] = true;
    inside.add(first, last);
    passes.push_back({one.start, one.end});
  }
  before.set(found.has_backward);
  inside.set(found.is_in_backward);
  passes = unite(std::move(passes));
  for (std::size_t i = 1; i < count; ++i) {
    const Interval gap{ranges[i - 1]->end, ranges[i]->start};
    const Picoseconds covered = length_within(passes, gap.start, gap.end);
    found.besides_backward[i] = (gap.end - gap.start - covered).count;
  }
}

Between work_between(const Timeline& timeline, const SpanLaunches& launch,
                     const std::vector<HostInterval>& intervals, const TraceRules& rules,
                     const Ranges& ranges) {
  Between found(ranges.size());
  for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
    const TimelineSpan& span = timeline.spans[i];
    if (kind_of(timeline, span) != SpanKind::kKernel) continue;
    const Picoseconds time = launch[i] == kNoSpan ? span.start : timeline.spans[launch[i]].start;
    const std::size_t next = range_after(ranges, time);
    if (next > 0 && time < ranges[next - 1]->end) {
      if (span.phase == SpanPhase::kBackward) found.holds_backward[next - 1] = true;
      continue;
    }
    if (next == ranges.size()) continue;
    ++found.kernels[next];
    if (span.phase == SpanPhase::kForward) ++found.forward_kernels[next];
    if (span.phase == SpanPhase::kBackward) found.has_backward[next] = true;
    if (next == 0) found.first_kernel = std::min(found.first_kernel.value_or(time), time);
  }
  find_backwards(intervals, rules, ranges, found);
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
  const auto any_of = [](const std::vector<bool>& places) {
    return std::find(places.begin() + 1, places.end(), true) != places.end();
  };
  const bool has_kernels = most_of(between.kernels) > 0;
  const std::vector<std::int64_t> amounts = has_kernels ? between.kernels : times_between(ranges);
  const std::int64_t most = most_of(amounts);
  const auto is_much = [](std::int64_t amount, std::int64_t of) {
    constexpr std::int64_t kShare = 8;
    return amount >= std::max<std::int64_t>(1, of / kShare);
  };
  const std::int64_t most_besides = most_of(between.besides_backward);
  const bool shows_backward = any_of(between.has_backward) || any_of(between.holds_backward);
  const bool shows_forward = most_of(between.forward_kernels) > 0;
  const auto has_forward = [&](std::size_t i) {
    if (between.holds_backward[i]) return true;
    if (!shows_backward) return is_much(amounts[i], most);
    if (!between.has_backward[i]) return false;
    if (shows_forward) return between.forward_kernels[i] > 0;
    return !between.is_in_backward[i] || is_much(between.besides_backward[i], most_besides);
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
