#include "runtime/trace/cupti/activity_timeline.h"

#include <algorithm>
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "runtime/trace/cupti/activity_index.h"
#include "runtime/trace/cupti/activity_names.h"
#include "sim/base/error.h"
#include "sim/base/text.h"

namespace zenflow::runtime {
namespace {

using sim::SpanDetail;
using sim::TimelineSpan;
using sim::TrackKind;

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

/// Tracks in the order in which viewers list them.
struct TrackKey {
  enum class Row : std::uint8_t { kStream, kStreamSynchronization, kThread, kOverhead };
  Row row = Row::kStream;
  std::uint32_t owner = 0;   ///< device, or process
  std::uint32_t number = 0;  ///< stream, or thread
  std::uint32_t lane = 0;    ///< one more each time that spans would overlap without nesting

  friend auto operator<=>(const TrackKey&, const TrackKey&) = default;
};

struct Pending {
  TrackKey track;
  std::uint64_t start = 0;
  std::uint64_t end = 0;
  std::size_t activity = 0;  ///< decides ties: records keep their order
  std::string name;
  std::int32_t detail = -1;
  std::int64_t correlation = -1;
  double bytes = 0;
};

std::string number(std::uint64_t value) {
  return fmt::format("{}", value);
}

/// A stream's number as traces write it: -1 for "none".
std::string stream_number(std::uint32_t stream) {
  return stream == kNoNumber ? "-1" : number(stream);
}

class Builder {
 public:
  Builder(const ActivityLog& log, std::uint64_t origin)
      : log_(log), origin_(origin), index_(log), names_(log.strings.size()) {}

  MeasuredTimeline build() {
    if (origin_ > log_.session_start) {
      throw Error(ErrorKind::kRuntime, "a recording begins before the origin of its timeline");
    }
    for (std::size_t i = 0; i < log_.activities.size(); ++i) add(i);
    settle_lanes();
    write_tracks();
    write_flows();
    describe();
    return std::move(result_);
  }

 private:
  TimelineReport& report() { return result_.report; }

  const std::string& name(StringId id) {
    std::optional<std::string>& known = names_[id];
    if (!known) known = readable_name(log_.strings[id]);
    return *known;
  }

  std::int32_t detail(SpanDetail value) {
    const auto next = static_cast<std::int32_t>(result_.timeline.details.size());
    const auto [entry, is_new] = details_.try_emplace(value, next);
    if (is_new) result_.timeline.details.push_back(std::move(value));
    return entry->second;
  }

  void add(std::size_t index) {
    const Activity& activity = log_.activities[index];
    switch (activity.kind) {
      case ActivityKind::kKernel:
      case ActivityKind::kCopy:
      case ActivityKind::kMemset:
        return add_gpu(index, activity);
      case ActivityKind::kRuntimeCall:
      case ActivityKind::kDriverCall:
        return add_call(index, activity);
      case ActivityKind::kSynchronization:
        return add_synchronization(index, activity);
      case ActivityKind::kEventRecord:
        return add_event(index, activity);
      case ActivityKind::kOverhead:
        return add_overhead(index, activity);
      case ActivityKind::kRangeStart:
      case ActivityKind::kInstant:
        return add_range(index, activity);
      case ActivityKind::kRangeEnd:
        if (!index_.has_start(activity)) ++report().unmatched_ranges;
        return;
    }
  }

  /// Whether the times can be right; if not, counts why.
  bool usable(const Activity& activity) {
    if (!ActivityIndex::is_timed(activity)) {
      ++report().incomplete;
      return false;
    }
    if (!index_.in_session(activity)) {
      ++report().outside_session;
      return false;
    }
    return true;
  }

  Pending& pend(std::size_t index, const Activity& activity, TrackKey track, std::string name) {
    Pending& pending = pending_.emplace_back();
    pending.track = track;
    pending.start = activity.start;
    pending.end = activity.end;
    pending.activity = index;
    pending.name = std::move(name);
    if (activity.correlation != 0) pending.correlation = activity.correlation;
    return pending;
  }

