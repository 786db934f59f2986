#include "sim/trace/merge_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

constexpr std::int64_t kPicosecondsPerNanosecond = 1000;

struct Ranked {
  RankRecording recording;
  RecordedRun run;
};

std::vector<Ranked> by_rank(std::vector<RankRecording> recordings) {
  std::vector<Ranked> ranked;
  for (RankRecording& one : recordings) {
    check_recorded_run(one.timeline, one.file);
    const std::optional<RecordedRun> run = recorded_run(one.timeline);
    if (!run || run->among.ranks == 1 || one.timeline.devices.size() > 1) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{}: expected a recording of one of several ranks, as mpirun -np N "
                              "zenflow-train --trace FILE writes them",
                              one.file));
    }
    ranked.push_back({std::move(one), *run});
  }
  std::sort(ranked.begin(), ranked.end(),
            [](const Ranked& a, const Ranked& b) { return a.run.among.rank < b.run.among.rank; });
  return ranked;
}

/// Of one run, each rank once.
void check_ranks(const std::vector<Ranked>& ranked) {
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    RecordedRun same = ranked.front().run;
    same.among = ranked[i].run.among;
    const RecordedRank& among = ranked[i].run.among;
    if (same != ranked[i].run || among.ranks != ranked.front().run.among.ranks) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{} and {} are of runs with other settings",
                              ranked.front().recording.file, ranked[i].recording.file));
    }
    if (among.run != ranked.front().run.among.run) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{} and {} are of two runs", ranked.front().recording.file,
                              ranked[i].recording.file));
    }
    if (i > 0 && among.rank == ranked[i - 1].run.among.rank) {
      throw Error(ErrorKind::kInput,
                  fmt::format("{} and {} are both of rank {}", ranked[i - 1].recording.file,
                              ranked[i].recording.file, among.rank));
    }
  }
  const auto ranks = static_cast<std::size_t>(ranked.front().run.among.ranks);
  if (ranked.size() == ranks) return;
  std::size_t missing = 0;
  while (missing < ranked.size() &&
         static_cast<std::size_t>(ranked[missing].run.among.rank) == missing) {
    ++missing;
  }
  throw Error(ErrorKind::kInput,
              fmt::format("{}: of {} ranks, but that of rank {} is not among the {} files",
                          ranked.front().recording.file, ranks, missing, ranked.size()));
}

/// On rank 0's clock, in nanoseconds.
std::int64_t zero_of(const RankTimeline& one) {
  constexpr std::int64_t kLatest = std::int64_t{1} << 61U;  // 73 years
  const std::int64_t origin = one.timeline.origin_nanoseconds;
  if (origin < 0 || origin > kLatest) {
    throw Error(ErrorKind::kInput, fmt::format("{}: its time zero, {} ns, is on no machine's clock",
                                               one.file, origin));
  }
  return origin - std::llround(recorded_run(one.timeline).value().among.clock_offset_ns);
}

/// Of what a run lasts and recordings are apart, so that no sum is too large.
constexpr std::int64_t kMostNanoseconds = std::int64_t{1'000'000} * 1'000'000'000;  // 11 days

RankTimeline of(const Ranked& one) {
  return {one.recording.file, one.recording.timeline};
}

void check_length(const Ranked& one) {
  Picoseconds end{};
  for (const TimelineSpan& span : one.recording.timeline.spans) end = std::max(end, span.end);
  if (end.count / kPicosecondsPerNanosecond <= kMostNanoseconds) return;
  throw Error(ErrorKind::kInput, fmt::format("{}: it lasts more than 11 days", one.recording.file));
}

void shift(Timeline& timeline, Picoseconds by) {
  for (TimelineSpan& span : timeline.spans) {
    span.start = span.start + by;
    span.end = span.end + by;
  }
  for (TimelineStep& step : timeline.steps) {
    step.start = step.start + by;
    step.end = step.end + by;
  }
  for (TimelineCounter& counter : timeline.counters) {
    for (auto& [time, values] : counter.samples) time = time + by;
  }
}

void become_device(Timeline& timeline, int device) {
  for (Track& track : timeline.tracks) track.device = device;
  for (TimelineCounter& counter : timeline.counters) counter.device = device;
  const std::string own = timeline.devices.empty() ? "" : timeline.devices.front();
  timeline.devices.assign(static_cast<std::size_t>(device) + 1, "");
  timeline.devices.back() = fmt::format("rank {}: {}", device, own);
}

std::string shifts_text(const std::vector<Ranked>& ranked) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Ranked& one : ranked) {
    list.push_back({{"rank", one.run.among.rank},
                    {"clock_offset_ns", one.run.among.clock_offset_ns},
                    {"clock_uncertainty_ns", one.run.among.clock_uncertainty_ns}});
  }
  return list.dump();
}

}  // namespace

Picoseconds later_than(const RankTimeline& one, const RankTimeline& first) {
  const std::int64_t later = zero_of(one) - zero_of(first);
  if (later < -kMostNanoseconds || later > kMostNanoseconds) {
    throw Error(ErrorKind::kInput,
                fmt::format("{} and {} begin more than 11 days apart", one.file, first.file));
  }
  return {later * kPicosecondsPerNanosecond};
}

Timeline merge_ranks(std::vector<RankRecording> recordings) {
  if (recordings.empty()) throw Error(ErrorKind::kInput, "no recordings to merge");
  std::vector<Ranked> ranked = by_rank(std::move(recordings));
  check_ranks(ranked);
  const std::string shifts = shifts_text(ranked);
  // By the one that begins first, so that no time is below zero.
  std::vector<Picoseconds> later;
  for (const Ranked& one : ranked) {
    check_length(one);
    later.push_back(later_than(of(one), of(ranked.front())));
  }
  const Picoseconds earliest = *std::min_element(later.begin(), later.end());
  const std::int64_t zero =
      zero_of(of(ranked.front())) + earliest.count / kPicosecondsPerNanosecond;
  Timeline merged;
  for (std::size_t rank = 0; rank < ranked.size(); ++rank) {
    Timeline timeline = std::move(ranked[rank].recording.timeline);
    shift(timeline, later[rank] - earliest);
    become_device(timeline, static_cast<int>(rank));
    if (rank == 0) {
      merged = std::move(timeline);
      continue;
    }
    timeline.steps.clear();
    timeline.metadata.clear();
    append(merged, timeline);
  }
  merged.origin_nanoseconds = zero;
  merged.metadata.emplace_back(kMergedRanksKey, shifts);
  return merged;
}

}  // namespace zenflow::sim
