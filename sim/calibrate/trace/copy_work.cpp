#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "sim/calibrate/contention.h"
#include "sim/calibrate/trace/clock_tick.h"
#include "sim/calibrate/trace/trace_work.h"
#include "sim/cost/transfer_cost.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {
namespace {

constexpr std::size_t kMostCopies = 4000;  // of a kind
/// Share of a copy's time under contention up to which it counts as isolated.
constexpr double kIsolated = 0.02;

constexpr int kMostDevices = 32;

/// A GPU's copies of page-locked memory in one direction: a bit of a WorkSet.
FlowId place_of(int device, Direction direction) {
  return static_cast<FlowId>(2 * device + (direction == Direction::kD2H ? 1 : 0));
}

struct HostCopy {
  Direction direction = Direction::kH2D;
  bool pinned = true;
  int device = 0;
  double bytes = 0;
  double seconds = 0;
  double clock = 0;
  /// Page-locked: who else copied, over links that it shares, for how many seconds.
  ConcurrentWork concurrent{};
};

/// The links between the host and GPUs 0 to kMostDevices, a flow for each GPU and direction: its
/// number is the place's.
Machine host_links(const HostLinkProfile& profile) {
  Machine machine;
  std::vector<std::vector<LinkUse>> above(kMostDevices);
  std::vector<std::vector<LinkUse>> below(kMostDevices);
  const auto add = [&](const HostPath& path, std::span<const std::int64_t> gpus) {
    const auto first = static_cast<LinkId>(machine.links.size());
    machine.links.push_back({"h2d", path.h2d});
    machine.links.push_back({"d2h", path.d2h});
    machine.links.push_back({"both", path.bidirectional});
    for (const std::int64_t gpu : gpus) {
      if (gpu >= kMostDevices) continue;
      const auto device = static_cast<std::size_t>(gpu);
      const auto link = [first](int i) { return static_cast<LinkId>(first + i); };
      below[device].insert(below[device].end(), {{link(0), 1.0}, {link(2), 1.0}});
      above[device].insert(above[device].end(), {{link(1), 1.0}, {link(2), 1.0}});
    }
  };
  for (std::int64_t gpu = 0; gpu < kMostDevices; ++gpu) add(profile.pinned, {&gpu, 1});
  for (const HostSwitch& one : profile.switches) add(one.path, one.gpus);
  for (std::size_t device = 0; device < kMostDevices; ++device) {
    machine.flows.push_back({profile.pinned.h2d, below[device]});
    machine.flows.push_back({profile.pinned.d2h, above[device]});
  }
  return machine;
}

/// The isolated rate of a GPU is the profile's rate, whatever that is bounded by.
double copy_seconds(const HostLinkProfile& link, FairProgress& links, const HostCopy& copy) {
  double time = copy.bytes / copy_rate(link, copy.direction, copy.pinned).value();
  const FlowId place = place_of(copy.device, copy.direction);
  double whole = 0;
  double progressed = 0;
  for (const auto& [others, seconds] : copy.concurrent) {
    whole += seconds;
    progressed += seconds * (others == 0 ? 1 : links.of(place, others));
  }
  if (progressed > 0) time *= whole / progressed;
  return link.latency.value() + time;
}

/// A short one shows little but the latency, as the base profile has them.
bool tells_rate(const HostLinkProfile& link, const HostCopy& one) {
  constexpr double kLong = 4;  // latencies
  return one.bytes / copy_rate(link, one.direction, one.pinned).value() >=
         kLong * link.latency.value();
}

/// Gathers copies between host and GPUs.
class CopyReader {
 public:
  CopyReader(const std::vector<const Timeline*>& timelines, const HostLinkProfile& link)
      : link_(link) {
    for (const Timeline* timeline : timelines) read(*timeline, *timelines.front());
    unite_times();
    for (const Found& one : all_) take(one);
    for (const Direction direction : {Direction::kH2D, Direction::kD2H}) judge_unsure(direction);
  }

  std::vector<HostCopy> found;
  std::size_t unknown_memory = 0;
  std::size_t within_tick = 0;
  std::size_t same_direction = 0;
  std::size_t unknown_links = 0;     ///< left aside
  std::size_t assumed_isolated = 0;  ///< in spite of other GPUs' copies

