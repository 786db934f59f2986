#include "sim/calibrate/rank_collectives.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <span>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/cost/transfer_cost.h"
#include "sim/trace/merge_ranks.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// The ranks of one run.
using Ranks = std::vector<const LiveRecording*>;

RecordedRun without_rank(const LiveRecording& recording) {
  RecordedRun run = recorded_run(*recording.timeline).value_or(RecordedRun{});
  run.among = {.run = run.among.run, .ranks = run.among.ranks};
  return run;
}

/// In the order in which they come.
std::vector<Ranks> runs_of(const std::vector<LiveRecording>& recordings) {
  std::vector<Ranks> runs;
  for (const LiveRecording& one : recordings) {
    if (one.place.ranks == 1 || one.collectives != nullptr) continue;
    const auto belongs = [&one](const Ranks& ranks) {
      return without_rank(*ranks.front()) == without_rank(one) &&
             std::none_of(ranks.begin(), ranks.end(), [&one](const LiveRecording* other) {
               return other->place.rank == one.place.rank;
             });
    };
    const auto run = std::find_if(runs.begin(), runs.end(), belongs);
    (run != runs.end() ? *run : runs.emplace_back()).push_back(&one);
  }
  for (const Ranks& ranks : runs) {
    const auto wanted = static_cast<std::size_t>(ranks.front()->place.ranks);
    if (ranks.size() == wanted) continue;
    throw Error(ErrorKind::kInput,
                fmt::format("{}: the traces of {} of its {} ranks were given: what a collective "
                            "takes shows in all of them together",
                            ranks.front()->file, ranks.size(), wanted));
  }
  return runs;
}

/// Embedding first, or head first.
std::vector<LiveLayer> groups_of(const Job& job, bool head_first) {
  std::vector<LiveLayer> groups = live_layers(job.scenario.model, 0);
  if (head_first) std::reverse(groups.begin(), groups.end());
  return groups;
}

/// Start and end in seconds, on the clock of the run's first recording.
struct Stay {
  double start;
  double end;
};
/// By step, in order.
using Stays = std::map<std::int64_t, std::vector<Stay>>;

/// The step in whose time the span begins; -1: in none's, as a validation between two steps.
std::int64_t step_of(const Timeline& timeline, const TimelineSpan& span) {
  const auto next = std::upper_bound(
      timeline.steps.begin(), timeline.steps.end(), span.start,
      [](Picoseconds start, const TimelineStep& step) { return start < step.start; });
  if (next == timeline.steps.begin()) return -1;
  const TimelineStep& step = *std::prev(next);
  return span.start < step.end ? step.number : -1;
}

std::vector<Stays> stays_of(const Ranks& ranks, Operation operation) {
  std::vector<Stays> all;
  for (const LiveRecording* rank : ranks) {
    const double later = to_seconds(later_than({rank->file, *rank->timeline},
                                               {ranks.front()->file, *ranks.front()->timeline}))
                             .value();
    Stays& stays = all.emplace_back();
    for (const TimelineSpan& span : rank->timeline->spans) {
      if (span.operation != operation) continue;
      const std::int64_t step = step_of(*rank->timeline, span);
      if (step < rank->first_step) continue;
      stays[step].push_back(
          {to_seconds(span.start).value() + later, to_seconds(span.end).value() + later});
    }
  }
  return all;
}

/// Calls visit(i, stays) for the i-th of `count` in each step, with every rank's.
template <class Visit>
void each_of_all_ranks(const Ranks& ranks, Operation operation, std::size_t count,
                       const Visit& visit) {
  const std::vector<Stays> all = stays_of(ranks, operation);
  for (const auto& [step, first] : all.front()) {
    std::vector<const std::vector<Stay>*> of_step;
    for (const Stays& stays : all) {
      const auto found = stays.find(step);
      if (found == stays.end() || found->second.size() != count) {
        throw Error(ErrorKind::kInput,
                    fmt::format("{}: step {} has not {} spans of \"{}\" on every rank",
                                ranks.front()->file, step, count, recorded_name(operation)));
      }
      of_step.push_back(&found->second);
    }
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<Stay> stays;
      for (const auto* of_rank : of_step) stays.push_back((*of_rank)[i]);
      visit(i, stays);
    }
  }
}

void add_samples(const Ranks& ranks, Operation operation, std::vector<CollectiveSample>& samples) {
  const Job& job = *ranks.front()->job;
  const auto width = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  const std::vector<LiveLayer> groups = groups_of(job, operation == Operation::kReduceScatter);
  each_of_all_ranks(ranks, operation, groups.size(),
                    [&](std::size_t i, std::span<const Stay> stays) {
                      double came = stays.front().start;
                      double left = stays.front().end;
                      for (const Stay& one : stays) {
                        came = std::max(came, one.start);
                        left = std::max(left, one.end);
                      }
                      samples.push_back({operation, width * groups[i].elements(),
                                         static_cast<std::int64_t>(groups[i].tensors.size()),
                                         ranks.front()->place.ranks, left - came});
                    });
}

/// Of one kind of pass: seconds by which the slowest rank is later than the mean, and of all
/// passes.
struct Lateness {
  double late = 0;
  double passes = 0;
};

Lateness lateness_of(const Ranks& ranks, Operation operation) {
  const auto passes =
      static_cast<std::size_t>(ranks.front()->job->scenario.model.layers() + 2) *
      static_cast<std::size_t>(ranks.front()->job->deepspeed.gradient_accumulation_steps);
  // What a rank always takes longer is not jitter.
  std::vector<std::vector<double>> usual(passes, std::vector<double>(ranks.size(), 0));
  double steps = 0;
  each_of_all_ranks(ranks, operation, passes, [&](std::size_t i, std::span<const Stay> stays) {
    steps += i == 0 ? 1 : 0;
    for (std::size_t r = 0; r < stays.size(); ++r) usual[i][r] += stays[r].end - stays[r].start;
  });
  Lateness found;
  each_of_all_ranks(ranks, operation, passes, [&](std::size_t i, std::span<const Stay> stays) {
    double largest = -std::numeric_limits<double>::infinity();
    double sum = 0;
    for (std::size_t r = 0; r < stays.size(); ++r) {
      const double seconds = stays[r].end - stays[r].start;
      const double deviation = seconds - usual[i][r] / steps;
      largest = std::max(largest, deviation);
      sum += deviation;
      found.passes += seconds / static_cast<double>(stays.size());
    }
    found.late += largest - sum / static_cast<double>(stays.size());
  });
  return found;
}

}  // namespace

std::vector<CollectiveSample> collective_samples(const std::vector<LiveRecording>& recordings) {
  std::vector<CollectiveSample> samples;
  for (const LiveRecording& one : recordings) {
    if (one.collectives == nullptr) continue;
    samples.insert(samples.end(), one.collectives->begin(), one.collectives->end());
  }
  for (const Ranks& ranks : runs_of(recordings)) {
    add_samples(ranks, Operation::kReduceScatter, samples);
    add_samples(ranks, Operation::kAllGather, samples);
  }
  return samples;
}

std::optional<double> rank_jitter(const std::vector<LiveRecording>& recordings) {
  double shares = 0;
  double passes = 0;
  for (const Ranks& ranks : runs_of(recordings)) {
    const double late_by = expected_largest(ranks.front()->place.ranks);
    for (const Operation operation : {Operation::kForward, Operation::kBackward}) {
      const Lateness found = lateness_of(ranks, operation);
      shares += found.late / late_by;
      passes += found.passes;
    }
  }
  return passes > 0 ? std::optional(shares / passes) : std::nullopt;
}

}  // namespace zenflow::sim
