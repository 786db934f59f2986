#include <algorithm>
#include <tuple>

#include "sim/report/trace_parts.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

/// Goes through the gaps of one GPU from front to back.
class StallSweep {
 public:
  StallSweep(const std::vector<Activity>& activities, const std::vector<ComputeStart>& starts)
      : next_(activities.begin()), last_(activities.end()), starts_(starts) {}

  void gap(Picoseconds from, Picoseconds to) {
    const Launch launch = launch_before(to);
    for (Picoseconds now = from; now < to;) {
      for (; next_ != last_ && next_->start <= now; ++next_) active_.push_back(&*next_);
      const auto is_over = [&](const Activity* one) { return one->end <= now; };
      active_.erase(std::remove_if(active_.begin(), active_.end(), is_over), active_.end());
      Picoseconds until = next_ == last_ ? to : std::min(to, next_->start);
      TraceStall cause = launch.is_missing ? TraceStall::kNotRecorded : TraceStall::kOther;
      if (!active_.empty()) {
        const Activity* last = *std::max_element(
            active_.begin(), active_.end(), [](const Activity* a, const Activity* b) {
              return std::tuple(a->end, b->cause) < std::tuple(b->end, a->cause);
            });
        cause = last->cause;
        until = std::min(until, last->end);
      } else if (now < launch.returned) {
        cause = TraceStall::kLaunch;
        until = std::min(until, launch.returned);
      }
      stall[static_cast<std::size_t>(cause)] += until - now;
      now = until;
    }
  }

  std::array<Picoseconds, kTraceStalls> stall{};

 private:
  /// Of the kernel that starts at a gap's end, if one does.
  struct Launch {
    Picoseconds returned{};  ///< its call
    bool is_missing = false;
  };
  [[nodiscard]] Launch launch_before(Picoseconds start) const {
    const auto before = [](const ComputeStart& one, Picoseconds time) { return one.start < time; };
    const auto at = std::lower_bound(starts_.begin(), starts_.end(), start, before);
    if (at == starts_.end() || at->start != start) return {};
    if (!at->is_launch_known) return {.is_missing = true};
    return {.returned = std::min(at->launched, start)};
  }

  std::vector<Activity>::const_iterator next_;
  std::vector<Activity>::const_iterator last_;
  const std::vector<ComputeStart>& starts_;
  std::vector<const Activity*> active_;
};

TraceStall stall_of(HostLane lane) {
  switch (lane) {
    case HostLane::kCpuUpdate:
      return TraceStall::kCpuUpdate;
    case HostLane::kSelection:
      return TraceStall::kSelection;
    case HostLane::kNvme:
      return TraceStall::kNvme;
    case HostLane::kNone:
      break;
  }
  return TraceStall::kOther;
}

}  // namespace

std::array<Picoseconds, kTraceStalls> stall_by_cause(const Intervals& compute,
                                                     const std::vector<Activity>& activities,
                                                     const std::vector<ComputeStart>& starts,
                                                     Picoseconds start, Picoseconds end) {
  StallSweep sweep(activities, starts);
  for (const Interval& gap : subtract({{start, end}}, compute)) sweep.gap(gap.start, gap.end);
  return sweep.stall;
}

std::vector<Activity> host_activities(const Timeline& timeline, const TraceRules& rules) {
  std::vector<std::string> tracks;
  std::vector<std::string> ranges;
  for (const LaneRule& rule : rules.lanes) {
    tracks.push_back(rule.track);
    ranges.push_back(rule.range);
  }
  const NamePatterns track_patterns(tracks);
  MatchedNames range_patterns(timeline.names, ranges);
  std::vector<int> rule_of_track;
  for (const Track& track : timeline.tracks) {
    const bool is_host = track.kind == TrackKind::kHost;
    rule_of_track.push_back(is_host ? track_patterns.first_match(track.name) : -1);
  }
  std::vector<Activity> activities;
  for (const TimelineSpan& span : timeline.spans) {
    const SpanKind kind = kind_of(timeline, span);
    if (kind != SpanKind::kRange && kind != SpanKind::kOperation) continue;
    // A recorded wait is no work.
    if (span.cause != kNoName && span.stalled.count == 0) continue;
    int rule = range_patterns.first_match(span.name);
    if (rule < 0) rule = rule_of_track[span.track];
    if (rule < 0 || span.end <= span.start) continue;
    activities.push_back(
        {span.start, span.end, stall_of(rules.lanes[static_cast<std::size_t>(rule)].lane)});
  }
  std::sort(activities.begin(), activities.end(), [](const Activity& a, const Activity& b) {
    return std::tuple(a.start, a.end) < std::tuple(b.start, b.end);
  });
  return activities;
}

}  // namespace zenflow::sim
