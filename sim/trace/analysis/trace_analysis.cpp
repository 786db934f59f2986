#include "sim/trace/analysis/trace_analysis.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <span>
#include <tuple>

#include "sim/base/stop.h"
#include "sim/trace/analysis/trace_parts.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_indices.h"

namespace zenflow::sim {
namespace {

/// What HTA calls the consecutive kernel delay. Its help says 30 nanoseconds; its times are in
/// microseconds, with which it compares the number 30.
constexpr Picoseconds kKernelDelay{30'000'000};  // 30 us
/// No call returns within so short a time: it had been launched before.
constexpr Picoseconds kShorterThanACall{30'000};  // 30 ns

WaitCause stall_of(const CopyName& copy) {
  if (copy.direction == CopyDirection::kH2D) return WaitCause::kH2D;
  if (copy.direction == CopyDirection::kD2H) return WaitCause::kD2H;
  return WaitCause::kCopyOnDevice;
}

/// GPU work of one stream, by start: a part of a list, which has to outlive it.
class Row {
 public:
  Row(const SpanIndices& work, std::size_t first, std::size_t last)
      : work_(&work), first_(first), last_(last) {}

  [[nodiscard]] std::size_t size() const { return last_ - first_; }
  [[nodiscard]] std::uint32_t operator[](std::size_t i) const { return (*work_)[first_ + i]; }
  [[nodiscard]] std::uint32_t front() const { return (*this)[0]; }

 private:
  const SpanIndices* work_;
  std::size_t first_;
  std::size_t last_;
};

/// Goes once through what one GPU did, from front to back over all its streams.
class DeviceSweep {
 public:
  /// All must outlive the sweep. `rows` are not empty; `steps` are sorted by start; `part` is one.
  DeviceSweep(const Timeline& timeline, const SpanLaunches& launch,
              const std::vector<Activity>& host, const Intervals& steps, const Intervals& part,
              const std::vector<Row>& rows)
      : timeline_(timeline),
        launch_(launch),
        rows_(rows),
        kernel_(steps),
        compute_(steps),
        compute_in_part_(part),
        busy_(steps),
        steps_(steps),
        step_bytes_(steps.size()),
        stall_(host, first_start()) {
    result_.device = timeline.tracks[span_of(rows.front().front()).track].device;
    const auto number = static_cast<std::size_t>(result_.device);
    if (number < timeline.devices.size()) result_.name = timeline.devices[number];
    result_.start = first_start();
    result_.end = result_.start;
  }

  DeviceAnalysis run() {
    visit_by_start();
    for (RunningLength* const one :
         {&kernel_, &compute_, &compute_in_part_, &collective_, &copy_, &busy_}) {
      one->finish();
    }
    result_.kernel = kernel_.length();
    result_.compute = compute_.length();
    result_.compute_in_part = compute_in_part_.within(0);
    result_.copy = copy_.length();
    result_.busy = busy_.length();
    result_.collective = collective_.length();
    // While both run, the GPU computes: what only the union of both has is exposed.
    result_.collective_exposed = result_.kernel - result_.compute;
    result_.stall = stall_.finish(result_.end);
    finish_copies();
    for (const Row& row : rows_) {
      throw_if_stopped();
      result_.streams.push_back(idle_of(row));
    }
    finish_phases();
    return std::move(result_);
  }

  [[nodiscard]] Picoseconds busy_within(std::size_t step) const { return busy_.within(step); }
  [[nodiscard]] Picoseconds kernel_within(std::size_t step) const { return kernel_.within(step); }
  [[nodiscard]] Picoseconds compute_within(std::size_t step) const { return compute_.within(step); }
  [[nodiscard]] const BytesByDirection& bytes_in(std::size_t step) const {
    return step_bytes_[step];
  }

 private:
  static inline const Intervals kNoParts{};

  /// Copies of one kind: while one runs, and while one runs or the GPU computes.
  struct CopyTime {
    RunningLength alone{kNoParts};
    RunningLength or_compute{kNoParts};
  };

  [[nodiscard]] const TimelineSpan& span_of(std::uint32_t index) const {
    return timeline_.spans[index];
  }

  [[nodiscard]] Picoseconds first_start() const {
    Picoseconds first = span_of(rows_.front().front()).start;
    for (const Row& row : rows_) first = std::min(first, span_of(row.front()).start);
    return first;
  }

  void visit_by_start() {
    using Next = std::pair<Picoseconds, std::size_t>;  // start, row
    std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
    std::vector<std::size_t> place(rows_.size(), 0);
    for (std::size_t row = 0; row < rows_.size(); ++row) {
      next.emplace(span_of(rows_[row].front()).start, row);
    }
    constexpr std::size_t kBetweenQuestions = 1 << 16;
    for (std::size_t visited = 0; !next.empty(); ++visited) {
      if (visited % kBetweenQuestions == 0) throw_if_stopped();
      const std::size_t row = next.top().second;
      next.pop();
      visit(rows_[row][place[row]]);
      if (++place[row] < rows_[row].size()) {
        next.emplace(span_of(rows_[row][place[row]]).start, row);
      }
    }
  }

  void visit(std::uint32_t index) {
    const TimelineSpan& span = span_of(index);
    const Interval when{span.start, span.end};
    result_.end = std::max(result_.end, span.end);
    if (launch_[index] == kNoSpan) ++result_.without_launch;
    busy_.add(when);
    count_phase(span);
    switch (kind_of(timeline_, span)) {
      case SpanKind::kKernel:
        count_kernel(when);
        count_compute(when);
        stall_.add_kernel(when, launched(index));
        break;
      case SpanKind::kCollective:
        count_kernel(when);
        ++result_.collectives;
        collective_.add(when);
        stall_.add_activity({span.start, span.end, WaitCause::kCollective});
        break;
      case SpanKind::kCopy:
        ++result_.copies;
        copy_.add(when);
        add_copy(span);
        break;
      default:
        ++result_.memsets;
        stall_.add_activity({span.start, span.end, WaitCause::kCopyOnDevice});
    }
  }

  void count_kernel(const Interval& when) {
    ++result_.kernels;
    result_.kernel_sum += when.end - when.start;
    kernel_.add(when);
  }

  void count_compute(const Interval& when) {
    compute_.add(when);
    compute_in_part_.add(when);
    compute_so_far_.add(when);
    for (auto& [kind, time] : copy_times_) time.or_compute.add(when);
  }

  void count_phase(const TimelineSpan& span) {
    const Picoseconds length = span.end - span.start;
    PhaseTime& phase = phases_[span.phase];
    phase.phase = span.phase;
    ++phase.spans;
    phase.time += length;
    if (span.phase != SpanPhase::kNone) return;
    NamedTime& named = unassigned_[span.name];
    ++named.spans;
    named.time += length;
  }

  /// Until when the call ran that launched it.
  [[nodiscard]] std::optional<Picoseconds> launched(std::uint32_t index) const {
    if (launch_[index] == kNoSpan) return std::nullopt;
    return span_of(launch_[index]).end;
  }

  void add_copy(const TimelineSpan& span) {
    const auto [entry, is_new] = copy_names_.try_emplace(span.name);
    if (is_new) entry->second = copy_name(timeline_.name_of(span));
    const CopyName kind = entry->second;
    CopyStatistics& one = copies_[kind];
    one.kind = kind;
    ++one.copies;
    one.time += span.end - span.start;
    const double bytes = timeline_.extra_of(span).bytes;
    if (bytes < 0) {
      ++one.without_bytes;
    } else {
      one.bytes += static_cast<std::int64_t>(bytes);
      add_to_steps(span.start, kind.direction, static_cast<std::int64_t>(bytes));
      one.time_with_bytes += span.end - span.start;
    }
    const auto [time, is_first] = copy_times_.try_emplace(kind);
    if (is_first) time->second.or_compute = compute_so_far_;
    time->second.alone.add({span.start, span.end});
    time->second.or_compute.add({span.start, span.end});
    stall_.add_activity({span.start, span.end, stall_of(kind)});
  }

  /// Copies come by start.
  void add_to_steps(Picoseconds start, CopyDirection direction, std::int64_t bytes) {
    while (first_step_ < steps_.size() && steps_[first_step_].end <= start) ++first_step_;
    for (std::size_t i = first_step_; i < steps_.size() && steps_[i].start <= start; ++i) {
      if (start < steps_[i].end) step_bytes_[i][static_cast<std::size_t>(direction)] += bytes;
    }
  }

  void finish_copies() {
    for (auto& [kind, one] : copies_) {
      CopyTime& time = copy_times_[kind];
      time.alone.finish();
      time.or_compute.finish();
      one.united = time.alone.length();
      one.hidden = one.united + result_.compute - time.or_compute.length();
      result_.copy_statistics.push_back(one);
    }
  }

  [[nodiscard]] StreamIdle idle_of(const Row& row) const {
    StreamIdle idle;
    idle.track = timeline_.tracks[span_of(row.front()).track].name;
    idle.spans = row.size();
    Picoseconds ended = span_of(row.front()).start;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const TimelineSpan& span = span_of(row[i]);
      idle.busy += std::max(Picoseconds{}, span.end - std::max(span.start, ended));
      if (i > 0 && span.start > ended) wait_of(row[i], ended, idle) += span.start - ended;
      ended = std::max(ended, span.end);
    }
    return idle;
  }

  Picoseconds& wait_of(std::uint32_t index, Picoseconds ended, StreamIdle& idle) const {
    const std::uint32_t call = launch_[index];
    const Picoseconds gap = span_of(index).start - ended;
    if (call == kNoSpan) return gap < kShorterThanACall ? idle.kernel_wait : idle.not_recorded;
    if (span_of(call).start > ended) return idle.host_wait;
    return gap < kKernelDelay ? idle.kernel_wait : idle.other;
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
  const SpanLaunches& launch_;
  const std::vector<Row>& rows_;
  DeviceAnalysis result_;
  RunningLength kernel_;
  RunningLength compute_;
  RunningLength compute_in_part_;
  RunningLength compute_so_far_{kNoParts};  // what a kind of copies begins with
  RunningLength collective_{kNoParts};
  RunningLength copy_{kNoParts};
  RunningLength busy_;
  const Intervals& steps_;
  std::vector<BytesByDirection> step_bytes_;
  std::size_t first_step_ = 0;  // that does not end before the last copy's start
  StallSweep stall_;
  std::map<CopyName, CopyStatistics> copies_;
  std::map<CopyName, CopyTime> copy_times_;
  std::map<NameId, CopyName> copy_names_;
  std::map<SpanPhase, PhaseTime> phases_;
  std::map<NameId, NamedTime> unassigned_;
};

/// GPU work that begins within `part`: by track, then start.
SpanIndices work_of(const Timeline& timeline, const Interval& part) {
  const auto& spans = timeline.spans;
  const auto counts = [&](const TimelineSpan& span) {
    return is_gpu_work(kind_of(timeline, span)) && span.start >= part.start &&
           span.start < part.end;
  };
  SpanIndices work(static_cast<std::size_t>(std::count_if(spans.begin(), spans.end(), counts)));
  for (std::uint32_t i = 0; i < spans.size(); ++i) {
    if (counts(spans[i])) work.push_back(i);
  }
  work.sort([&](std::uint32_t a, std::uint32_t b) {
    return std::tuple(spans[a].track, spans[a].start, a) <
           std::tuple(spans[b].track, spans[b].start, b);
  });
  return work;
}

std::map<int, std::vector<Row>> rows_by_device(const Timeline& timeline, const SpanIndices& work) {
  std::map<int, std::vector<Row>> rows;
  for (std::size_t first = 0; first < work.size();) {
    const std::uint32_t track = timeline.spans[work[first]].track;
    std::size_t last = first + 1;
    while (last < work.size() && timeline.spans[work[last]].track == track) ++last;
    rows[timeline.tracks[track].device].emplace_back(work, first, last);
    first = last;
  }
  return rows;
}

/// Adds what the device did in each step.
void add_to_steps(const DeviceSweep& sweep, std::vector<StepAnalysis>& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    StepAnalysis& step = steps[i];
    step.busy.push_back(sweep.busy_within(i));
    step.kernel.push_back(sweep.kernel_within(i));
    step.compute.push_back(sweep.compute_within(i));
    for (std::size_t d = 0; d < kCopyDirections; ++d) step.bytes[d] += sweep.bytes_in(i)[d];
  }
}

/// All but the path.
TraceAnalysis analyze_work(const ImportedTrace& trace, const SpanLaunches& launch,
                           const std::vector<Activity>& host, const Interval& part) {
  const Timeline& timeline = trace.timeline;
  TraceAnalysis analysis;
  analysis.step_source = trace.step_source;
  Intervals steps;
  for (const TimelineStep& step : timeline.steps) {
    analysis.steps.push_back(
        {.number = step.number, .start = step.start, .duration = step.end - step.start});
    steps.push_back({step.start, step.end});
  }
  tell_steps_apart(timeline, analysis.steps);
  const Intervals parts = {part};
  const SpanIndices work = work_of(timeline, part);
  for (const auto& [device, rows] : rows_by_device(timeline, work)) {
    throw_if_stopped();
    DeviceSweep sweep(timeline, launch, host, steps, parts, rows);
    analysis.devices.push_back(sweep.run());
    add_to_steps(sweep, analysis.steps);
  }
  analysis.rank_waits = rank_waits(timeline, work, analysis.devices);
  return analysis;
}

/// From the first step to the last, else all GPU work.
Interval path_of(const Timeline& timeline, const std::vector<DeviceAnalysis>& devices) {
  if (!timeline.steps.empty()) return {timeline.steps.front().start, timeline.steps.back().end};
  Interval path{devices.front().start, devices.front().end};
  for (const DeviceAnalysis& device : devices) {
    path.start = std::min(path.start, device.start);
    path.end = std::max(path.end, device.end);
  }
  return path;
}

}  // namespace

TraceAnalysis analyze(const ImportedTrace& trace, const TraceRules& rules) {
  constexpr Interval kAll{{std::numeric_limits<std::int64_t>::min()},
                          {std::numeric_limits<std::int64_t>::max()}};
  const Timeline& timeline = trace.timeline;
  const SpanLaunches launch = launch_of_spans(timeline);
  const std::vector<Activity> host = host_activities(timeline, rules);
  TraceAnalysis analysis = analyze_work(trace, launch, host, kAll);
  throw_if_stopped();
  analysis.ranges = longest_ranges(timeline);
  analysis.steps_with_updates = steps_with_updates(timeline, rules);
  analysis.tables = trace_tables(trace);
  throw_if_stopped();
  if (analysis.devices.empty()) return analysis;
  const auto [start, end] = path_of(timeline, analysis.devices);
  analysis.path_length = end - start;
  analysis.path = critical_path(trace, launch, host, start, end);
  return analysis;
}

TraceAnalysis analyze_part(const ImportedTrace& trace, const TraceRules& rules,
                           const Interval& part) {
  return analyze_work(trace, launch_of_spans(trace.timeline),
                      host_activities(trace.timeline, rules), part);
}

}  // namespace zenflow::sim
