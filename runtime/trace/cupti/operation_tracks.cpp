#include "runtime/trace/cupti/operation_tracks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/trace/span_names.h"

namespace zenflow::runtime {
namespace {

using sim::TimelineSpan;

class OperationTracks {
 public:
  OperationTracks(sim::Timeline& timeline, std::vector<LaunchedOperation> operations,
                  Clock::time_point origin)
      : timeline_(timeline), operations_(std::move(operations)), origin_(origin) {
    std::stable_sort(operations_.begin(), operations_.end(),
                     [](const LaunchedOperation& a, const LaunchedOperation& b) {
                       return std::tuple(a.thread, a.start, b.end) <
                              std::tuple(b.thread, b.start, a.end);
                     });
    find_outer();
    ranges_.resize(operations_.size());
  }

  void add() {
    for (const sim::TimelineFlow& flow : timeline_.flows) {
      if (flow.kind == sim::FlowKind::kLaunch) join(timeline_.spans[flow.from], flow.to);
    }
    write();
  }

 private:
  /// What an operation put on the GPU, as a whole.
  struct Range {
    Picoseconds start;
    Picoseconds end;
    double bytes = 0;  ///< over the link
  };

  [[nodiscard]] Picoseconds since_origin(Clock::time_point time) const {
    return {std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin_).count() * 1000};
  }

  /// Operations of one thread follow one another or contain one another.
  void find_outer() {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      const auto ended = [&](const LaunchedOperation& other) {
        return other.thread != operations_[i].thread || other.end < operations_[i].end;
      };
      while (!open.empty() && ended(operations_[open.back()])) open.pop_back();
      outer_.push_back(open.empty() ? std::nullopt : std::optional(open.back()));
      open.push_back(i);
    }
  }

  /// The innermost one that contains the call's beginning: the last that began before it, or one
  /// around that.
  [[nodiscard]] std::optional<std::size_t> operation_of(const TimelineSpan& call) const {
    const std::int64_t thread = timeline_.tracks[call.track].number;
    const auto begins_later = [&](const std::pair<std::int64_t, Picoseconds>& at,
                                  const LaunchedOperation& one) {
      return at < std::pair(one.thread, since_origin(one.start));
    };
    const auto behind = std::upper_bound(operations_.begin(), operations_.end(),
                                         std::pair(thread, call.start), begins_later);
    if (behind == operations_.begin()) return std::nullopt;
    if ((behind - 1)->thread != thread) return std::nullopt;
    std::optional<std::size_t> found(behind - 1 - operations_.begin());
    while (found && since_origin(operations_[*found].end) < call.start) found = outer_[*found];
    return found;
  }

  [[nodiscard]] bool crosses_link(const TimelineSpan& work) const {
    if (kind_of(timeline_, work) != sim::SpanKind::kCopy) return false;
    const sim::CopyDirection direction = sim::copy_name(timeline_.name_of(work)).direction;
    return direction == sim::CopyDirection::kH2D || direction == sim::CopyDirection::kD2H;
  }

  void join(const TimelineSpan& call, std::uint32_t index) {
    const auto operation = operation_of(call);
    if (!operation) return;
    const TimelineSpan& work = timeline_.spans[index];
    names_.try_emplace(work.track, operations_[*operation].stream);
    std::optional<Range>& range = ranges_[*operation];
    if (!range) range = Range{work.start, work.end};
    range->start = std::min(range->start, work.start);
    range->end = std::max(range->end, work.end);
    if (crosses_link(work)) range->bytes += timeline_.extra_of(work).bytes;
  }

  void write() {
    for (const auto& [track, name] : names_) timeline_.tracks[track].name += ": " + name;
    std::map<std::string, std::vector<TimelineSpan>> by_stream;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      if (!ranges_[i]) continue;
      const sim::SpanExtra extra{.bytes = ranges_[i]->bytes,
                                 .step = static_cast<std::int32_t>(operations_[i].step)};
      by_stream[operations_[i].stream].push_back(
          {.name = timeline_.names.intern(recorded_name(operations_[i].operation)),
           .start = ranges_[i]->start,
           .end = ranges_[i]->end,
           .extra = timeline_.extras.intern(extra),
           .kind = sim::SpanKind::kRange,
           .operation = operations_[i].operation});
    }
    for (auto& [stream, ranges] : by_stream) {
      std::stable_sort(
          ranges.begin(), ranges.end(),
          [](const TimelineSpan& a, const TimelineSpan& b) { return a.start < b.start; });
      const auto track = static_cast<std::uint32_t>(timeline_.tracks.size());
      timeline_.tracks.push_back({.name = stream, .kind = sim::TrackKind::kRuntime});
      for (TimelineSpan& range : ranges) {
        range.track = track;
        timeline_.spans.push_back(range);
      }
    }
  }

  sim::Timeline& timeline_;
  std::vector<LaunchedOperation> operations_;      // by thread and start, the outer one first
  std::vector<std::optional<std::size_t>> outer_;  // by operation: the innermost one around it
  Clock::time_point origin_;
  std::vector<std::optional<Range>> ranges_;    // by operation
  std::map<std::uint32_t, std::string> names_;  // of streams, by track
};

}  // namespace

void add_operation_tracks(sim::Timeline& timeline, std::vector<LaunchedOperation> operations,
                          Clock::time_point origin) {
  OperationTracks(timeline, std::move(operations), origin).add();
}

}  // namespace zenflow::runtime
