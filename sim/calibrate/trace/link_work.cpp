#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "sim/calibrate/trace/clock_tick.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/cost/transfer_cost.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {
namespace {

enum class Collective : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };

std::optional<Collective> collective_of(std::string_view kernel) {
  const auto has = [&](std::string_view part) { return kernel.find(part) != kernel.npos; };
  if (has("AllReduce")) return Collective::kAllReduce;
  if (has("ReduceScatter")) return Collective::kReduceScatter;
  if (has("AllGather")) return Collective::kAllGather;
  return std::nullopt;
}

std::int64_t group_size(const Timeline& timeline, const TimelineSpan& span) {
  const SpanDetail* detail = timeline.detail_of(span);
  if (detail == nullptr) return 0;
  for (const auto& [name, value] : detail->fields) {
    if (name == kGroupSizeField) return std::strtoll(value.c_str(), nullptr, 10);
  }
  return 0;
}

/// The whole buffer: what a rank hands in of an all-gather is its part.
using CollectiveKey = std::tuple<Collective, double, std::int64_t>;

double collective_seconds(const HardwareProfile& profile, const CollectiveKey& key) {
  const auto& [operation, bytes, ranks] = key;
  const Communicator group{ranks, profile.gpu_link->bandwidth, profile.gpu_link->latency};
  switch (operation) {
    case Collective::kAllReduce:
      return all_reduce_time(group, Bytes(bytes)).value();
    case Collective::kReduceScatter:
      return reduce_scatter_time(group, Bytes(bytes)).value();
    case Collective::kAllGather:
      return all_gather_time(group, Bytes(bytes)).value();
  }
  return 0;
}

/// A kernel that waits for other ranks runs as well: of equal ones the shortest quarter.
std::vector<std::pair<CollectiveKey, double>> shortest(
    const std::map<CollectiveKey, std::vector<double>>& all) {
  std::vector<std::pair<CollectiveKey, double>> found;
  for (const auto& [key, times] : all) {
    std::vector<double> sorted = times;
    std::sort(sorted.begin(), sorted.end());
    sorted.resize((sorted.size() + 3) / 4);
    for (const double one : sorted) found.emplace_back(key, one);
  }
  return found;
}

}  // namespace

TraceWork collective_work(const Timeline& timeline, const HardwareProfile& base) {
  std::map<CollectiveKey, std::vector<double>> all;
  std::size_t unknown = 0;
  std::size_t far = 0;
  for (const TimelineSpan& span : timeline.spans) {
    if (kind_of(timeline, span) != SpanKind::kCollective || span.end <= span.start) continue;
    const std::int64_t ranks = group_size(timeline, span);
    const auto operation = collective_of(timeline.name_of(span));
    const double bytes = timeline.extra_of(span).bytes;
    if (!operation || bytes <= 0 || ranks < 1) {
      ++unknown;
      continue;
    }
    if (ranks == 1) continue;
    if (!base.gpu_link || ranks > base.gpu.count) {
      ++far;
      continue;
    }
    const double whole =
        *operation == Collective::kAllGather ? bytes * static_cast<double>(ranks) : bytes;
    all[{*operation, whole, ranks}].push_back(seconds_of(span));
  }
  TimedGroup group{.what = "collectives",
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = 1e6,
                   .amount_name = "MB",
                   .predict = {}};
  std::vector<CollectiveKey> keys;
  const double clock = clock_error(clock_tick(timeline, is_gpu_work));
  std::size_t waited = 0;
  for (const auto& [key, times] : all) waited += times.size();
  for (const auto& [key, seconds] : shortest(all)) {
    --waited;
    group.seconds.push_back(seconds);
    group.clock_errors.push_back(clock);
    group.amounts.push_back(std::get<1>(key));
    keys.push_back(key);
  }
  group.predict = [keys = std::move(keys)](const HardwareProfile& profile) {
    std::vector<double> times;
    for (const CollectiveKey& key : keys) times.push_back(collective_seconds(profile, key));
    return times;
  };
  TraceWork work;
  work.add(std::move(group));
  if (waited > 0) {
    work.notes.push_back(fmt::format(
        "{} collectives left aside: longer than the shortest quarter of their equals, as those are "
        "that wait for other ranks",
        waited));
  }
  if (unknown > 0) {
    work.notes.push_back(fmt::format(
        "{} collectives left aside: no message or group size in the trace, or not an all-reduce, "
        "reduce-scatter or all-gather",
        unknown));
  }
  if (far > 0) {
    work.notes.push_back(fmt::format(
        "{} collectives left aside: their group is larger than the base profile's node, "
        "or that has no link between GPUs",
        far));
  }
  return work;
}

}  // namespace zenflow::sim