  void add_gpu(std::size_t index, const Activity& activity) {
    if (!usable(activity)) return;
    if (const auto call = index_.call(activity.correlation);
        call && activity.start < log_.activities[*call].start) {
      ++report().before_launch;
      return;
    }
    const TrackKey track{TrackKey::Row::kStream, activity.device, activity.stream};
    SpanDetail about{.category = "kernel", .fields = {{"context", number(activity.context)}}};
    if (activity.graph != 0) about.fields.emplace_back("graph id", number(activity.graph));
    if (activity.kind == ActivityKind::kKernel) {
      ++report().kernels;
      describe_kernel(activity, about);
      pend(index, activity, track, name(activity.name)).detail = detail(std::move(about));
      return;
    }
    const bool is_copy = activity.kind == ActivityKind::kCopy;
    ++(is_copy ? report().copies : report().memsets);
    about.category = is_copy ? "gpu_memcpy" : "gpu_memset";
    if (activity.source_device != activity.destination_device) {
      about.fields.emplace_back("fromDevice", number(activity.source_device));
      about.fields.emplace_back("toDevice", number(activity.destination_device));
    }
    Pending& pending =
        pend(index, activity, track, is_copy ? copy_name(activity) : memset_name(activity));
    pending.bytes = static_cast<double>(activity.bytes);
    pending.detail = detail(std::move(about));
  }

  static void describe_kernel(const Activity& activity, SpanDetail& about) {
    const auto triple = [](const auto& of) {
      return fmt::format("[{},{},{}]", of[0], of[1], of[2]);
    };
    about.fields.emplace_back("registers per thread", number(activity.registers));
    about.fields.emplace_back("shared memory", number(activity.shared_memory));
    about.fields.emplace_back("grid", triple(activity.grid));
    about.fields.emplace_back("block", triple(activity.block));
  }

  void add_call(std::size_t index, const Activity& activity) {
    if (!usable(activity)) return;
    ++report().calls;
    SpanDetail about{.category = activity.kind == ActivityKind::kRuntimeCall ? "cuda_runtime"
                                                                             : "cuda_driver"};
    // cudaSuccess is the rule and not written.
    if (activity.value != 0) about.fields.emplace_back("returned", number(activity.value));
    pend(index, activity, {TrackKey::Row::kThread, activity.process, activity.thread},
         name(activity.name))
        .detail = detail(std::move(about));
  }

  /// Beside the stream where the context's device is known, else on the thread that waited.
  TrackKey beside_stream(const Activity& activity) const {
    if (const auto device = index_.device_of(activity.context)) {
      return {TrackKey::Row::kStreamSynchronization, *device, activity.stream};
    }
    if (const auto call = index_.call(activity.correlation)) {
      const Activity& by = log_.activities[*call];
      return {TrackKey::Row::kThread, by.process, by.thread};
    }
    return {TrackKey::Row::kThread, log_.process, 0};
  }

  void add_synchronization(std::size_t index, const Activity& activity) {
    if (!usable(activity)) return;
    ++report().synchronizations;
    const auto type = static_cast<SynchronizationType>(activity.value);
    std::string title = synchronization_name(type);
    SpanDetail about{.category = "cuda_sync",
                     .fields = {{"cuda_sync_kind", json_quoted(title)},
                                {"stream", stream_number(activity.stream)},
                                {"context", number(activity.context)}}};
    const bool is_of_event =
        type == SynchronizationType::kEvent || type == SynchronizationType::kStreamWaitEvent;
    if (is_of_event) {
      about.fields.emplace_back("wait_on_cuda_event_id", number(activity.event));
      if (const auto recording = index_.recording(activity)) {
        const Activity& record = log_.activities[*recording];
        about.fields.emplace_back("wait_on_stream", stream_number(record.stream));
        about.fields.emplace_back("wait_on_cuda_event_record_corr_id", number(record.correlation));
      }
    }
    pend(index, activity, beside_stream(activity), std::move(title)).detail =
        detail(std::move(about));
  }

  /// An event's record has no times of its own: it is shown where its call began. Without calls it
  /// only serves to say what was waited for.
  void add_event(std::size_t index, const Activity& activity) {
    const auto call = index_.call(activity.correlation);
    if (!call) return;
    Activity at = activity;
    at.start = at.end = log_.activities[*call].start;
    SpanDetail about{.category = "cuda_event",
                     .fields = {{"event_id", number(activity.event)},
                                {"stream", stream_number(activity.stream)},
                                {"context", number(activity.context)}}};
    pend(index, at, beside_stream(activity), "Event Record").detail = detail(std::move(about));
  }

