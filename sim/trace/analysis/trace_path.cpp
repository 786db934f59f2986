#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "sim/base/stop.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_indices.h"

namespace zenflow::sim {
namespace {

constexpr const char* kHost = "host";
constexpr const char* kNotRecorded = "not_recorded";
constexpr const char* kLaunch = "launch";
constexpr const char* kUndetermined = "undetermined";

/// Walks from the end of a run to its start. Every moment goes to one name.
class PathWalk {
 public:
  PathWalk(const Timeline& timeline, const SpanLaunches& launch, const std::vector<Activity>& host,
           Picoseconds start)
      : timeline_(timeline), launch_(launch), start_(start) {
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
    const char* before_all = host_;
    // Spans of no length could lead in a circle.
    std::size_t left = 2 * timeline_.spans.size() + 2;
    constexpr std::size_t kBetweenQuestions = 1 << 16;
    while (at != kNoSpan && now_ > start_ && left-- > 0) {
      if (left % kBetweenQuestions == 0) throw_if_stopped();
      // If work of a GPU waited for nothing in the trace, not even its launch was recorded.
      const bool is_work = is_gpu_work(kind_of(timeline_, timeline_.spans[at]));
      before_all = is_work ? kNotRecorded : kHost;
      at = is_call(timeline_.spans[at]) ? before_call(at) : before_work(at);
    }
    spend(start_, at == kNoSpan ? before_all : kUndetermined);
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
      return (is_call(span) || is_host_lane(span.track)) &&
             kind_of(timeline_, span) != SpanKind::kRange;
    };
    const auto has_place = [&](const TimelineSpan& span) {
      return is_work(span) || is_call(span) || is_host_task(span);
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

  [[nodiscard]] bool is_call(const TimelineSpan& span) const {
    const SpanKind kind = kind_of(timeline_, span);
    return kind == SpanKind::kLaunch || kind == SpanKind::kCall;
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
      const Picoseconds returned = std::min(timeline_.spans[call].end, work.start);
      is_launch = last == kNoSpan || returned > ended;
      consider(call, returned);
    }
    if (last != kNoSpan) spend(ended, is_launch ? kLaunch : kUndetermined);
    return last;
  }

  [[nodiscard]] bool waits(const TimelineSpan& call) const {
    const std::string& name = timeline_.name_of(call);
    return name.find("ynchronize") != name.npos;
  }

  std::uint32_t before_call(std::uint32_t index) {
    const TimelineSpan& call = timeline_.spans[index];
    if (waits(call)) {
      const std::uint32_t awaited = last_gpu_work(std::min(call.end, now_));
      if (awaited != kNoSpan && timeline_.spans[awaited].end > call.start) {
        spend(timeline_.spans[awaited].end, kHost);
        return awaited;
      }
    }
    spend(call.start, kHost);
    const std::uint32_t previous = previous_of(index);
    if (previous != kNoSpan) spend(timeline_.spans[previous].end, kHost);
    return previous;
  }

  const Timeline& timeline_;
  const SpanLaunches& launch_;
  Picoseconds start_;
  Picoseconds now_{};
  const char* host_ =
      kNotRecorded;  // what the time of the host is called: kHost if it was recorded
  Intervals updates_;
  SpanIndices rows_;    // work, calls and host tasks: by track, then start
  SpanIndices by_end_;  // work, by end
  std::vector<std::pair<std::uint32_t, std::uint32_t>> dependencies_;  // to, from
  std::map<std::string, Picoseconds> times_;
};

}  // namespace

std::vector<PathPart> critical_path(const Timeline& timeline, const SpanLaunches& launch,
                                    const std::vector<Activity>& host, Picoseconds start,
                                    Picoseconds end) {
  PathWalk walk(timeline, launch, host, start);
  walk.walk(end);
  return walk.parts();
}

}  // namespace zenflow::sim
