#include "sim/report/trace_analysis.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "sim/report/trace_parts.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

/// What HTA calls the consecutive kernel delay.
constexpr Picoseconds kKernelDelay{30'000};  // 30 ns

TraceStall stall_of(const CopyName& copy) {
  if (copy.direction == CopyDirection::kH2D) return TraceStall::kH2D;
  if (copy.direction == CopyDirection::kD2H) return TraceStall::kD2H;
  return TraceStall::kCopyOnDevice;
}

/// Gathers what one GPU did.
class DeviceBuilder {
 public:
  DeviceBuilder(const Timeline& timeline, const std::vector<std::uint32_t>& launch, int device)
      : timeline_(timeline), launch_(launch) {
    result_.device = device;
    const auto number = static_cast<std::size_t>(device);
    if (number < timeline.devices.size()) result_.name = timeline.devices[number];
  }

  void add(std::uint32_t index, SpanKind kind) {
    const TimelineSpan& span = timeline_.spans[index];
    const Picoseconds length = span.end - span.start;
    const bool is_first = result_.kernels + result_.copies + result_.memsets == 0;
    result_.start = is_first ? span.start : std::min(result_.start, span.start);
    result_.end = is_first ? span.end : std::max(result_.end, span.end);
    if (launch_[index] == kNoSpan) ++result_.without_launch;
    rows_[span.track].push_back(index);
    const Interval when{span.start, span.end};
    if (kind == SpanKind::kKernel || kind == SpanKind::kCollective) {
      ++result_.kernels;
      result_.kernel_sum += length;
    }
    switch (kind) {
      case SpanKind::kKernel:
        result_.compute.push_back(when);
        starts_.push_back(start_of(index));
        break;
      case SpanKind::kCollective:
        ++result_.collectives;
        result_.collective.push_back(when);
        activities_.push_back({span.start, span.end, TraceStall::kCollective});
        break;
      case SpanKind::kCopy:
        ++result_.copies;
        result_.copy.push_back(when);
        add_copy(span);
        break;
      default:
        ++result_.memsets;
        memset_.push_back(when);
        activities_.push_back({span.start, span.end, TraceStall::kCopyOnDevice});
    }
    PhaseTime& phase = phases_[span.phase];
    phase.phase = span.phase;
    ++phase.spans;
    phase.time += length;
    if (span.phase == SpanPhase::kNone) {
      NamedTime& named = unassigned_[span.name];
      ++named.spans;
      named.time += length;
    }
  }

  DeviceAnalysis finish(const std::vector<Activity>& host) {
    unite_all();
    finish_copies();
    finish_streams();
    finish_phases();
    activities_.insert(activities_.end(), host.begin(), host.end());
    std::sort(activities_.begin(), activities_.end(), [](const Activity& a, const Activity& b) {
      return std::tuple(a.start, a.end, a.cause) < std::tuple(b.start, b.end, b.cause);
    });
    // Of kernels that start together the one that was launched first ends the gap.
    std::sort(starts_.begin(), starts_.end(), [](const ComputeStart& a, const ComputeStart& b) {
      return std::tuple(a.start, !a.is_launch_known, a.launched) <
             std::tuple(b.start, !b.is_launch_known, b.launched);
    });
    result_.stall =
        stall_by_cause(result_.compute, activities_, starts_, result_.start, result_.end);
    return std::move(result_);
  }

 private:
  [[nodiscard]] ComputeStart start_of(std::uint32_t index) const {
    const std::uint32_t call = launch_[index];
    if (call == kNoSpan) return {timeline_.spans[index].start, {}, false};
    return {timeline_.spans[index].start, timeline_.spans[call].end, true};
  }

  void add_copy(const TimelineSpan& span) {
    const auto [entry, is_new] = copy_names_.try_emplace(span.name);
    if (is_new) entry->second = copy_name(timeline_.name_of(span));
    const CopyName kind = entry->second;
    CopyStatistics& one = copies_[kind];
    one.kind = kind;
    ++one.copies;
    one.time += span.end - span.start;
    if (span.bytes < 0) {
      ++one.without_bytes;
    } else {
      one.bytes += static_cast<std::int64_t>(span.bytes);
      one.time_with_bytes += span.end - span.start;
    }
    copy_times_[kind].push_back({span.start, span.end});
    activities_.push_back({span.start, span.end, stall_of(kind)});
  }

  void unite_all() {
    result_.compute = unite(std::move(result_.compute));
    result_.collective = unite(std::move(result_.collective));
    result_.copy = unite(std::move(result_.copy));
    const auto joined = [](Intervals a, const Intervals& b) {
      a.insert(a.end(), b.begin(), b.end());
      return unite(std::move(a));
    };
    result_.kernel = joined(result_.compute, result_.collective);
    result_.busy = joined(joined(result_.kernel, result_.copy), unite(std::move(memset_)));
  }

  void finish_copies() {
    for (auto& [kind, one] : copies_) {
      const Intervals times = unite(std::move(copy_times_[kind]));
      one.united = length_of(times);
      one.hidden = length_of(intersect(times, result_.compute));
      result_.copy_statistics.push_back(one);
    }
  }

  void finish_streams() {
    for (auto& [track, spans] : rows_) {
      std::stable_sort(spans.begin(), spans.end(), [&](std::uint32_t a, std::uint32_t b) {
        return timeline_.spans[a].start < timeline_.spans[b].start;
      });
      StreamIdle idle;
      idle.track = timeline_.tracks[track].name;
      idle.spans = spans.size();
      Picoseconds ended = timeline_.spans[spans.front()].start;
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const TimelineSpan& span = timeline_.spans[spans[i]];
        idle.busy += std::max(Picoseconds{}, span.end - std::max(span.start, ended));
        if (i > 0 && span.start > ended) wait_of(spans[i], ended, idle) += span.start - ended;
        ended = std::max(ended, span.end);
      }
      result_.streams.push_back(idle);
    }
  }

  Picoseconds& wait_of(std::uint32_t index, Picoseconds ended, StreamIdle& idle) const {
    const std::uint32_t call = launch_[index];
    if (call != kNoSpan && timeline_.spans[call].start > ended) return idle.host_wait;
    if (timeline_.spans[index].start - ended < kKernelDelay) return idle.kernel_wait;
    return call == kNoSpan ? idle.not_recorded : idle.other;
  }

  void finish_phases() {
    for (const auto& [phase, time] : phases_) result_.phases.push_back(time);
    std::vector<std::pair<NameId, NamedTime>> all(unassigned_.begin(), unassigned_.end());
    std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) {
      return std::tuple(b.second.time, a.first) < std::tuple(a.second.time, b.first);
    });
    constexpr std::size_t kMost = 10;
    for (std::size_t i = 0; i < std::min(kMost, all.size()); ++i) {
      all[i].second.name = timeline_.names[all[i].first];
      result_.unassigned.push_back(all[i].second);
    }
  }

  const Timeline& timeline_;
  const std::vector<std::uint32_t>& launch_;
  DeviceAnalysis result_;
  Intervals memset_;
  std::vector<Activity> activities_;
  std::vector<ComputeStart> starts_;
  std::map<CopyName, CopyStatistics> copies_;
  std::map<CopyName, Intervals> copy_times_;
  std::map<NameId, CopyName> copy_names_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> rows_;
  std::map<SpanPhase, PhaseTime> phases_;
  std::map<NameId, NamedTime> unassigned_;
};

