#include "sim/simulate/metrics.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/simulate/timed_changes.h"

namespace zenflow::sim {
namespace {

WaitCause cause_of(LaneKind lane, Operation operation) {
  if (operation == Operation::kSelect) return WaitCause::kSelection;
  switch (lane) {
    case LaneKind::kD2H:
      return WaitCause::kD2H;
    case LaneKind::kH2D:
      return WaitCause::kH2D;
    // Work of another rank, which this one waits for in a collective.
    case LaneKind::kCompute:
    case LaneKind::kCollective:
    case LaneKind::kGather:
      return WaitCause::kCollective;
    case LaneKind::kCpuUpdate:
    case LaneKind::kCpuAccumulate:
      return WaitCause::kCpuUpdate;
    case LaneKind::kNvmeRead:
    case LaneKind::kNvmeWrite:
      return WaitCause::kNvme;
    case LaneKind::kTraining:
      return WaitCause::kLaunch;
  }
  return WaitCause::kLaunch;
}

/// Finds, for a task, what it waited for.
class WaitChain {
 public:
  WaitChain(const Program& program, const Execution& execution)
      : program_(program), execution_(execution), previous_(program.labels.size(), kNoTask) {
    std::vector<TaskId> last(program.lanes.size(), kNoTask);
    const auto tasks = program.graph.tasks();
    for (TaskId id = 0; id < tasks.size(); ++id) {
      previous_[id] = std::exchange(last[tasks[id].lane], id);
    }
  }

  /// What `task` waited for from `from` until it started, latest first.
  [[nodiscard]] std::vector<ChainLink> back(TaskId task, Picoseconds from) const {
    std::vector<ChainLink> chain;
    for (Picoseconds until = execution_.spans[task].start; until > from;) {
      task = binding_predecessor(task);
      if (task == kNoTask) break;
      const Picoseconds begin = std::max(from, execution_.spans[task].start);
      chain.push_back({task, until - begin});
      until = begin;
    }
    return chain;
  }

  /// Splits [from, start of `task`) by cause and adds it to `stall`, times `weight`.
  void attribute(TaskId task, Picoseconds from, double weight, StallTimes& stall) const {
    Picoseconds unexplained = execution_.spans[task].start - from;
    for (const ChainLink& link : back(task, from)) {
      const LaneKind lane = program_.lanes[program_.graph.tasks()[link.task].lane].kind;
      const auto cause =
          static_cast<std::size_t>(cause_of(lane, program_.labels[link.task].operation));
      stall[cause] += weight * static_cast<double>(link.time.count);
      unexplained = unexplained - link.time;
    }
    // Before the first task of all there is nothing to wait for but the start of the run.
    stall[static_cast<std::size_t>(WaitCause::kLaunch)] +=
        weight * static_cast<double>(unexplained.count);
  }

 private:
  /// The predecessor that ended last; of several, the one issued first.
  [[nodiscard]] TaskId binding_predecessor(TaskId task) const {
    TaskId latest = previous_[task];
    for (const TaskId before : program_.graph.predecessors(task)) {
      if (latest == kNoTask || ends_later(before, latest)) latest = before;
    }
    return latest;
  }

  [[nodiscard]] bool ends_later(TaskId a, TaskId b) const {
    const Picoseconds end_a = execution_.spans[a].end;
    const Picoseconds end_b = execution_.spans[b].end;
    return end_a > end_b || (end_a == end_b && a < b);
  }

