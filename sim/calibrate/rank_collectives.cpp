#include "sim/calibrate/rank_collectives.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/trace/recorded_run.h"

namespace zenflow::sim {
namespace {

/// The ranks of one run.
using Ranks = std::vector<const LiveRecording*>;

RecordedRun without_rank(const LiveRecording& recording) {
  RecordedRun run = recorded_run(*recording.timeline).value_or(RecordedRun{});
  run.among = {.ranks = run.among.ranks};
  return run;
}

/// In the order in which they come. Two runs may have the same settings.
std::vector<Ranks> runs_of(const std::vector<LiveRecording>& recordings) {
  std::vector<Ranks> runs;
  for (const LiveRecording& one : recordings) {
    if (one.place.ranks == 1) continue;
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
                            ranks.front()->timeline->name, ranks.size(), wanted));
  }
  return runs;
}

/// Bytes of the model's tensors, embedding first, or head first group by group.
std::vector<double> tensor_bytes(const Job& job, bool head_first) {
  const double width = static_cast<double>(bytes_per_element(job.scenario.training.dtype));
  std::vector<LiveLayer> layers = live_layers(job.scenario.model, 0);
  if (head_first) std::reverse(layers.begin(), layers.end());
  std::vector<double> bytes;
  for (const LiveLayer& layer : layers) {
    for (const LiveTensor& tensor : layer.tensors) {
      bytes.push_back(width * static_cast<double>(tensor.elements()));
    }
  }
  return bytes;
}

/// By step, in order.
std::map<std::int64_t, std::vector<double>> lengths_of(const LiveRecording& recording,
                                                       Operation operation) {
  std::map<std::int64_t, std::vector<double>> lengths;
  for (const TimelineSpan& span : recording.timeline->spans) {
    if (span.operation != operation) continue;
    const std::int64_t step = recording.timeline->extra_of(span).step;
    if (step >= recording.first_step) lengths[step].push_back(seconds_of(span));
  }
  return lengths;
}

void add_samples(const Ranks& ranks, Operation operation, std::vector<CollectiveSample>& samples) {
  const std::vector<double> bytes =
      tensor_bytes(*ranks.front()->job, operation == Operation::kReduceScatter);
  std::vector<std::map<std::int64_t, std::vector<double>>> of_rank;
  for (const LiveRecording* rank : ranks) of_rank.push_back(lengths_of(*rank, operation));
  for (const auto& [step, first] : of_rank.front()) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      double shortest = std::numeric_limits<double>::infinity();
      for (auto& lengths : of_rank) {
        const auto found = lengths.find(step);
        if (found == lengths.end() || found->second.size() != bytes.size()) {
          throw Error(ErrorKind::kInput,
                      fmt::format("{}: step {} has not {} spans of \"{}\", one for each tensor of "
                                  "the model, on every rank",
                                  ranks.front()->timeline->name, step, bytes.size(),
                                  recorded_name(operation)));
        }
        shortest = std::min(shortest, found->second[i]);
      }
      samples.push_back({operation, bytes[i], ranks.front()->place.ranks, shortest});
    }
  }
}

}  // namespace

std::vector<CollectiveSample> collective_samples(const std::vector<LiveRecording>& recordings) {
  std::vector<CollectiveSample> samples;
  for (const Ranks& ranks : runs_of(recordings)) {
    add_samples(ranks, Operation::kReduceScatter, samples);
    add_samples(ranks, Operation::kAllGather, samples);
  }
  return samples;
}

}  // namespace zenflow::sim