 private:
  struct Found {
    HostCopy copy;
    Interval time;
  };

  void read(const Timeline& timeline, const Timeline& first) {
    // The shift and the tick are those of the clock that all timelines were read from.
    constexpr std::int64_t kPicosecondsOfOne = 1000;
    const Picoseconds shift{kPicosecondsOfOne *
                            (timeline.origin_nanoseconds - first.origin_nanoseconds)};
    const double clock = clock_error(clock_tick(timeline, is_gpu_work));
    std::map<NameId, CopyName> names;
    for (const TimelineSpan& span : timeline.spans) {
      if (kind_of(timeline, span) != SpanKind::kCopy) continue;
      const auto [entry, is_new] = names.try_emplace(span.name);
      if (is_new) entry->second = copy_name(timeline.name_of(span));
      const CopyName& name = entry->second;
      const bool up = name.direction == CopyDirection::kH2D;
      if (!up && name.direction != CopyDirection::kD2H) continue;
      const MemoryKind host = up ? name.from : name.to;
      if (host != MemoryKind::kPinned && host != MemoryKind::kPageable) {
        ++unknown_memory;
        continue;
      }
      const int device = timeline.tracks[span.track].device;
      const double bytes = timeline.extra_of(span).bytes;
      if (bytes <= 0 || device < 0 || device >= kMostDevices) continue;
      if (span.end <= span.start) {
        ++within_tick;
        continue;
      }
      const Direction direction = up ? Direction::kH2D : Direction::kD2H;
      const bool pinned = host == MemoryKind::kPinned;
      all_.push_back({{direction, pinned, device, bytes, seconds_of(span), clock},
                      {span.start + shift, span.end + shift}});
    }
  }

  /// When each GPU copies in each direction, and when it makes two such copies at once.
  void unite_times() {
    for (const Found& one : all_) {
      if (one.copy.pinned)
        times_[place_of(one.copy.device, one.copy.direction)].push_back(one.time);
    }
    for (auto& [place, times] : times_) {
      std::sort(times.begin(), times.end(), [](const Interval& a, const Interval& b) {
        return std::tie(a.start, a.end) < std::tie(b.start, b.end);
      });
      Picoseconds ended = times.front().start;
      for (const Interval& one : times) {
        if (one.start < ended) doubled_[place].push_back({one.start, std::min(one.end, ended)});
        ended = std::max(ended, one.end);
      }
      times = unite(std::move(times));
      doubled_[place] = unite(std::move(doubled_[place]));
    }
  }

  [[nodiscard]] double share(const Found& one, const Intervals& times) const {
    return to_seconds(length_within(times, one.time.start, one.time.end)).value() /
           one.copy.seconds;
  }

  /// Whether copies of these GPUs pass over a link that the profile has.
  [[nodiscard]] bool share_a_link(int a, int b) const {
    if (a == b) return true;
    return std::any_of(link_.switches.begin(), link_.switches.end(), [&](const HostSwitch& one) {
      const auto has = [&](int gpu) {
        return std::find(one.gpus.begin(), one.gpus.end(), gpu) != one.gpus.end();
      };
      return has(a) && has(b);
    });
  }

  void take(const Found& one) {
    HostCopy copy = one.copy;
    if (!copy.pinned) {
      found.push_back(std::move(copy));
      return;
    }
    const FlowId own = place_of(copy.device, copy.direction);
    if (share(one, doubled_.at(own)) > kIsolated) {
      ++same_direction;
      return;
    }
    bool is_sure = true;
    std::vector<WorkTimes> others;
    for (const auto& [place, times] : times_) {
      const int device = static_cast<int>(place / 2);
      if (place == own || share(one, times) <= kIsolated) continue;
      if (!share_a_link(copy.device, device)) {
        // A profile that names no switch does not say that there is none.
        if (link_.switches.empty()) is_sure = false;
        continue;
      }
      others.push_back({WorkSet{1} << place, &times});
    }
    if (!others.empty()) copy.concurrent = concurrent_work(one.time, others);
    (is_sure ? found : unsure_).push_back(std::move(copy));
  }