  void add_overhead(std::size_t index, const Activity& activity) {
    if (!usable(activity)) return;
    // Those of many threads may come to more than can be counted.
    constexpr Picoseconds kMost = {static_cast<std::int64_t>(kLongestSession) *
                                   kPicosecondsPerNanosecond};
    report().overhead =
        std::min(report().overhead + (time(activity.end) - time(activity.start)), kMost);
    const std::uint32_t process = activity.process != 0 ? activity.process : log_.process;
    pend(index, activity, {TrackKey::Row::kOverhead, process, activity.thread},
         overhead_name(activity.value))
        .detail = detail({.category = "overhead"});
  }

  void add_range(std::size_t index, const Activity& activity) {
    Activity range = activity;
    range.end = range.start;
    if (activity.kind == ActivityKind::kRangeStart) {
      const auto end = index_.range_end(activity);
      if (!end) {
        ++report().unmatched_ranges;
        return;
      }
      range.end = log_.activities[*end].start;
    }
    if (!usable(range)) return;
    ++report().ranges;
    SpanDetail about{.category = "user_annotation"};
    if (activity.domain != 0)
      about.fields.emplace_back("domain", json_quoted(name(activity.domain)));
    const std::uint32_t process = activity.process != 0 ? activity.process : log_.process;
    pend(index, range, {TrackKey::Row::kThread, process, activity.thread}, name(activity.name))
        .detail = detail(std::move(about));
  }

  /// By track and time, the longer first; then spans of threads that would overlap without nesting
  /// move to further lanes, each to the first in which it fits.
  void settle_lanes() {
    const auto order = [](const Pending& p) {
      return std::tuple(p.track, p.start, ~p.end, p.activity);
    };
    const auto by_order = [&](const Pending& a, const Pending& b) { return order(a) < order(b); };
    std::sort(pending_.begin(), pending_.end(), by_order);
    std::map<TrackKey, std::vector<std::uint64_t>> open;  // ends of the spans that are open
    for (Pending& pending : pending_) {
      if (pending.track.row == TrackKey::Row::kStream) continue;
      for (;; ++pending.track.lane) {
        std::vector<std::uint64_t>& ends = open[pending.track];
        while (!ends.empty() && ends.back() <= pending.start) ends.pop_back();
        if (!ends.empty() && ends.back() < pending.end) continue;
        ends.push_back(pending.end);
        break;
      }
    }
    std::sort(pending_.begin(), pending_.end(), by_order);
  }

  [[nodiscard]] Picoseconds time(std::uint64_t nanoseconds) const {
    return {static_cast<std::int64_t>(nanoseconds - origin_) * kPicosecondsPerNanosecond};
  }

  sim::Track track(const TrackKey& key, bool is_copies_only) const {
    sim::Track made;
    const std::string lane = key.lane == 0 ? "" : fmt::format(" (overlapping {})", key.lane);
    switch (key.row) {
      case TrackKey::Row::kStream:
        made.name = fmt::format("stream {}", key.number);
        made.kind = is_copies_only ? TrackKind::kGpuCopies : TrackKind::kGpuKernels;
        break;
      case TrackKey::Row::kStreamSynchronization:
        made.name = key.number == kNoNumber
                        ? "synchronization" + lane
                        : fmt::format("stream {} synchronization{}", key.number, lane);
        made.kind = TrackKind::kRuntime;
        break;
      case TrackKey::Row::kThread:
        made.name = fmt::format("thread {}{}", key.number, lane);
        made.kind = TrackKind::kRuntime;
        break;
      case TrackKey::Row::kOverhead:
        made.name = fmt::format("CUPTI overhead, thread {}{}", key.number, lane);
        made.kind = TrackKind::kRuntime;
        break;
    }
    const bool is_of_device =
        key.row == TrackKey::Row::kStream || key.row == TrackKey::Row::kStreamSynchronization;
    if (is_of_device) {
      made.device = static_cast<int>(key.owner);
    } else {
      made.process = key.owner;
    }
    const bool has_own_number =
        key.row == TrackKey::Row::kStream || key.row == TrackKey::Row::kThread;
    if (has_own_number && key.lane == 0) made.number = key.number;
    return made;
  }

