#include "sim/trace/analysis/host_threads.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::string_view kAutograd = "pt_autograd";

/// What makes one thread of a process rather the main one than another.
struct Claim {
  bool has_steps = false;
  std::uint64_t waits = 0;
  Picoseconds first_call{std::numeric_limits<std::int64_t>::max()};

  [[nodiscard]] bool is_better_than(const Claim& other) const {
    return std::tuple(has_steps, waits, other.first_call) >
           std::tuple(other.has_steps, other.waits, first_call);
  }
};

/// The host's side of a copy between host and device; nothing: it is none.
std::optional<MemoryKind> host_side(const CopyName& copy) {
  if (copy.direction == CopyDirection::kH2D) return copy.from;
  if (copy.direction == CopyDirection::kD2H) return copy.to;
  return std::nullopt;
}

bool may_wait(const std::string& call, MemoryKind host) {
  const bool is_asynchronous = call.find("Async") != call.npos;
  return !is_asynchronous || (host != MemoryKind::kPinned && host != MemoryKind::kManaged);
}

}  // namespace

bool is_call(const Timeline& timeline, const TimelineSpan& span) {
  const SpanKind kind = kind_of(timeline, span);
  return kind == SpanKind::kLaunch || kind == SpanKind::kCall;
}

bool is_synchronization(const Timeline& timeline, const TimelineSpan& call) {
  const std::string& name = timeline.name_of(call);
  return name.find("ynchronize") != name.npos;
}

HostThreads::HostThreads(const ImportedTrace& trace, const SpanLaunches& launch)
    : timeline_(trace.timeline), activity_(trace.timeline.tracks.size()) {
  for (const ThreadActivity& one : trace.activity) {
    activity_[one.track].push_back({one.start, one.end});
  }
  const auto& spans = timeline_.spans;
  std::vector<bool> launches_kernels(timeline_.tracks.size(), false);
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    const SpanKind kind = kind_of(timeline_, spans[i]);
    const bool is_kernel = kind == SpanKind::kKernel || kind == SpanKind::kCollective;
    if (is_kernel && launch[i] != kNoSpan) launches_kernels[spans[launch[i]].track] = true;
  }
  find_workers(launches_kernels);
  const auto counts = [&](const TimelineSpan& span) {
    return launches_kernels[span.track] && is_call(timeline_, span);
  };
  const bool has_workers =
      std::find(is_worker_.begin(), is_worker_.end(), true) != is_worker_.end();
  if (!has_workers) return;  // then nobody hands over
  calls_ = SpanIndices(static_cast<std::size_t>(std::count_if(spans.begin(), spans.end(), counts)));
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if (counts(spans[i])) calls_.push_back(i);
  }
  calls_.sort([&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(spans[a].end, a) < std::tuple(spans[b].end, b);
  });
}

/// Tracks with ranges that end where a step does, as annotations and optimizers of steps do.
std::vector<bool> HostThreads::tracks_with_steps() const {
  std::vector<Picoseconds> ends;
  for (const TimelineStep& step : timeline_.steps) ends.push_back(step.end);
  std::sort(ends.begin(), ends.end());
  std::vector<bool> has_steps(timeline_.tracks.size(), false);
  for (const TimelineSpan& span : timeline_.spans) {
    if (kind_of(timeline_, span) != SpanKind::kRange || has_steps[span.track]) continue;
    has_steps[span.track] = std::binary_search(ends.begin(), ends.end(), span.end);
  }
  return has_steps;
}

void HostThreads::find_workers(const std::vector<bool>& launches_kernels) {
  const std::size_t tracks = timeline_.tracks.size();
  std::vector<Claim> claims(tracks);
  const std::vector<bool> has_steps = tracks_with_steps();
  for (std::size_t track = 0; track < tracks; ++track) claims[track].has_steps = has_steps[track];
  for (const TimelineSpan& span : timeline_.spans) {
    if (!launches_kernels[span.track] || !is_call(timeline_, span)) continue;
    Claim& claim = claims[span.track];
    if (is_synchronization(timeline_, span)) ++claim.waits;
    claim.first_call = std::min(claim.first_call, span.start);
  }
  std::map<std::int64_t, std::uint32_t> main_of_process;
  const auto is_autograd = [&](std::uint32_t track) {
    return timeline_.tracks[track].name.find(kAutograd) != std::string::npos;
  };
  for (std::uint32_t track = 0; track < tracks; ++track) {
    if (!launches_kernels[track] || is_autograd(track)) continue;
    const auto [entry, is_new] =
        main_of_process.try_emplace(timeline_.tracks[track].process, track);
    if (!is_new && claims[track].is_better_than(claims[entry->second])) entry->second = track;
  }
  main_of_.resize(tracks);
  is_worker_.resize(tracks);
  for (std::uint32_t track = 0; track < tracks; ++track) {
    const auto main = main_of_process.find(timeline_.tracks[track].process);
    main_of_[track] = main == main_of_process.end() ? track : main->second;
    is_worker_[track] = launches_kernels[track] && (main_of_[track] != track || is_autograd(track));
  }
}

Picoseconds HostThreads::active_since(std::uint32_t track, Picoseconds time) const {
  const Intervals& active = activity_[track];
  const auto behind =
      std::upper_bound(active.begin(), active.end(), time,
                       [](Picoseconds at, const Interval& one) { return at < one.start; });
  if (behind == active.begin() || std::prev(behind)->end < time) return time;
  return std::prev(behind)->start;
}

Picoseconds HostThreads::main_active_within(std::uint32_t track, Picoseconds start,
                                            Picoseconds end) const {
  return length_within(activity_[main_of_[track]], start, end);
}

std::uint32_t HostThreads::last_call_of_others(std::uint32_t track, Picoseconds start,
                                               Picoseconds end) const {
  const auto& spans = timeline_.spans;
  std::size_t place =
      calls_.partition_point([&](std::uint32_t call) { return spans[call].end <= end; });
  for (; place > 0 && spans[calls_[place - 1]].end > start; --place) {
    const std::uint32_t call = calls_[place - 1];
    const std::uint32_t other = spans[call].track;
    const bool is_of_process =
        timeline_.tracks[other].process == timeline_.tracks[track].process && other != track;
    if (is_of_process && (is_worker_[track] || is_worker_[other])) return call;
  }
  return kNoSpan;
}

AwaitedCopies::AwaitedCopies(const Timeline& timeline, const SpanLaunches& launch) {
  std::map<NameId, std::optional<MemoryKind>> hosts;
  for (std::uint32_t i = 0; i < timeline.spans.size(); ++i) {
    const TimelineSpan& copy = timeline.spans[i];
    if (kind_of(timeline, copy) != SpanKind::kCopy || launch[i] == kNoSpan) continue;
    const TimelineSpan& call = timeline.spans[launch[i]];
    // Whether it waited, only times say: small copies to the device are staged and sent later.
    if (call.end <= copy.start) continue;
    const auto [host, is_new] = hosts.try_emplace(copy.name);
    if (is_new) host->second = host_side(copy_name(timeline.name_of(copy)));
    if (host->second && may_wait(timeline.name_of(call), *host->second)) {
      copies_.emplace_back(launch[i], i);
    }
  }
  std::sort(copies_.begin(), copies_.end());
}

std::uint32_t AwaitedCopies::of_call(std::uint32_t call) const {
  const auto at = std::lower_bound(copies_.begin(), copies_.end(),
                                   std::pair<std::uint32_t, std::uint32_t>(call, 0));
  return at != copies_.end() && at->first == call ? at->second : kNoSpan;
}

}  // namespace zenflow::sim
