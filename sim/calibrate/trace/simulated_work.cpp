#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/calibrate/contention.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/simulate/simulation.h"

namespace zenflow::sim {
namespace {

/// The most spans of one task that are kept, from windows of equal kind; all are equal but for
/// noise.
constexpr std::size_t kMostRepetitions = 48;

/// Tasks that draw on the machine alike: a lane's, by kind of memory where that decides.
using UseKey = std::pair<LaneId, bool>;

enum class WorkKind : std::uint8_t { kDevice, kCopy, kCollective, kHost, kDrive };
constexpr std::size_t kWorkKinds = 5;
constexpr std::array<const char*, kWorkKinds> kNames = {
    "simulated device work", "simulated copies", "simulated collectives", "simulated CPU work",
    "simulated NVMe transfers"};

WorkKind kind_of_lane(LaneKind lane) {
  switch (lane) {
    case LaneKind::kCompute:
      return WorkKind::kDevice;
    case LaneKind::kD2H:
    case LaneKind::kH2D:
      return WorkKind::kCopy;
    case LaneKind::kCollective:
    case LaneKind::kGather:
      return WorkKind::kCollective;
    case LaneKind::kNvmeRead:
    case LaneKind::kNvmeWrite:
      return WorkKind::kDrive;
    default:
      return WorkKind::kHost;
  }
}

std::string schedule_of(const Timeline& timeline) {
  return timeline.name.substr(timeline.name.rfind(' ') + 1);
}

/// What a span says: how long a task took, and what ran concurrently.
struct TaskTime {
  TaskId task = 0;  ///< of the program of distinct windows
  double seconds = 0;
  std::size_t use = 0;
  ConcurrentWork concurrent;  ///< by use, one bit each, with itself
};

/// The schedule's tasks of each distinct kind of window, built anew for any profile.
class TaskModel {
 public:
  TaskModel(Job job, const Schedule& schedule, const Program& whole)
      : job_(std::move(job)), schedule_(schedule) {
    std::vector<std::size_t> place;
    for (const WindowShape& shape : whole.shapes) {
      const auto same = std::find_if(shapes_.begin(), shapes_.end(),
                                     [&](const WindowShape& one) { return one.same_kind(shape); });
      place.push_back(static_cast<std::size_t>(same - shapes_.begin()));
      if (same == shapes_.end()) shapes_.push_back(shape);
    }
    if (!map_tasks(whole, place)) {
      shapes_ = whole.shapes;
      for (std::size_t w = 0; w < place.size(); ++w) place[w] = w;
      static_cast<void>(map_tasks(whole, place));
    }
  }

  [[nodiscard]] TaskId task_of(TaskId in_whole) const { return task_of_[in_whole]; }
  [[nodiscard]] std::size_t use_of(TaskId task) const { return use_of_task_[task]; }

  [[nodiscard]] std::vector<double> predict(const HardwareProfile& profile,
                                            const std::vector<TaskTime>& times) const {
    Job job = job_;
    job.scenario.hardware = profile;
    const Program program = schedule_.build(job, shapes_);
    const auto tasks = program.graph.tasks();
    std::vector<FlowId> flows(uses_.size(), kNoFlow);
    for (TaskId id = 0; id < tasks.size(); ++id) flows[use_of_task_[id]] = tasks[id].flow;
    FairProgress progress(program.graph.machine(), std::move(flows));
    std::vector<double> seconds;
    seconds.reserve(times.size());
    for (const TaskTime& one : times) {
      const double isolated = to_seconds(tasks[one.task].duration).value();
      seconds.push_back(isolated / progress.mean(one.use, one.concurrent));
    }
    return seconds;
  }

