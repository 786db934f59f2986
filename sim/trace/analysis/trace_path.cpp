#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "sim/base/stop.h"
#include "sim/trace/analysis/host_threads.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_indices.h"

namespace zenflow::sim {
namespace {

constexpr const char* kHost = "host";
constexpr const char* kNotRecorded = "not_recorded";
constexpr const char* kLaunch = "launch";
constexpr const char* kUndetermined = "undetermined";
/// Between two calls a thread runs code of its own for less than this, if nobody else calls
/// meanwhile: with the profiler's help eager operations take up to some 100 us.
constexpr Picoseconds kPause{1'000'000'000};  // 1 ms

/// Walks from the end of a run to its start. Every moment goes to one name.
class PathWalk {
 public:
  PathWalk(const ImportedTrace& trace, const SpanLaunches& launch,
           const std::vector<Activity>& host, Picoseconds start)
      : timeline_(trace.timeline),
        launch_(launch),
        threads_(trace, launch),
        copies_(trace.timeline, launch),
        start_(start) {
    for (const Activity& one : host) {
      if (one.cause == WaitCause::kCpuUpdate) updates_.push_back({one.start, one.end});
    }
    updates_ = unite(std::move(updates_));
    place_spans();
  }

  void walk(Picoseconds end) {
    now_ = end;
    std::uint32_t at = last_gpu_work(end);
    if (at != kNoSpan) spend(timeline_.spans[at].end, host_);
    before_all_ = host_;
    // Spans of no length could lead in a circle.
    std::size_t left = 2 * timeline_.spans.size() + 2;
    constexpr std::size_t kBetweenQuestions = 1 << 16;
    while (at != kNoSpan && now_ > start_ && left-- > 0) {
      if (left % kBetweenQuestions == 0) throw_if_stopped();
      // If work of a GPU waited for nothing in the trace, not even its launch was recorded.
      const bool is_work = is_gpu_work(kind_of(timeline_, timeline_.spans[at]));
      before_all_ = is_work ? kNotRecorded : kHost;
      at = is_call(timeline_, timeline_.spans[at]) ? before_call(at) : before_work(at);
    }
    spend(start_, at == kNoSpan ? before_all_ : kUndetermined);
  }

  [[nodiscard]] std::vector<PathPart> parts() const {
    std::vector<PathPart> parts;
    for (const auto& [what, time] : times_) {
      if (time.count > 0) parts.push_back({what, time});
    }
    std::stable_sort(parts.begin(), parts.end(),
                     [](const PathPart& a, const PathPart& b) { return a.time > b.time; });
    return parts;
  }

 private:
  void place_spans() {
    const auto& spans = timeline_.spans;
    const auto is_work = [&](const TimelineSpan& span) {
      return is_gpu_work(kind_of(timeline_, span));
    };
    const auto is_of_host = [&](const TimelineSpan& span) {
      return (is_call(timeline_, span) || is_host_lane(span.track)) &&
             kind_of(timeline_, span) != SpanKind::kRange;
    };
    const auto has_place = [&](const TimelineSpan& span) {
      return is_work(span) || is_call(timeline_, span) || is_host_task(span);
    };
    const auto count = [&](const auto& counts) {
      return static_cast<std::size_t>(std::count_if(spans.begin(), spans.end(), counts));
    };
    rows_ = SpanIndices(count(has_place));
    by_end_ = SpanIndices(count(is_work));
    for (std::uint32_t i = 0; i < spans.size(); ++i) {
      if (has_place(spans[i])) rows_.push_back(i);
      if (is_work(spans[i])) by_end_.push_back(i);
      if (is_of_host(spans[i])) host_ = kHost;
    }
    rows_.sort([&](std::uint32_t a, std::uint32_t b) { return place_of(a) < place_of(b); });
    by_end_.sort([&](std::uint32_t a, std::uint32_t b) {
      return std::tuple(spans[a].end, a) < std::tuple(spans[b].end, b);
    });
    for (const TimelineFlow& flow : timeline_.flows) {
      if (flow.kind == FlowKind::kDependency) dependencies_.emplace_back(flow.to, flow.from);
    }
    std::sort(dependencies_.begin(), dependencies_.end());
  }

  [[nodiscard]] std::tuple<std::uint32_t, Picoseconds, std::uint32_t> place_of(
      std::uint32_t index) const {
    const TimelineSpan& span = timeline_.spans[index];
    return {span.track, span.start, index};
  }

  /// What comes before it in its row.
  [[nodiscard]] std::uint32_t previous_of(std::uint32_t index) const {
    const auto place = place_of(index);
    const std::size_t at =
        rows_.partition_point([&](std::uint32_t one) { return place_of(one) < place; });
    if (at == 0) return kNoSpan;
    const std::uint32_t previous = rows_[at - 1];
    return timeline_.spans[previous].track == timeline_.spans[index].track ? previous : kNoSpan;
  }

  [[nodiscard]] bool is_host_lane(std::uint32_t track) const {
    return timeline_.tracks[track].kind == TrackKind::kHost;
  }

  /// A lane of the host, as our own traces have them: in order, as a stream. Recorded waits are no
  /// tasks.
  [[nodiscard]] bool is_host_task(const TimelineSpan& span) const {
    if (!is_host_lane(span.track)) return false;
    return !is_recorded_wait(timeline_, span) && kind_of(timeline_, span) == SpanKind::kOperation;
  }

  /// The work that ended last until `time`.
  [[nodiscard]] std::uint32_t last_gpu_work(Picoseconds time) const {
    const std::size_t behind = by_end_.partition_point(
        [&](std::uint32_t one) { return timeline_.spans[one].end <= time; });
    return behind == 0 ? kNoSpan : by_end_[behind - 1];
  }

  /// Goes back to `time` and books what lies between.
  void spend(Picoseconds time, const std::string& what) {
    const Picoseconds until = std::max(time, start_);
    if (until >= now_) return;
    Picoseconds length = now_ - until;
    if (what == kHost || what == kNotRecorded) {
      const Picoseconds updating = length_within(updates_, until, now_);
      times_["cpu_update"] += updating;
      length = length - updating;
    }
    times_[what] += length;
    now_ = until;
  }

  [[nodiscard]] std::string name_of(const TimelineSpan& span) const {
    switch (kind_of(timeline_, span)) {
      case SpanKind::kCollective:
        return "collective";
      case SpanKind::kMemset:
        return "memset";
      case SpanKind::kOperation:
        return kHost;
      case SpanKind::kCopy:
        break;
      default:
        return span.phase == SpanPhase::kNone ? "compute" : "compute " + to_string(span.phase);
    }
    switch (copy_name(timeline_.name_of(span)).direction) {
      case CopyDirection::kH2D:
        return "h2d";
      case CopyDirection::kD2H:
        return "d2h";
      default:
        return "copy_on_device";
    }
  }

  /// Books a piece of work of a GPU or a host lane; what it waited for last: its row, a dependency,
  /// its launch.
  std::uint32_t before_work(std::uint32_t index) {
    const TimelineSpan& work = timeline_.spans[index];
    spend(work.start, name_of(work));
    std::uint32_t last = kNoSpan;
    Picoseconds ended{};
    const auto consider = [&](std::uint32_t one, Picoseconds end) {
      if (last == kNoSpan || end > ended) {
        last = one;
        ended = end;
      }
    };
    if (const std::uint32_t previous = previous_of(index); previous != kNoSpan) {
      consider(previous, timeline_.spans[previous].end);
    }
    const auto first = std::lower_bound(dependencies_.begin(), dependencies_.end(),
                                        std::pair<std::uint32_t, std::uint32_t>(index, 0));
    for (auto flow = first; flow != dependencies_.end() && flow->first == index; ++flow) {
      consider(flow->second, timeline_.spans[flow->second].end);
    }
    bool is_launch = false;
    if (const std::uint32_t call = launch_[index]; call != kNoSpan) {
      // A call that waits for its copy had asked for it when it began to wait.
      const bool was_awaited = copies_.of_call(call) == index;
      const Picoseconds asked =
          was_awaited ? timeline_.spans[call].start : timeline_.spans[call].end;
      const Picoseconds returned = std::min(asked, work.start);
      is_launch = last == kNoSpan || returned > ended;
      consider(call, returned);
    }
    if (last != kNoSpan) spend(ended, is_launch ? kLaunch : kUndetermined);
    return last;
  }

  /// The work of a GPU that a call waited for, if that ended while it did.
  [[nodiscard]] std::uint32_t awaited_by(std::uint32_t index) const {
    const TimelineSpan& call = timeline_.spans[index];
    if (is_synchronization(timeline_, call)) {
      const std::uint32_t work = last_gpu_work(std::min(call.end, now_));
      return work != kNoSpan && timeline_.spans[work].end > call.start ? work : kNoSpan;
    }
    const std::uint32_t copy = copies_.of_call(index);
    return copy != kNoSpan && timeline_.spans[copy].start < now_ ? copy : kNoSpan;
  }

  std::uint32_t before_call(std::uint32_t index) {
    const TimelineSpan& call = timeline_.spans[index];
    if (const std::uint32_t awaited = awaited_by(index); awaited != kNoSpan) {
      spend(timeline_.spans[awaited].end, kHost);
      return awaited;
    }
    spend(call.start, kHost);
    const std::uint32_t previous = previous_of(index);
    const Picoseconds ended = previous == kNoSpan ? start_ : timeline_.spans[previous].end;
    if (threads_.is_worker(call.track)) return before_worker(index, previous, ended);
    const std::uint32_t other = threads_.last_call_of_others(call.track, ended, now_);
    const std::uint32_t last = other == kNoSpan ? previous : other;
    if (last != kNoSpan) spend(timeline_.spans[last].end, kHost);
    return last;
  }

  /// What a thread waited for that does as another one says, before the call at which the walk is:
  /// nobody records that. The last to end of the others' calls and the GPU's work may be it.
  std::uint32_t before_worker(std::uint32_t index, std::uint32_t previous, Picoseconds ended) {
    const std::uint32_t track = timeline_.spans[index].track;
    spend(std::max(threads_.active_since(track, now_), ended), kHost);
    if (now_ <= ended) return previous;
    std::uint32_t last = threads_.last_call_of_others(track, ended, now_);
    if (last == kNoSpan && previous != kNoSpan && now_ - ended < kPause) {
      spend(ended, kHost);
      return previous;
    }
    const std::uint32_t work = last_gpu_work(now_);
    const Picoseconds handed_over = last == kNoSpan ? ended : timeline_.spans[last].end;
    if (work != kNoSpan && timeline_.spans[work].end > handed_over) {
      spend_idle(timeline_.spans[work].end, track);
      return work;
    }
    if (last == kNoSpan) {
      spend_idle(ended, track);
      before_all_ = kUndetermined;
      return previous;
    }
    spend(handed_over, kHost);
    return last;
  }

  /// Back to `time`, while a worker had nothing to do: as long as it is known of the main thread
  /// that it ran something it is the host's.
  void spend_idle(Picoseconds time, std::uint32_t track) {
    const Picoseconds until = std::max(time, start_);
    if (until >= now_) return;
    const Picoseconds active = threads_.main_active_within(track, until, now_);
    spend(now_ - active, kHost);
    spend(until, kUndetermined);
  }

  const Timeline& timeline_;
  const SpanLaunches& launch_;
  HostThreads threads_;
  AwaitedCopies copies_;
  Picoseconds start_;
  Picoseconds now_{};
  const char* before_all_ = kNotRecorded;  // what the time before the first of a chain is called
  const char* host_ =
      kNotRecorded;  // what the time of the host is called: kHost if it was recorded
  Intervals updates_;
  SpanIndices rows_;    // work, calls and host tasks: by track, then start
  SpanIndices by_end_;  // work, by end
  std::vector<std::pair<std::uint32_t, std::uint32_t>> dependencies_;  // to, from
  std::map<std::string, Picoseconds> times_;
};

}  // namespace

std::vector<PathPart> critical_path(const ImportedTrace& trace, const SpanLaunches& launch,
                                    const std::vector<Activity>& host, Picoseconds start,
                                    Picoseconds end) {
  PathWalk walk(trace, launch, host, start);
  walk.walk(end);
  return walk.parts();
}

}  // namespace zenflow::sim
