#include "sim/simulate/simulated_timeline.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

constexpr double kGigabyte = 1e9;

TrackKind track_kind(LaneKind kind) {
  switch (kind) {
    case LaneKind::kCompute:
    case LaneKind::kCollective:
    case LaneKind::kGather:
      return TrackKind::kGpuKernels;
    case LaneKind::kD2H:
    case LaneKind::kH2D:
      return TrackKind::kGpuCopies;
    case LaneKind::kCpuUpdate:
    case LaneKind::kCpuAccumulate:
    case LaneKind::kNvmeRead:
    case LaneKind::kNvmeWrite:
    case LaneKind::kTraining:
      return TrackKind::kHost;
  }
  return TrackKind::kHost;
}

std::string layer_name(const Job& job, std::int64_t layer) {
  if (layer == 0) return "embedding";
  if (layer > job.scenario.model.layers()) return "head";
  return fmt::format("block {}", layer - 1);
}

/// Whether the label's index is a bucket that its name tells.
bool is_of_bucket(Operation operation) {
  return operation == Operation::kReduceScatter || operation == Operation::kAllReduce ||
         operation == Operation::kAccumulate || operation == Operation::kCpuUpdate ||
         operation == Operation::kNvmeRead || operation == Operation::kNvmeWrite;
}

class TimelineBuilder {
 public:
  TimelineBuilder(const Job& job, const std::string& schedule, const FullRun& run)
      : job_(job), program_(run.program), execution_(run.execution) {
    timeline_.name = fmt::format("{} {}", job.scenario.name, schedule);
  }

  Timeline build() {
    add_tracks();
    add_spans();
    add_flows();
    add_steps();
    add_launches();
    add_bandwidth(is_d2h, "PCIe D2H (GB/s)");
    add_bandwidth(is_h2d, "PCIe H2D (GB/s)");
    add_memory(MemoryPlace::kGpu, "GPU memory (bytes)");
    add_memory(MemoryPlace::kHost, "host memory (bytes)");
    return std::move(timeline_);
  }

 private:
  void add_tracks() {
    for (const RankClass& one : program_.classes) {
      const std::string stands_for =
          one.multiplicity > 1 ? fmt::format(" (one of {} alike)", one.multiplicity) : "";
      timeline_.devices.push_back(
          fmt::format("GPU {} {}{}", one.first_rank, job_.scenario.hardware.gpu.name, stands_for));
    }
    std::vector<bool> used(program_.lanes.size(), false);
    for (const Task& task : program_.graph.tasks()) used[task.lane] = true;
    track_of_lane_.assign(program_.lanes.size(), 0);
    for (std::size_t lane = 0; lane < program_.lanes.size(); ++lane) {
      if (!used[lane]) continue;
      track_of_lane_[lane] = static_cast<std::uint32_t>(timeline_.tracks.size());
      const LaneInfo& info = program_.lanes[lane];
      timeline_.tracks.push_back({std::string(simulated_name(info.kind)), track_kind(info.kind),
                                  std::max(info.rank_class, 0)});
    }
  }

  void add_spans() {
    const auto tasks = program_.graph.tasks();
    const std::vector<TaskWait> waits = compute_waits(program_, execution_);
    for (TaskId id = 0; id < tasks.size(); ++id) {
      const TaskLabel& label = program_.labels[id];
      timeline_.spans.push_back({.track = track_of_lane_[tasks[id].lane],
                                 .name = timeline_.names.intern(task_name(job_, label)),
                                 .start = execution_.spans[id].start,
                                 .end = execution_.spans[id].end,
                                 .extra = timeline_.extras.intern(
                                     {.bytes = label.bytes,
                                      .step = label.step,
                                      .index = is_of_bucket(label.operation) ? label.index : -1}),
                                 .operation = label.operation});
    }
    for (const TaskWait& wait : waits) {
      TimelineSpan& span = timeline_.spans[wait.task];
      SpanExtra extra = timeline_.extra_of(span);
      extra.stalled = wait.time;
      extra.cause = wait.cause;
      span.extra = timeline_.extras.intern(extra);
    }
  }

  void add_flows() {
    const auto tasks = program_.graph.tasks();
    for (TaskId id = 0; id < tasks.size(); ++id) {
      for (const TaskId before : program_.graph.predecessors(id)) {
        if (tasks[before].lane != tasks[id].lane) timeline_.flows.push_back({before, id});
      }
    }
  }

  void add_steps() {
    const auto& markers = program_.step_markers;
    for (std::size_t i = 0; i + 1 < markers.size(); ++i) {
      timeline_.steps.push_back({static_cast<std::int64_t>(i), execution_.spans[markers[i]].start,
                                 execution_.spans[markers[i + 1]].start});
    }
  }

