#include <algorithm>
#include <span>
#include <tuple>

#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/import/rule_matcher.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

WaitCause stall_of(HostLane lane) {
  switch (lane) {
    case HostLane::kCpuUpdate:
      return WaitCause::kCpuUpdate;
    case HostLane::kSelection:
      return WaitCause::kSelection;
    case HostLane::kNvme:
      return WaitCause::kNvme;
    case HostLane::kNone:
      break;
  }
  return WaitCause::kOther;
}

/// Ranges of an optimizer in which its thread asks no GPU for anything, or for little between long
/// computing (its weights' copy): the host computes the update, whoever's optimizer it is (FSDP's
/// and DeepSpeed's with torch.optim, Megatron's hybrid one).
class HostOptimizers {
 public:
  HostOptimizers(const Timeline& timeline, const TraceRules& rules)
      : timeline_(timeline), patterns_(timeline.names, patterns_of(rules)) {
    launches_.resize(timeline.tracks.size());
    bool has_work = false;
    bool has_calls = false;
    for (const TimelineSpan& span : timeline.spans) {
      const SpanKind kind = kind_of(timeline, span);
      has_work = has_work || is_gpu_work(kind);
      if (kind != SpanKind::kLaunch) continue;
      has_calls = true;
      launches_[span.track].push_back(span.start);
    }
    for (std::vector<Picoseconds>& times : launches_) std::sort(times.begin(), times.end());
    // Kernels whose calls were not recorded may be an optimizer's.
    is_known_ = has_calls || !has_work;
  }

  /// When the host computes in it; empty if it is none of these ranges.
  [[nodiscard]] std::vector<Interval> computing(const TimelineSpan& span) {
    const bool is_of_thread = timeline_.tracks[span.track].process >= 0;
    if (!is_known_ || !is_of_thread || kind_of(timeline_, span) != SpanKind::kRange) return {};
    if (patterns_.first_match(span.name) < 0) return {};
    const std::vector<Picoseconds>& launches = launches_[span.track];
    const auto first = std::lower_bound(launches.begin(), launches.end(), span.start);
    const auto last = std::lower_bound(first, launches.end(), span.end);
    if (first == last) return {{span.start, span.end}};
    return long_gaps({first, last}, span);
  }

 private:
  /// Between calls; none unless they are nearly all of the range.
  static std::vector<Interval> long_gaps(std::span<const Picoseconds> calls,
                                         const TimelineSpan& span) {
    constexpr std::size_t kMostCalls = 1000;
    constexpr Picoseconds kLong{1'000'000'000};  // 1 ms: who launches kernels is faster
    constexpr double kNearlyAll = 0.9;
    if (calls.size() > kMostCalls) return {};
    std::vector<Interval> gaps;
    Picoseconds sum;
    Picoseconds from = span.start;
    const auto add = [&](Picoseconds to) {
      if (to - from >= kLong) {
        gaps.push_back({from, to});
        sum += to - from;
      }
      from = to;
    };
    for (const Picoseconds call : calls) add(call);
    add(span.end);
    const auto whole = static_cast<double>((span.end - span.start).count);
    if (static_cast<double>(sum.count) < kNearlyAll * whole) return {};
    return gaps;
  }

  static std::vector<std::string> patterns_of(const TraceRules& rules) {
    std::vector<std::string> patterns = rules.optimizers;
    for (const PhaseRule& rule : rules.phases) {
      if (rule.phase == SpanPhase::kOptimizer) patterns.push_back(rule.range);
    }
    return patterns;
  }

  const Timeline& timeline_;
  MatchedNames patterns_;
  std::vector<std::vector<Picoseconds>> launches_;  // by track, when they began
  bool is_known_ = false;
};

}  // namespace

void StallSweep::add_activity(const Activity& activity) {
  // The rest of its time the GPU computes.
  if (activity.end > computed_) waiting_.push_back(activity);
}

void StallSweep::add_kernel(const Interval& when, std::optional<Picoseconds> launched) {
  if (when.start > kernel_start_) {
    close_gap();
    kernel_start_ = when.start;
    launched_ = launched;
  } else if (launched) {
    // If kernels start together, the one that was launched first ends the gap.
    launched_ = launched_ ? std::min(*launched_, *launched) : launched;
  }
  if (when.start > computed_) gap_ = {computed_, when.start};
  computed_ = std::max(computed_, when.end);
}

std::array<Picoseconds, kTraceCauses> StallSweep::finish(Picoseconds end) {
  close_gap();
  if (computed_ < end) gap_ = {computed_, end};
  close_gap();
  return stall_;
}

std::optional<Picoseconds> StallSweep::next_start() const {
  if (waiting_.empty() && host_ == host_end_) return std::nullopt;
  if (waiting_.empty()) return host_->start;
  return host_ == host_end_ ? waiting_.front().start
                            : std::min(waiting_.front().start, host_->start);
}

/// Among activities that have started, only the one that ends last can still be a cause of waiting.
void StallSweep::begin(const Activity& one) {
  const bool ends_last =
      !last_ || std::tuple(last_->end, one.cause) < std::tuple(one.end, last_->cause);
  if (ends_last) last_ = one;
}

void StallSweep::begin_activities(Picoseconds now) {
  for (; !waiting_.empty() && waiting_.front().start <= now; waiting_.pop_front()) {
    begin(waiting_.front());
  }
  for (; host_ != host_end_ && host_->start <= now; ++host_) begin(*host_);
  if (last_ && last_->end <= now) last_.reset();
}

void StallSweep::close_gap() {
  const Interval gap = gap_;
  gap_ = {};
  const bool ends_with_kernel = kernel_start_ == gap.end;
  const bool is_known = ends_with_kernel && launched_;
  const Picoseconds launched = is_known ? std::min(*launched_, gap.end) : gap.start;
  const WaitCause unexplained =
      ends_with_kernel && !launched_ ? WaitCause::kNotRecorded : WaitCause::kOther;
  for (Picoseconds now = gap.start; now < gap.end;) {
    begin_activities(now);
    Picoseconds until = std::min(gap.end, next_start().value_or(gap.end));
    WaitCause cause = unexplained;
    if (last_) {
      cause = last_->cause;
      until = std::min(until, last_->end);
    } else if (now < launched) {
      cause = WaitCause::kLaunch;
      until = std::min(until, launched);
    }
    stall_[static_cast<std::size_t>(cause)] += until - now;
    now = until;
  }
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
  HostOptimizers optimizers(timeline, rules);
  std::vector<Activity> activities;
  for (const TimelineSpan& span : timeline.spans) {
    const SpanKind kind = kind_of(timeline, span);
    if (kind != SpanKind::kRange && kind != SpanKind::kOperation) continue;
    if (is_recorded_wait(timeline, span)) continue;
    int rule = range_patterns.first_match(span.name);
    if (rule < 0) rule = rule_of_track[span.track];
    if (span.end <= span.start) continue;
    if (rule >= 0) {
      activities.push_back(
          {span.start, span.end, stall_of(rules.lanes[static_cast<std::size_t>(rule)].lane)});
    } else {
      for (const Interval& one : optimizers.computing(span)) {
        activities.push_back({one.start, one.end, WaitCause::kCpuUpdate});
      }
    }
  }
  std::sort(activities.begin(), activities.end(), [](const Activity& a, const Activity& b) {
    return std::tuple(a.start, a.end) < std::tuple(b.start, b.end);
  });
  return activities;
}

}  // namespace zenflow::sim
