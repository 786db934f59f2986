#include "sim/calibrate/live_run.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/operation.h"
#include "sim/offload/offload_rule.h"
#include "sim/schedule/live_cluster.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// What shares DRAM, and the link: a bit of a WorkSet each.
constexpr std::array kSharingLanes = {LaneKind::kD2H, LaneKind::kH2D, LaneKind::kCpuUpdate,
                                      LaneKind::kCpuAccumulate};
using LaneTimes = std::array<Intervals, kSharingLanes.size()>;

/// Empty: it is none of them.
std::optional<std::size_t> sharing_lane(std::optional<LaneKind> lane) {
  const auto* const found = std::find(kSharingLanes.begin(), kSharingLanes.end(), lane);
  if (found == kSharingLanes.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kSharingLanes.begin());
}

std::optional<std::size_t> sharing_lane(Operation operation) {
  if (operation == Operation::kPlaceWeights) return std::nullopt;  // a kernel
  return sharing_lane(issuing_lane(operation));
}

/// When each lane has work.
LaneTimes lane_times(const Timeline& timeline) {
  LaneTimes times;
  std::vector<std::optional<std::size_t>> lanes;
  for (const Track& track : timeline.tracks) {
    lanes.push_back(sharing_lane(lane_of_track(track.name)));
  }
  for (const TimelineSpan& span : timeline.spans) {
    if (!lanes[span.track]) continue;
    times.at(*lanes[span.track]).push_back({span.start, span.end});
  }
  for (Intervals& one : times) one = unite(std::move(one));
  return times;
}

ConcurrentWork concurrent_lanes(const LiveSample& sample, const LaneTimes& times) {
  const auto own = sharing_lane(sample.operation);
  if (!own) return {};
  std::vector<WorkTimes> others;
  for (std::size_t lane = 0; lane < times.size(); ++lane) {
    if (lane != *own) others.push_back({WorkSet{1} << lane, &times.at(lane)});
  }
  const Picoseconds end = sample.start + to_picoseconds(Seconds(sample.seconds));
  return concurrent_work({sample.start, end}, others);
}

OffloadSchedule kind_of(const LiveRecording& recording) {
  if (const auto kind = live_kind(recording.schedule)) return *kind;
  throw Error(
      ErrorKind::kInput,
      fmt::format("schedule \"{}\": expected one of the live-* schedules", recording.schedule));
}

LiveSettings settings_of(const LiveRecording& recording) {
  LiveSettings live = live_settings(kind_of(recording), *recording.job);
  if (const auto run = recorded_run(*recording.timeline)) {
    if (run->topk_is_global) {
      throw Error(
          ErrorKind::kInput,
          fmt::format("{}: recorded with --topk-scope global: what is deferred of each layer "
                      "depended on the data; record with --topk-scope matrix",
                      recording.file.empty() ? recording.schedule : recording.file));
    }
    const auto cores = cores_of_a_rank(recording.job->scenario);
    live.optimizer_cores = std::min(cores, static_cast<double>(run->optimizer_threads));
    live.sum_cores = std::min(cores, static_cast<double>(run->sum_threads));
  }
  return live;
}

Cluster cluster_of(const LiveRun& run, const HardwareProfile& machine) {
  Job job = *run.job;
  job.scenario.hardware = machine;
  return live_cluster(job, run.live);
}

/// In the order of kSharingLanes.
std::vector<FlowId> flows_of(const Cluster& cluster) {
  const RankClass& rank = cluster.classes.front();
  return {rank.d2h.flow, rank.h2d.flow, rank.cpu_update.flow, rank.cpu_accumulate.flow};
}

}  // namespace

LiveRun read_live_run(const LiveRecording& recording) {
  LiveRun run{recording.job, settings_of(recording), {}, {}, {}};
  if (run.live.full_warm_up_rounds > recording.first_step) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: steps from {} on were to be used, but the warm-up lasts {}",
                    recording.schedule, recording.first_step, run.live.full_warm_up_rounds));
  }
  run.layers = live_layers(run.job->scenario.model, run.live.topk_ratio, recording.place);
  run.samples = live_samples(*recording.timeline, run.layers, run.live, recording.first_step);
  // Between ranks the gap has the exchange of norms, too.
  if (recording.place.ranks > 1) {
    std::erase_if(run.samples,
                  [](const LiveSample& one) { return one.operation == Operation::kEnqueue; });
  }
  run.concurrent.resize(run.samples.size());
  if (run.job->scenario.hardware.gpu.runs_on_host()) return run;
  const LaneTimes times = lane_times(*recording.timeline);
  for (std::size_t i = 0; i < run.samples.size(); ++i) {
    run.concurrent[i] = concurrent_lanes(run.samples[i], times);
  }
  return run;
}

LiveProgress::LiveProgress(const LiveRun& run, const HardwareProfile& machine)
    : run_(run),
      cluster_(cluster_of(run, machine)),
      progress_(cluster_.machine, flows_of(cluster_)) {}

double LiveProgress::of(std::size_t sample) {
  return progress_.mean(*sharing_lane(run_.samples[sample].operation), run_.concurrent[sample]);
}

}  // namespace zenflow::sim