std::vector<StepAnalysis> analyze_steps(const Timeline& timeline,
                                        const std::vector<DeviceAnalysis>& devices) {
  std::vector<StepAnalysis> steps;
  for (const TimelineStep& step : timeline.steps) {
    StepAnalysis one;
    one.number = step.number;
    one.start = step.start;
    one.duration = step.end - step.start;
    for (const DeviceAnalysis& device : devices) {
      one.busy.push_back(length_within(device.busy, step.start, step.end));
      one.kernel.push_back(length_within(device.kernel, step.start, step.end));
      one.compute.push_back(length_within(device.compute, step.start, step.end));
    }
    steps.push_back(std::move(one));
  }
  return steps;
}

}  // namespace

std::string to_string(TraceStall cause) {
  switch (cause) {
    case TraceStall::kCpuUpdate:
      return "cpu_update";
    case TraceStall::kD2H:
      return "d2h";
    case TraceStall::kH2D:
      return "h2d";
    case TraceStall::kCollective:
      return "collective";
    case TraceStall::kNvme:
      return "nvme";
    case TraceStall::kSelection:
      return "selection";
    case TraceStall::kLaunch:
      return "launch";
    case TraceStall::kCopyOnDevice:
      return "copy_on_device";
    case TraceStall::kNotRecorded:
      return "not_recorded";
    case TraceStall::kOther:
      break;
  }
  return "other";
}

TraceAnalysis analyze(const ImportedTrace& trace, const TraceRules& rules) {
  const Timeline& timeline = trace.timeline;
  TraceAnalysis analysis;
  analysis.step_source = trace.step_source;
  const std::vector<std::uint32_t> launch = launch_of_spans(timeline);
  const std::vector<Activity> host = host_activities(timeline, rules);
  std::map<int, DeviceBuilder> builders;
  for (std::uint32_t i = 0; i < timeline.spans.size(); ++i) {
    const SpanKind kind = kind_of(timeline, timeline.spans[i]);
    if (!is_gpu_work(kind)) {
      ++analysis.host_only_spans;
      continue;
    }
    const int device = timeline.tracks[timeline.spans[i].track].device;
    builders.try_emplace(device, timeline, launch, device).first->second.add(i, kind);
  }
  for (auto& [device, builder] : builders) analysis.devices.push_back(builder.finish(host));
  analysis.steps = analyze_steps(timeline, analysis.devices);
  if (analysis.devices.empty()) return analysis;

  Picoseconds start = analysis.devices.front().start;
  Picoseconds end = analysis.devices.front().end;
  for (const DeviceAnalysis& device : analysis.devices) {
    start = std::min(start, device.start);
    end = std::max(end, device.end);
  }
  if (!timeline.steps.empty()) {
    start = timeline.steps.front().start;
    end = timeline.steps.back().end;
  }
  analysis.path_length = end - start;
  analysis.path = critical_path(timeline, launch, host, start, end);
  return analysis;
}

}  // namespace zenflow::sim
