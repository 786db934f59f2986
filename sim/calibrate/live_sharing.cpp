#include "sim/calibrate/live_sharing.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "sim/cost/transfer_cost.h"
#include "sim/schedule/live_cluster.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kLanes = 5;

struct LaneName {
  LiveLane lane;
  const char* what;
  const char* amount;  ///< the samples', in millions
};
constexpr std::array<LaneName, 4> kTimed = {{
    {LiveLane::kD2H, "copies of gradients", "MB"},
    {LiveLane::kH2D, "copies of weights", "MB"},
    {LiveLane::kUpdate, "updates of layers", "MB of traffic"},
    {LiveLane::kSum, "sums of layers", "MB of traffic"},
}};

std::size_t number_of(LiveLane lane) {
  return static_cast<std::size_t>(lane);
}

/// Recorded tracks and simulated ones.
std::optional<LiveLane> lane_of(std::string_view track) {
  if (track == "compute") return LiveLane::kCompute;
  if (track == "d2h") return LiveLane::kD2H;
  if (track == "h2d") return LiveLane::kH2D;
  if (track == "cpu optimizer" || track == "cpu_update") return LiveLane::kUpdate;
  if (track == "cpu sums" || track == "cpu_accumulate") return LiveLane::kSum;
  return std::nullopt;
}

std::optional<LiveLane> lane_of(LiveOperation operation) {
  switch (operation) {
    case LiveOperation::kGradientsDown:
      return LiveLane::kD2H;
    case LiveOperation::kWeightsUp:
      return LiveLane::kH2D;
    case LiveOperation::kUpdate:
      return LiveLane::kUpdate;
    case LiveOperation::kSum:
      return LiveLane::kSum;
    default:
      return std::nullopt;
  }
}

/// When each lane has work. A lane that shares nothing is left empty.
std::array<Intervals, kLanes> lane_times(const Timeline& timeline, bool on_host) {
  std::array<Intervals, kLanes> times;
  std::vector<std::optional<LiveLane>> lanes;
  for (const Track& track : timeline.tracks) {
    lanes.push_back(lane_of(track.name));
    if (lanes.back() == LiveLane::kCompute && !on_host) lanes.back().reset();
  }
  for (const TimelineSpan& span : timeline.spans) {
    if (!lanes[span.track]) continue;
    times.at(number_of(*lanes[span.track])).push_back({span.start, span.end});
  }
  for (Intervals& one : times) one = unite(std::move(one));
  return times;
}

std::vector<FlowId> flows_of(const Cluster& cluster) {
  const RankClass& rank = cluster.classes.front();
  return {rank.compute.flow, rank.d2h.flow, rank.h2d.flow, rank.cpu_update.flow,
          rank.cpu_accumulate.flow};
}

}  // namespace

void LiveSharing::add(const Job& job, const LiveSettings& live,
                      const std::vector<LiveLayer>& layers, const Timeline& timeline,
                      std::span<const LiveSample> samples) {
  const std::array<Intervals, kLanes> times =
      lane_times(timeline, job.scenario.hardware.gpu.runs_on_host());
  const LiveWork work(job, live);
  Run run{&job, live, {}};
  for (const LiveSample& sample : samples) {
    const auto lane = lane_of(sample.operation);
    if (!lane) continue;
    Time one{*lane, sample.first, layers[sample.layer].deferred_elements(), sample.bytes,
             sample.seconds};
    if (one.lane == LiveLane::kUpdate) one.bytes = work.update_bytes() * one.elements;
    if (one.lane == LiveLane::kSum) one.bytes = work.sum_bytes(one.first) * one.elements;
    if (one.bytes <= 0) continue;
    std::vector<WorkTimes> others;
    for (std::size_t other = 0; other < kLanes; ++other) {
      if (other != number_of(one.lane)) others.push_back({WorkSet{1} << other, &times.at(other)});
    }
    const Interval span{sample.start, sample.start + to_picoseconds(Seconds(sample.seconds))};
    one.beside = what_ran_beside(span, others);
    overlaps_ = overlaps_ || std::any_of(one.beside.begin(), one.beside.end(),
                                         [](const auto& part) { return part.first != 0; });
    run.times.push_back(std::move(one));
  }
  runs_->push_back(std::move(run));
}

std::vector<double> LiveSharing::predict(const Runs& runs, LiveLane lane,
                                         const HardwareProfile& profile) {
  std::vector<double> seconds;
  for (const Run& run : runs) {
    Job job = *run.job;
    job.scenario.hardware = profile;
    const LiveWork work(job, run.live);
    const CpuWork update = work.update();
    const std::array<CpuWork, 2> sums = {work.sum(false), work.sum(true)};
    const auto alone = [&](const Time& one) {
      switch (lane) {
        case LiveLane::kUpdate:
          return update.call(one.elements);
        case LiveLane::kSum:
          return sums.at(one.first ? 1 : 0).call(one.elements);
        default:
          return copy_time(profile.host_link,
                           lane == LiveLane::kD2H ? Direction::kD2H : Direction::kH2D, true,
                           Bytes(one.bytes));
      }
    };
    const Cluster cluster = live_cluster(job, run.live);
    FairProgress progress(cluster.machine, flows_of(cluster));
    for (const Time& one : run.times) {
      if (one.lane != lane) continue;
      seconds.push_back(alone(one).value() / progress.mean(number_of(lane), one.beside));
    }
  }
  return seconds;
}

std::vector<TimedGroup> LiveSharing::groups() const {
  constexpr double kMega = 1e6;
  std::vector<TimedGroup> groups;
  for (const LaneName& name : kTimed) {
    TimedGroup group{.what = name.what,
                     .seconds = {},
                     .amounts = {},
                     .amount_unit = kMega,
                     .amount_name = name.amount,
                     .predict = {}};
    for (const Run& run : *runs_) {
      for (const Time& one : run.times) {
        if (one.lane != name.lane) continue;
        group.seconds.push_back(one.seconds);
        group.amounts.push_back(one.bytes);
      }
    }
    if (group.seconds.empty()) continue;
    group.predict = [runs = std::shared_ptr<const Runs>(runs_),
                     lane = name.lane](const HardwareProfile& profile) {
      return predict(*runs, lane, profile);
    };
    groups.push_back(std::move(group));
  }
  return groups;
}

}  // namespace zenflow::sim