 private:
  /// Whether tasks of windows of equal kind are equal, and which corresponds to which.
  bool map_tasks(const Program& whole, const std::vector<std::size_t>& place) {
    const Program program = schedule_.build(job_, shapes_);
    const auto last_of = [](const Program& of, std::size_t window) {
      return window + 1 < of.windows.size() ? of.windows[window + 1].first
                                            : static_cast<TaskId>(of.graph.tasks().size());
    };
    task_of_.assign(whole.graph.tasks().size(), 0);
    for (std::size_t w = 0; w < whole.windows.size(); ++w) {
      const TaskId from = program.windows[place[w]].first;
      const TaskId first = whole.windows[w].first;
      if (last_of(whole, w) - first != last_of(program, place[w]) - from) return false;
      for (TaskId id = first; id < last_of(whole, w); ++id) {
        const TaskId here = from + (id - first);
        const TaskLabel& a = whole.labels[id];
        const TaskLabel& b = program.labels[here];
        if (std::tie(a.operation, a.index, a.bytes) != std::tie(b.operation, b.index, b.bytes)) {
          return false;
        }
        task_of_[id] = here;
      }
    }
    uses_.clear();
    use_of_task_.clear();
    for (TaskId id = 0; id < program.graph.tasks().size(); ++id) {
      const UseKey key{program.graph.tasks()[id].lane, program.labels[id].pageable};
      const auto known = std::find(uses_.begin(), uses_.end(), key);
      use_of_task_.push_back(static_cast<std::size_t>(known - uses_.begin()));
      if (known == uses_.end()) uses_.push_back(key);
    }
    return true;
  }

  Job job_;
  const Schedule& schedule_;
  std::vector<WindowShape> shapes_;
  std::vector<TaskId> task_of_;
  std::vector<UseKey> uses_;
  std::vector<std::size_t> use_of_task_;
};

/// Spans of the timeline by the task that each was.
class SpanMatcher {
 public:
  SpanMatcher(const Timeline& timeline, const Job& job, const Program& program)
      : timeline_(timeline), job_(job), program_(program) {}

  [[nodiscard]] std::vector<const TimelineSpan*> match() const {
    const auto tasks = program_.graph.tasks();
    std::vector<std::vector<TaskId>> of_lane(program_.lanes.size());
    for (TaskId id = 0; id < tasks.size(); ++id) of_lane[tasks[id].lane].push_back(id);
    std::vector<const TimelineSpan*> found(tasks.size());
    for (std::size_t lane = 0; lane < of_lane.size(); ++lane) {
      if (of_lane[lane].empty()) continue;
      const std::vector<const TimelineSpan*> spans = spans_of(lane);
      if (spans.size() != of_lane[lane].size()) {
        fail(fmt::format("{} spans on track \"{}\", expected {}", spans.size(),
                         simulated_name(program_.lanes[lane].kind), of_lane[lane].size()));
      }
      for (std::size_t i = 0; i < spans.size(); ++i) {
        const TaskLabel& label = program_.labels[of_lane[lane][i]];
        const std::string expected = task_name(job_, label);
        const double bytes = timeline_.extra_of(*spans[i]).bytes;
        // Traces round bytes.
        const bool is_it =
            timeline_.name_of(*spans[i]) == expected && std::abs(bytes - label.bytes) <= 1;
        if (!is_it) {
          fail(fmt::format(
              "track \"{}\" at {:.6f} ms: \"{}\" of {:.0f} bytes, expected \"{}\" of "
              "{:.0f}",
              simulated_name(program_.lanes[lane].kind), to_milliseconds(spans[i]->start),
              timeline_.name_of(*spans[i]), bytes, expected, label.bytes));
        }
        found[of_lane[lane][i]] = spans[i];
      }
    }
    return found;
  }

 private:
  [[nodiscard]] std::vector<const TimelineSpan*> spans_of(std::size_t lane) const {
    const LaneInfo& info = program_.lanes[lane];
    std::vector<const TimelineSpan*> spans;
    for (const TimelineSpan& span : timeline_.spans) {
      const Track& track = timeline_.tracks[span.track];
      if (track.name == simulated_name(info.kind) && track.device == std::max(info.rank_class, 0)) {
        spans.push_back(&span);
      }
    }
    std::stable_sort(spans.begin(), spans.end(), [](const TimelineSpan* a, const TimelineSpan* b) {
      return a->start < b->start;
    });
    return spans;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kInput,
                fmt::format("trace \"{}\": {}: is this the scenario, with the settings, that was "
                            "simulated?",
                            timeline_.name, what));
  }