  const Program& program_;
  const Execution& execution_;
  std::vector<TaskId> previous_;  ///< on the same lane
};

/// Where a window or step begins: its first task and first forward, and those of what comes next.
struct Stretch {
  TaskId first;
  TaskId first_forward;
  TaskId next;
  TaskId next_forward;
};

/// Tasks of one class's compute lane from the first forward up to the next one's, which is included
/// as the end of the last gap.
void add_compute(const Program& program, const Execution& execution, const WaitChain& chain,
                 const Stretch& stretch, std::size_t rank_class, double weight,
                 WindowMetrics& metrics) {
  const auto tasks = program.graph.tasks();
  const LaneId lane = program.classes[rank_class].compute.lane;
  const TaskId end = stretch.next_forward + static_cast<TaskId>(rank_class);
  TaskId id = stretch.first_forward + static_cast<TaskId>(rank_class);
  Picoseconds busy_until = execution.spans[id].start;
  for (; id <= end; ++id) {
    if (tasks[id].lane != lane) continue;
    const Span& span = execution.spans[id];
    if (span.start > busy_until) chain.attribute(id, busy_until, weight, metrics.stall);
    if (id == end) break;
    const double slowed = slowed_by_update(program, execution, id);
    metrics.compute += weight * (static_cast<double>((span.end - span.start).count) - slowed);
    metrics.stall[static_cast<std::size_t>(WaitCause::kCpuUpdate)] += weight * slowed;
    busy_until = span.end;
  }
}

double ranks_of(const Program& program) {
  double ranks = 0;
  for (const RankClass& one : program.classes) ranks += static_cast<double>(one.multiplicity);
  return ranks;
}

/// `bytes`: n - 1 times the buffer's.
RankBytes bytes_between(Operation operation, double bytes) {
  switch (operation) {
    case Operation::kReduceScatter:
      return {.gradients = bytes};
    case Operation::kAllReduce:  // scattered, then gathered
      return {.gradients = 2 * bytes};
    case Operation::kAllGather:
      return {.weights = bytes};
    case Operation::kGradientNorms:
      return {.control = bytes};
    case Operation::kSelect:
      return {.selection = bytes};
    default:
      return {};
  }
}

void add_traffic(const Program& program, const Stretch& stretch, WindowMetrics& metrics) {
  const double ranks = ranks_of(program);
  for (TaskId id = stretch.first; id < stretch.next; ++id) {
    const Operation operation = program.labels[id].operation;
    if (program.lanes[program.graph.tasks()[id].lane].rank_class < 0) {
      metrics.between_ranks += bytes_between(operation, (ranks - 1) * program.labels[id].bytes);
    }
    if (!is_d2h(operation) && !is_h2d(operation)) continue;
    const int rank_class = program.lanes[program.graph.tasks()[id].lane].rank_class;
    const auto& members = program.classes[static_cast<std::size_t>(rank_class)].multiplicity;
    const double bytes = program.labels[id].bytes * (static_cast<double>(members) / ranks);
    (is_d2h(operation) ? metrics.d2h_bytes : metrics.h2d_bytes) += bytes;
  }
}

/// All but step times.
WindowMetrics metrics_of(const Program& program, const Execution& execution, const WaitChain& chain,
                         const Stretch& stretch) {
  WindowMetrics metrics;
  const double ranks = ranks_of(program);
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const double weight = static_cast<double>(program.classes[c].multiplicity) / ranks;
    add_compute(program, execution, chain, stretch, c, weight, metrics);
  }
  add_traffic(program, stretch, metrics);
  return metrics;
}

/// Changes one after the other, those of each stream in order of time; stream i begins at first[i].
struct ChangeStreams {
  std::vector<TimedChange> changes;
  std::vector<std::size_t> first;
};

/// A lane's starts, and its ends, are in order of time already, for frees and for allocations.
ChangeStreams streams_of(const Program& program, const Execution& execution, MemoryPlace place) {
  const auto tasks = program.graph.tasks();
  const auto for_each = [&](const auto& visit) {
    for (std::uint32_t i = 0; i < program.memory.size(); ++i) {
      const MemoryChange& change = program.memory[i];
      if (place_of(program.buffers[change.buffer].home) != place) continue;
      const Span& span = execution.spans[change.task];
      const std::int64_t time = (change.at_end ? span.end : span.start).count;
      if (time < 0) continue;
      const bool allocates = change.bytes > 0;
      const std::size_t stream =
          4U * tasks[change.task].lane + (change.at_end ? 2U : 0U) + (allocates ? 1U : 0U);
      visit(stream, TimedChange{2 * time + (allocates ? 1 : 0), i});
    }
  };
  ChangeStreams streams;
  streams.first.resize(4 * program.lanes.size() + 1);
  for_each([&](std::size_t stream, const TimedChange&) { ++streams.first[stream + 1]; });
  std::partial_sum(streams.first.begin(), streams.first.end(), streams.first.begin());
  streams.changes.resize(streams.first.back());
  std::vector<std::size_t> next = streams.first;
  for_each([&](std::size_t stream, const TimedChange& change) {
    streams.changes[next[stream]++] = change;
  });
  return streams;
}

using Categories = std::array<double, kMemoryCategories>;

Categories resident_memory(const Program& program, MemoryPlace place) {
  Categories held{};
  for (const MemoryBuffer& buffer : program.buffers) {
    if (place_of(buffer.home) != place || buffer.of_framework) continue;
    held[static_cast<std::size_t>(buffer.category)] += buffer.resident;
  }
  return held;
}

void apply(const Program& program, const MemoryChange& change, Categories& held) {
  held[static_cast<std::size_t>(program.buffers[change.buffer].category)] += change.bytes;
}

/// What each buffer of the place holds after the first `count` changes.
std::vector<double> buffers_after(const Program& program, const std::vector<TimedChange>& changes,
                                  std::size_t count, MemoryPlace place) {
  std::vector<double> held;
  for (const MemoryBuffer& buffer : program.buffers) {
    const bool counts = place_of(buffer.home) == place && !buffer.of_framework;
    held.push_back(counts ? buffer.resident : 0);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const MemoryChange& change = program.memory[changes[i].index];
    held[change.buffer] += change.bytes;
  }
  return held;
}

double total(const Categories& held) {
  return std::accumulate(held.begin(), held.end(), 0.0);
}

}  // namespace