  void write_tracks() {
    sim::Timeline& timeline = result_.timeline;
    spans_.reserve(pending_.size());
    for (std::size_t first = 0; first < pending_.size();) {
      const TrackKey key = pending_[first].track;
      std::size_t last = first;
      bool is_copies_only = true;
      for (; last < pending_.size() && pending_[last].track == key; ++last) {
        const ActivityKind kind = log_.activities[pending_[last].activity].kind;
        is_copies_only = is_copies_only && kind != ActivityKind::kKernel;
      }
      const auto track_number = static_cast<std::uint32_t>(timeline.tracks.size());
      timeline.tracks.push_back(track(key, is_copies_only));
      for (; first < last; ++first) write_span(track_number, pending_[first]);
    }
  }

  void write_span(std::uint32_t track_number, const Pending& pending) {
    spans_[pending.activity] = static_cast<std::uint32_t>(result_.timeline.spans.size());
    result_.timeline.spans.push_back({.track = track_number,
                                      .name = result_.timeline.names.intern(pending.name),
                                      .start = time(pending.start),
                                      .end = time(pending.end),
                                      .correlation = pending.correlation,
                                      .extra = result_.timeline.extras.intern(
                                          {.bytes = pending.bytes, .detail = pending.detail})});
  }

  void write_flows() {
    for (const Pending& pending : pending_) {
      if (pending.track.row != TrackKey::Row::kStream) continue;
      const auto call = index_.call(log_.activities[pending.activity].correlation);
      if (!call) continue;
      result_.timeline.flows.push_back({.from = spans_.at(*call),
                                        .to = spans_.at(pending.activity),
                                        .kind = sim::FlowKind::kLaunch});
    }
  }

  void describe() {
    sim::Timeline& timeline = result_.timeline;
    timeline.name = readable_name(log_.program);
    timeline.origin_nanoseconds = static_cast<std::int64_t>(origin_);
    int devices = 0;
    for (const sim::Track& one : timeline.tracks) devices = std::max(devices, one.device + 1);
    for (int i = 0; i < devices; ++i) timeline.devices.push_back(fmt::format("GPU {}", i));
    timeline.processes.push_back({log_.process, timeline.name});
    if (log_.session_end > log_.session_start) {
      report().duration = time(log_.session_end) - time(log_.session_start);
    }
    const TimelineReport& r = report();
    timeline.metadata.emplace_back(
        "zenflow_recording", nlohmann::json({{"complete", log_.complete},
                                             {"low_overhead", log_.low_overhead},
                                             {"cupti_version", log_.cupti_version},
                                             {"notes", log_.notes},
                                             {"dropped_by_cupti", log_.losses.dropped_by_cupti},
                                             {"refused_buffers", log_.losses.refused_buffers},
                                             {"emergency_buffers", log_.losses.emergency_buffers},
                                             {"unknown_kinds", log_.losses.unknown_kinds},
                                             {"cut_records", log_.losses.cut_records},
                                             {"incomplete", r.incomplete},
                                             {"before_launch", r.before_launch},
                                             {"outside_session", r.outside_session},
                                             {"unmatched_ranges", r.unmatched_ranges},
                                             {"overhead_ms", to_milliseconds(r.overhead)},
                                             {"duration_ms", to_milliseconds(r.duration)}})
                                 .dump());
  }

  const ActivityLog& log_;
  std::uint64_t origin_;
  ActivityIndex index_;
  std::vector<std::optional<std::string>> names_;  // by StringId, made readable on first use
  std::vector<Pending> pending_;
  std::map<SpanDetail, std::int32_t> details_;
  std::unordered_map<std::size_t, std::uint32_t> spans_;  // by activity
  MeasuredTimeline result_;
};

}  // namespace

MeasuredTimeline measured_timeline(const ActivityLog& log, std::uint64_t origin) {
  return Builder(log, origin).build();
}

MeasuredTimeline measured_timeline(const ActivityLog& log) {
  return measured_timeline(log, log.session_start);
}

}  // namespace zenflow::runtime
