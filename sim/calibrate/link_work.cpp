#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "sim/calibrate/trace_work.h"
#include "sim/cost/transfer_cost.h"
#include "sim/report/intervals.h"
#include "sim/trace/import/operation_shapes.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kMostCopies = 4000;
/// Share of a copy's time that counts as always, or as never, beside the other direction.
constexpr double kNearlyAll = 0.98;

double seconds_of(const TimelineSpan& span) {
  return to_seconds(span.end - span.start).value();
}

struct HostCopy {
  Direction direction = Direction::kH2D;
  bool pinned = true;
  bool beside = false;  ///< the other direction, all the time
  double bytes = 0;
  double seconds = 0;
};

double copy_seconds(const HostLinkProfile& link, const HostCopy& copy) {
  double rate = copy_rate(link, copy.direction, copy.pinned).value();
  if (copy.beside) {
    const Direction other = copy.direction == Direction::kH2D ? Direction::kD2H : Direction::kH2D;
    const double both = link.pinned.bidirectional.value();
    rate = std::min(rate, std::max(both / 2, both - copy_rate(link, other, true).value()));
  }
  return link.latency.value() + copy.bytes / rate;
}

/// Gathers copies between host and device, by device.
class CopyReader {
 public:
  explicit CopyReader(const Timeline& timeline) : timeline_(timeline) {
    for (const TimelineSpan& span : timeline.spans) {
      if (const auto copy = read(span, true)) {
        if (copy->pinned) {
          pinned_[{timeline.tracks[span.track].device, copy->direction}].push_back(
              {span.start, span.end});
        }
      }
    }
    for (auto& [key, times] : pinned_) times = unite(std::move(times));
    for (const TimelineSpan& span : timeline.spans) take(span);
  }

  std::vector<HostCopy> found;
  std::size_t partly = 0;
  std::size_t unknown_memory = 0;

 private:
  std::optional<HostCopy> read(const TimelineSpan& span, bool silently) {
    if (kind_of(timeline_, span) != SpanKind::kCopy) return std::nullopt;
    const auto [entry, is_new] = names_.try_emplace(span.name);
    if (is_new) entry->second = copy_name(timeline_.name_of(span));
    const CopyName& name = entry->second;
    const bool up = name.direction == CopyDirection::kH2D;
    if (!up && name.direction != CopyDirection::kD2H) return std::nullopt;
    const MemoryKind host = up ? name.from : name.to;
    if (host != MemoryKind::kPinned && host != MemoryKind::kPageable) {
      if (!silently) ++unknown_memory;
      return std::nullopt;
    }
    if (span.bytes <= 0 || span.end <= span.start) return std::nullopt;
    return HostCopy{up ? Direction::kH2D : Direction::kD2H, host == MemoryKind::kPinned, false,
                    span.bytes, seconds_of(span)};
  }

  void take(const TimelineSpan& span) {
    auto copy = read(span, false);
    if (!copy) return;
    const Direction other = copy->direction == Direction::kH2D ? Direction::kD2H : Direction::kH2D;
    const auto times = pinned_.find({timeline_.tracks[span.track].device, other});
    double shared = 0;
    if (copy->pinned && times != pinned_.end()) {
      shared =
          to_seconds(length_within(times->second, span.start, span.end)).value() / copy->seconds;
    }
    if (shared > 1 - kNearlyAll && shared < kNearlyAll) {
      ++partly;
      return;
    }
    copy->beside = shared >= kNearlyAll;
    found.push_back(*copy);
  }

  const Timeline& timeline_;
  std::map<NameId, CopyName> names_;
  std::map<std::pair<int, Direction>, Intervals> pinned_;
};

TimedGroup copy_group(const char* what, std::vector<HostCopy> copies) {
  if (copies.size() > kMostCopies) {
    std::vector<HostCopy> some;
    for (std::size_t i = 0; i < kMostCopies; ++i) {
      some.push_back(copies[i * copies.size() / kMostCopies]);
    }
    copies = std::move(some);
  }
  TimedGroup group{.what = what,
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = 1e6,
                   .amount_name = "MB",
                   .predict = {}};
  for (const HostCopy& one : copies) {
    group.seconds.push_back(one.seconds);
    group.amounts.push_back(one.bytes);
  }
  group.predict = [copies = std::move(copies)](const HardwareProfile& profile) {
    std::vector<double> times;
    for (const HostCopy& one : copies) times.push_back(copy_seconds(profile.host_link, one));
    return times;
  };
  return group;
}

enum class Collective : std::uint8_t { kAllReduce, kReduceScatter, kAllGather };

std::optional<Collective> collective_of(std::string_view kernel) {
  const auto has = [&](std::string_view part) { return kernel.find(part) != kernel.npos; };
  if (has("AllReduce")) return Collective::kAllReduce;
  if (has("ReduceScatter")) return Collective::kReduceScatter;
  if (has("AllGather")) return Collective::kAllGather;
  return std::nullopt;
}

std::int64_t group_size(const Timeline& timeline, const TimelineSpan& span) {
  if (span.detail < 0) return 0;
  for (const auto& [name, value] : timeline.details[static_cast<std::size_t>(span.detail)].fields) {
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

TraceWork copy_work(const Timeline& timeline) {
  CopyReader reader(timeline);
  std::array<std::vector<HostCopy>, 2> by_memory;
  for (const HostCopy& one : reader.found) by_memory[one.pinned ? 0 : 1].push_back(one);
  TraceWork work;
  work.add(copy_group("copies of page-locked memory", std::move(by_memory[0])));
  work.add(copy_group("copies of pageable memory", std::move(by_memory[1])));
  if (reader.partly > 0) {
    work.notes.push_back(
        fmt::format("{} copies left aside: beside the other direction for a part of their time",
                    reader.partly));
  }
  if (reader.unknown_memory > 0) {
    work.notes.push_back(
        fmt::format("{} copies left aside: the trace does not say whether their host memory is "
                    "page-locked",
                    reader.unknown_memory));
  }
  return work;
}

TraceWork collective_work(const Timeline& timeline, const HardwareProfile& base) {
  std::map<CollectiveKey, std::vector<double>> all;
  std::size_t unknown = 0;
  std::size_t far = 0;
  for (const TimelineSpan& span : timeline.spans) {
    if (kind_of(timeline, span) != SpanKind::kCollective || span.end <= span.start) continue;
    const std::int64_t ranks = group_size(timeline, span);
    const auto operation = collective_of(timeline.name_of(span));
    if (!operation || span.bytes <= 0 || ranks < 1) {
      ++unknown;
      continue;
    }
    if (ranks == 1) continue;
    if (!base.gpu_link || ranks > base.gpu.count) {
      ++far;
      continue;
    }
    const double whole =
        *operation == Collective::kAllGather ? span.bytes * static_cast<double>(ranks) : span.bytes;
    all[{*operation, whole, ranks}].push_back(seconds_of(span));
  }
  TimedGroup group{.what = "collectives",
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = 1e6,
                   .amount_name = "MB",
                   .predict = {}};
  std::vector<CollectiveKey> keys;
  for (const auto& [key, seconds] : shortest(all)) {
    group.seconds.push_back(seconds);
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