std::vector<TimedChange> changes_in_time(const Program& program, const Execution& execution,
                                         MemoryPlace place) {
  auto [changes, first] = streams_of(program, execution, place);
  std::vector<TimedChange> merged(changes.size());
  while (first.size() > 2) {  // two streams become one, until one is left
    std::vector<std::size_t> halved = {0};
    for (std::size_t i = 0; i + 1 < first.size(); i += 2) {
      const auto at = [&changes = changes, &first = first](std::size_t stream) {
        const std::size_t begin = first[std::min(stream, first.size() - 1)];
        return changes.begin() + static_cast<std::ptrdiff_t>(begin);
      };
      std::merge(at(i), at(i + 1), at(i + 1), at(i + 2),
                 merged.begin() + (at(i) - changes.begin()));
      halved.push_back(first[std::min(i + 2, first.size() - 1)]);
    }
    changes.swap(merged);
    first.swap(halved);
  }
  return changes;
}

/// The first forward tasks of all classes are issued one after the other.
double mean_step_time(const Program& program, const Execution& execution, std::size_t step) {
  const double ranks = ranks_of(program);
  double time = 0;
  for (std::size_t c = 0; c < program.classes.size(); ++c) {
    const Picoseconds lasts = execution.spans[program.step_markers[step + 1] + c].start -
                              execution.spans[program.step_markers[step] + c].start;
    const double weight = static_cast<double>(program.classes[c].multiplicity) / ranks;
    time += weight * static_cast<double>(lasts.count);
  }
  return time;
}

double slowed_by_update(const Program& program, const Execution& execution, TaskId task) {
  const Task& one = program.graph.tasks()[task];
  if (!program.compute_keeps_its_time || program.lanes[one.lane].kind != LaneKind::kCompute) {
    return 0;
  }
  const Span& span = execution.spans[task];
  return static_cast<double>((span.end - span.start).count - one.duration.count);
}

std::vector<WindowMetrics> window_metrics(const Program& program, const Execution& execution) {
  const WaitChain chain(program, execution);
  std::vector<WindowMetrics> windows;
  std::size_t step = 0;
  for (std::size_t i = 0; i + 1 < program.windows.size(); ++i) {
    const Window& window = program.windows[i];
    const Window& next = program.windows[i + 1];
    windows.push_back(metrics_of(program, execution, chain,
                                 {window.first, window.marker, next.first, next.marker}));
    for (std::int32_t n = 0; n < program.shapes[i].steps; ++n, ++step) {
      windows.back().step_times.push_back(mean_step_time(program, execution, step));
    }
  }
  return windows;
}