  /// What put each piece of GPU work on its stream: trace analysers (HTA) join it with that by
  /// correlation and take work without a launch for an error of recording. The simulated GPU is
  /// never short of launches, so they stand at the beginning of their step, a nanosecond each.
  void add_launches() {
    constexpr Picoseconds kNanosecond{1000};
    const auto tasks = static_cast<std::uint32_t>(program_.graph.tasks().size());
    const auto first_track = static_cast<std::uint32_t>(timeline_.tracks.size());
    for (std::size_t device = 0; device < timeline_.devices.size(); ++device) {
      timeline_.tracks.push_back({"launches", TrackKind::kRuntime, static_cast<int>(device)});
    }
    std::vector<Picoseconds> next(timeline_.devices.size());
    for (std::uint32_t id = 0; id < tasks; ++id) {
      const Track& track = timeline_.tracks[timeline_.spans[id].track];
      if (track.kind == TrackKind::kHost) continue;
      const std::int32_t number = timeline_.extra_of(timeline_.spans[id]).step;
      const auto step = static_cast<std::size_t>(number);
      Picoseconds& at = next[static_cast<std::size_t>(track.device)];
      if (step < timeline_.steps.size()) at = std::max(at, timeline_.steps[step].start);
      timeline_.spans[id].correlation = id;
      const char* call =
          track.kind == TrackKind::kGpuCopies ? "cudaMemcpyAsync" : "cudaLaunchKernel";
      timeline_.spans.push_back({.track = first_track + static_cast<std::uint32_t>(track.device),
                                 .name = timeline_.names.intern(call),
                                 .start = at,
                                 .end = at + kNanosecond,
                                 .correlation = id,
                                 .extra = timeline_.extras.intern({.step = number})});
      at += kNanosecond;
    }
  }

  /// Mean rate of each copy while it runs; lanes are in order, so copies never overlap.
  void add_bandwidth(bool (*is_copy)(Operation), const std::string& name) {
    TimelineCounter counter{name, 0, {"GB/s"}, {}};
    for (TaskId id = 0; id < program_.labels.size(); ++id) {
      const LaneInfo& lane = program_.lanes[program_.graph.tasks()[id].lane];
      if (!is_copy(program_.labels[id].operation) || lane.rank_class != 0) continue;
      const Span& span = execution_.spans[id];
      if (span.end == span.start) continue;
      const double seconds = to_seconds(span.end - span.start).value();
      const double rate = program_.labels[id].bytes / seconds / kGigabyte;
      const double rounded = std::round(rate * 1e3) / 1e3;
      if (!counter.samples.empty() && counter.samples.back().first == span.start) {
        counter.samples.pop_back();
      }
      counter.samples.push_back({span.start, {rounded}});
      counter.samples.push_back({span.end, {0.0}});
    }
    if (!counter.samples.empty()) timeline_.counters.push_back(std::move(counter));
  }

  void add_memory(MemoryPlace place, const std::string& name) {
    const std::vector<MemorySample> samples = memory_timeline(program_, execution_, place);
    TimelineCounter counter{name, 0, {}, {}};
    std::vector<std::size_t> shown;
    for (std::size_t i = 0; i < kMemoryCategories; ++i) {
      const bool present =
          std::any_of(samples.begin(), samples.end(),
                      [i](const MemorySample& one) { return one.by_category[i] != 0; });
      if (!present) continue;
      shown.push_back(i);
      counter.series.push_back(to_string(static_cast<MemoryCategory>(i)));
    }
    if (shown.empty()) return;
    for (const MemorySample& sample : samples) {
      std::vector<double> values;
      for (const std::size_t i : shown) values.push_back(std::round(sample.by_category[i]));
      counter.samples.emplace_back(sample.time, std::move(values));
    }
    timeline_.counters.push_back(std::move(counter));
  }

  const Job& job_;
  const Program& program_;
  const Execution& execution_;
  std::vector<std::uint32_t> track_of_lane_;
  Timeline timeline_;
};

}  // namespace

std::string task_name(const Job& job, const TaskLabel& label) {
  const Operation operation = label.operation;
  const std::string name(simulated_name(operation));
  if (is_d2h(operation)) {
    return label.pageable ? "Memcpy DtoH (Device -> Pageable)" : "Memcpy DtoH (Device -> Pinned)";
  }
  if (is_h2d(operation)) {
    return label.pageable ? "Memcpy HtoD (Pageable -> Device)" : "Memcpy HtoD (Pinned -> Device)";
  }
  if (is_of_bucket(operation)) return fmt::format("{} bucket {}", name, label.index);
  switch (operation) {
    case Operation::kForward:
    case Operation::kBackward:
      return fmt::format("{} {}", name, layer_name(job, label.index));
    case Operation::kAllGather:
      return fmt::format("{} {}", name, label.index);
    case Operation::kSelect:
      return label.index == 0 ? "select column norms" : "select top-k";
    default:
      return name;
  }
}

Timeline simulated_timeline(const Job& job, const std::string& schedule, const FullRun& run) {
  return TimelineBuilder(job, schedule, run).build();
}

}  // namespace zenflow::sim
