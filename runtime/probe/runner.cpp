#include "runtime/probe/runner.h"

#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::runtime {
namespace {

double checked_sample(const Experiment& experiment, const RunEvents& events) {
  if (events.stop && events.stop()) throw Error(ErrorKind::kRuntime, "stopped");
  const double value = experiment.sample();
  if (!std::isfinite(value) || value <= 0) {
    throw Error(ErrorKind::kRuntime, fmt::format("{}: measured {} {}, which cannot be",
                                                 experiment.id, value, experiment.unit));
  }
  return value;
}

void repeat(const Experiment& experiment, const RunSettings& settings, double seconds,
            const RunEvents& events, std::vector<double>& samples) {
  static_cast<void>(checked_sample(experiment, events));  // pages, caches and clocks
  const double begin = events.now();
  for (std::size_t i = 0; i < settings.most_repetitions; ++i) {
    if (i >= settings.least_repetitions && events.now() - begin >= seconds) break;
    samples.push_back(checked_sample(experiment, events));
  }
}

}  // namespace

std::vector<Figure> run_experiments(const ExperimentGroups& groups, const RunSettings& settings,
                                    const RunEvents& events) {
  std::vector<std::vector<Experiment>> lists;
  std::size_t all = 0;
  for (const auto& group : groups) {
    lists.push_back(group->experiments());
    all += lists.back().size();
  }
  const double seconds = settings.seconds / static_cast<double>(all * settings.rounds);
  std::vector<std::vector<double>> samples(all);
  std::size_t done = 0;
  for (std::size_t round = 0; round < settings.rounds; ++round) {
    std::size_t index = 0;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      groups[g]->prepare();
      for (const Experiment& experiment : lists[g]) {
        repeat(experiment, settings, seconds, events, samples[index++]);
        if (events.progress) events.progress(++done, all * settings.rounds);
      }
      groups[g]->release();
    }
  }
  std::vector<Figure> figures;
  for (const auto& list : lists) {
    for (const Experiment& e : list) {
      figures.push_back({e.id, e.unit, e.what, spread_of(std::move(samples[figures.size()]))});
    }
  }
  return figures;
}

}  // namespace zenflow::runtime