std::vector<WindowMetrics> step_metrics(const Program& program, const Execution& execution) {
  const WaitChain chain(program, execution);
  std::vector<WindowMetrics> steps;
  for (std::size_t i = 0; i + 1 < program.windows.size(); ++i) {
    for (std::int32_t n = 0; n < program.shapes[i].steps; ++n) {
      const std::size_t step = steps.size();
      const TaskId forward = program.step_markers[step];
      const TaskId next_forward = program.step_markers[step + 1];
      const bool last = n + 1 == program.shapes[i].steps;
      steps.push_back(
          metrics_of(program, execution, chain,
                     {n == 0 ? program.windows[i].first : forward, forward,
                      last ? program.windows[i + 1].first : next_forward, next_forward}));
      steps.back().step_times = {mean_step_time(program, execution, step)};
    }
  }
  return steps;
}

std::vector<TaskWait> compute_waits(const Program& program, const Execution& execution) {
  const WaitChain chain(program, execution);
  const auto tasks = program.graph.tasks();
  std::vector<Picoseconds> busy_until(program.lanes.size());
  std::vector<TaskWait> waits;
  for (TaskId id = 0; id < tasks.size(); ++id) {
    if (program.lanes[tasks[id].lane].kind != LaneKind::kCompute) continue;
    const Span& span = execution.spans[id];
    Picoseconds& from = busy_until[tasks[id].lane];
    if (span.start > from) {
      StallTimes stall{};
      chain.attribute(id, from, 1.0, stall);
      const auto most = std::max_element(stall.begin(), stall.end()) - stall.begin();
      waits.push_back({id, span.start - from, static_cast<WaitCause>(most)});
    }
    from = span.end;
  }
  return waits;
}

std::vector<ChainLink> binding_chain(const Program& program, const Execution& execution,
                                     TaskId task, Picoseconds from) {
  return WaitChain(program, execution).back(task, from);
}

std::vector<MemorySample> memory_timeline(const Program& program, const Execution& execution,
                                          MemoryPlace place) {
  Categories held = resident_memory(program, place);
  std::vector<MemorySample> samples = {{Picoseconds{0}, held}};
  for (const TimedChange& change : changes_in_time(program, execution, place)) {
    apply(program, program.memory[change.index], held);
    if (samples.back().time == change.time()) {
      samples.back().by_category = held;
    } else {
      samples.push_back({change.time(), held});
    }
  }
  return samples;
}

MemoryPeak memory_peak(const Program& program, const Execution& execution, MemoryPlace place) {
  Categories held = resident_memory(program, place);
  double now = total(held);
  constexpr double kSameHeight = 0.25;  // bytes
  MemoryPeak peak{.total = now, .by_category = held};
  const std::vector<TimedChange> changes = changes_in_time(program, execution, place);
  std::size_t reached = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const MemoryChange& change = program.memory[changes[i].index];
    apply(program, change, held);
    now += change.bytes;
    // A window that repeats another reaches the same height, but for the rounding of sums.
    if (now <= peak.total + kSameHeight) continue;
    peak.total = now;
    peak.by_category = held;
    peak.task = change.task;
    reached = i + 1;
  }
  peak.total = total(peak.by_category);
  peak.by_buffer = buffers_after(program, changes, reached, place);
  return peak;
}

std::vector<double> largest_sizes(const Program& program, const Execution& execution) {
  std::vector<double> largest;
  for (const MemoryBuffer& buffer : program.buffers) largest.push_back(buffer.resident);
  std::vector<double> held = largest;
  for (const MemoryPlace place : {MemoryPlace::kGpu, MemoryPlace::kHost}) {
    for (const TimedChange& timed : changes_in_time(program, execution, place)) {
      const MemoryChange& change = program.memory[timed.index];
      held[change.buffer] += change.bytes;
      largest[change.buffer] = std::max(largest[change.buffer], held[change.buffer]);
    }
  }
  return largest;
}

}  // namespace zenflow::sim