  const Timeline& timeline_;
  const Job& job_;
  const Program& program_;
};

/// Fills in TaskTime::concurrent from when the spans ran.
void find_concurrent_work(const std::vector<const TimelineSpan*>& spans,
                          std::vector<TaskTime>& times) {
  struct Event {
    Picoseconds at;
    bool begins;
    std::size_t index;
  };
  std::vector<Event> events;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    if (spans[i]->end <= spans[i]->start) continue;
    events.push_back({spans[i]->start, true, i});
    events.push_back({spans[i]->end, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
    return std::tuple(a.at, a.begins, a.index) < std::tuple(b.at, b.begins, b.index);
  });
  std::vector<std::size_t> active;
  constexpr std::size_t kBits = 64;
  std::array<int, kBits> running{};
  WorkSet set = 0;
  for (std::size_t e = 0; e < events.size(); ++e) {
    if (e > 0 && events[e].at > events[e - 1].at) {
      const double seconds = to_seconds(events[e].at - events[e - 1].at).value();
      for (const std::size_t i : active) {
        auto& concurrent = times[i].concurrent;
        if (!concurrent.empty() && concurrent.back().first == set) {
          concurrent.back().second += seconds;
        } else {
          concurrent.emplace_back(set, seconds);
        }
      }
    }
    const std::size_t use = times[events[e].index].use;
    if (events[e].begins) {
      active.push_back(events[e].index);
    } else {
      std::erase(active, events[e].index);
    }
    // What a viewer drew by hand may overlap on a track.
    running.at(use) += events[e].begins ? 1 : -1;
    const WorkSet bit = WorkSet{1} << use;
    set = running.at(use) > 0 ? set | bit : set & ~bit;
  }
}

}  // namespace

void TraceWork::add(TraceWork other) {
  std::move(other.groups.begin(), other.groups.end(), std::back_inserter(groups));
  std::move(other.notes.begin(), other.notes.end(), std::back_inserter(notes));
}

bool is_simulated(const Timeline& timeline) {
  const bool computes =
      std::any_of(timeline.tracks.begin(), timeline.tracks.end(),
                  [](const Track& track) { return track.name == "launches" && track.process < 0; });
  const std::string name = schedule_of(timeline);
  return computes && std::any_of(schedules().begin(), schedules().end(),
                                 [&](const auto& one) { return one->name() == name; });
}

TraceWork simulated_work(const Timeline& timeline, const Job& job) {
  const Schedule& schedule = find_schedule(schedule_of(timeline));
  const FullRun run = simulate_fully(job, schedule);
  const auto tasks = run.program.graph.tasks();
  const std::vector<const TimelineSpan*> spans = SpanMatcher(timeline, job, run.program).match();
  const auto model = std::make_shared<const TaskModel>(job, schedule, run.program);
  std::vector<TaskTime> all;
  for (TaskId id = 0; id < tasks.size(); ++id) {
    const TaskId task = model->task_of(id);
    all.push_back(
        {task, to_seconds(spans[id]->end - spans[id]->start).value(), model->use_of(task), {}});
  }
  find_concurrent_work(spans, all);

  std::array<std::vector<TaskTime>, kWorkKinds> kept;
  std::array<TimedGroup, kWorkKinds> groups;
  std::map<TaskId, std::size_t> repetitions;
  for (TaskId id = 0; id < tasks.size(); ++id) {
    if (all[id].seconds <= 0 || tasks[id].duration.count <= 0) continue;
    if (++repetitions[all[id].task] > kMostRepetitions) continue;
    const auto kind =
        static_cast<std::size_t>(kind_of_lane(run.program.lanes[tasks[id].lane].kind));
    groups[kind].seconds.push_back(all[id].seconds);
    groups[kind].amounts.push_back(all[id].seconds);
    kept[kind].push_back(std::move(all[id]));
  }
  TraceWork work;
  for (std::size_t kind = 0; kind < kWorkKinds; ++kind) {
    groups[kind].what = fmt::format("{} of {}", kNames[kind], timeline.name);
    groups[kind].amount_unit = 1e-3;
    groups[kind].amount_name = "ms";
    groups[kind].predict = [model, times = std::move(kept[kind])](const HardwareProfile& profile) {
      return model->predict(profile, times);
    };
    work.add(std::move(groups[kind]));
  }
  return work;
}

}  // namespace zenflow::sim