  /// Where GPUs always copy at once, what they get then is the best that is known: it is what the
  /// profile, without a link that they share, will be asked for.
  void judge_unsure(Direction direction) {
    constexpr std::ptrdiff_t kEnough = 3;
    const auto sure = std::count_if(found.begin(), found.end(), [&](const HostCopy& one) {
      return one.pinned && one.direction == direction && tells_rate(link_, one);
    });
    const bool some_are_sure = sure >= kEnough;
    for (HostCopy& one : unsure_) {
      if (one.direction != direction) continue;
      ++(some_are_sure ? unknown_links : assumed_isolated);
      if (!some_are_sure) found.push_back(std::move(one));
    }
  }

  const HostLinkProfile& link_;
  std::vector<Found> all_;
  std::vector<HostCopy> unsure_;         // concurrent with those of GPUs that may share a link
  std::map<FlowId, Intervals> times_;    // of page-locked memory, by place
  std::map<FlowId, Intervals> doubled_;  // of those, when two run at once
};

TimedGroup copy_group(const char* what, std::vector<HostCopy> copies) {
  TimedGroup group{.what = what,
                   .seconds = {},
                   .amounts = {},
                   .amount_unit = 1e6,
                   .amount_name = "MB",
                   .predict = {}};
  for (const HostCopy& one : copies) {
    group.seconds.push_back(one.seconds);
    group.amounts.push_back(one.bytes);
    group.clock_errors.push_back(one.clock);
  }
  group.predict = [copies = std::move(copies)](const HardwareProfile& profile) {
    const Machine machine = host_links(profile.host_link);
    std::vector<FlowId> places(machine.flows.size());
    std::iota(places.begin(), places.end(), FlowId{0});
    FairProgress links(machine, std::move(places));
    std::vector<double> times;
    for (const HostCopy& one : copies) {
      times.push_back(copy_seconds(profile.host_link, links, one));
    }
    return times;
  };
  return group;
}

/// At most kMostCopies, evenly spread.
std::vector<HostCopy> thinned(std::vector<HostCopy> copies, std::size_t& passed_over) {
  if (copies.size() <= kMostCopies) return copies;
  passed_over += copies.size() - kMostCopies;
  std::vector<HostCopy> some;
  for (std::size_t i = 0; i < kMostCopies; ++i) {
    some.push_back(std::move(copies[i * copies.size() / kMostCopies]));
  }
  return some;
}

}  // namespace

TraceWork copy_work(const std::vector<const Timeline*>& timelines, const HardwareProfile& base) {
  CopyReader reader(timelines, base.host_link);
  struct Kind {
    const char* what;
    std::vector<HostCopy> copies{};
  };
  // Long copies' times scatter by less than a thousandth, short copies' by a tenth: in one kind,
  // either would be taken for outliers among the others.
  std::array<Kind, 4> kinds{{{"copies of page-locked memory"},
                             {"short copies of page-locked memory"},
                             {"copies of page-locked memory beside others"},
                             {"copies of pageable memory"}}};
  for (HostCopy& one : reader.found) {
    const std::size_t isolated = tells_rate(base.host_link, one) ? 0 : 1;
    const std::size_t kind = !one.pinned ? 3 : one.concurrent.empty() ? isolated : 2;
    kinds.at(kind).copies.push_back(std::move(one));
  }
  TraceWork work;
  std::size_t passed_over = 0;
  for (Kind& kind : kinds) {
    work.add(copy_group(kind.what, thinned(std::move(kind.copies), passed_over)));
  }
  const auto note = [&](std::size_t count, const std::string& why) {
    if (count > 0) work.notes.push_back(fmt::format("{} copies left aside: {}", count, why));
  };
  note(passed_over, fmt::format("further ones of a kind of which {} are used", kMostCopies));
  note(reader.unknown_memory, "the trace does not say whether their host memory is page-locked");
  note(reader.within_tick, "shorter than the recording clock resolves");
  note(reader.same_direction, "beside another one of their GPU and direction");
  note(reader.unknown_links,
       "beside those of other GPUs, and the base profile names no link that GPUs share "
       "(host_link.switches)");
  if (reader.assumed_isolated > 0) {
    work.notes.push_back(fmt::format(
        "{} copies of page-locked memory run beside those of other GPUs, and hardly any "
        "long one of their direction alone: they count as on links of their own, since the base "
        "profile names no link that GPUs share (host_link.switches)",
        reader.assumed_isolated));
  }
  return work;
}

}  // namespace zenflow::sim
