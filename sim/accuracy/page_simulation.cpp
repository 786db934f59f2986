#include "sim/accuracy/page_simulation.h"

#include <fmt/format.h>

#include "sim/base/error.h"

namespace zenflow::sim {
namespace {

double in_unit(double picoseconds, const std::string& unit) {
  constexpr double kSecond = 1e12;
  constexpr double kMillisecond = 1e9;
  return picoseconds / (unit == "ms" ? kMillisecond : kSecond);
}

double cause(const SimulationResult& result, WaitCause one) {
  return result.stall_by_cause[static_cast<std::size_t>(one)];
}

double step_time(const SimulationResult& result, const PageCase& simulated) {
  if (!simulated.step) return result.step_time;
  if (*simulated.step >= result.step_times.size()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}, {}: step {}: a window has {} steps", simulated.scenario,
                            simulated.schedule, *simulated.step, result.step_times.size()));
  }
  return result.step_times[*simulated.step];
}

}  // namespace

const SimulationResult& PageSimulation::result(const PageCase& simulated,
                                               const std::string& schedule) {
  std::string key = simulated.scenario + "\n" + schedule + "\n" + simulated.profile.value_or("");
  for (const Override& one : simulated.set) key += "\n" + one.path + "=" + one.value;
  const auto known = results_.find(key);
  if (known != results_.end()) return known->second;
  LoadOptions options;
  options.profile_directories = {profiles_};
  options.profile = simulated.profile;
  options.overrides = simulated.set;
  const Job job = make_job(load_scenario(scenarios_ / (simulated.scenario + ".yaml"), options));
  return results_.emplace(key, simulate_schedule(job, find_schedule(schedule))).first->second;
}

double PageSimulation::value(const PageCase& simulated, PageMetric metric,
                             const std::string& unit) {
  const SimulationResult& one = result(simulated, simulated.schedule);
  switch (metric) {
    case PageMetric::kStep:
      return in_unit(step_time(one, simulated), unit);
    case PageMetric::kGpu:
      return in_unit(one.compute, unit);
    case PageMetric::kCpuUpdate:
      return in_unit(cause(one, WaitCause::kCpuUpdate), unit);
    case PageMetric::kStall:
      return in_unit(one.stall, unit);
    case PageMetric::kIo:
      return in_unit(cause(one, WaitCause::kD2H) + cause(one, WaitCause::kH2D) +
                         cause(one, WaitCause::kCollective),
                     unit);
    case PageMetric::kModelSizes:
      return one.model_sizes;
    case PageMetric::kSpeedup:
      return result(simulated, *simulated.than).step_time / one.step_time;
    case PageMetric::kStallRemoved:
      return 100 * (1 - cause(one, WaitCause::kCpuUpdate) /
                            cause(result(simulated, *simulated.than), WaitCause::kCpuUpdate));
  }
  return 0;
}

std::string PageSimulation::constant(const std::string& profile, const std::string& path) const {
  const std::filesystem::path file = profiles_ / (profile + ".yaml");
  const Node root = load_document(file);
  const Node* node = &root;
  for (std::size_t begin = 0; node != nullptr && begin <= path.size();) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    node = node->find(path.substr(begin, dot - begin));
    begin = dot + 1;
  }
  if (node != nullptr && node->is_map()) node = node->find("value");
  if (node == nullptr || !node->is_scalar()) {
    throw Error(ErrorKind::kInput, fmt::format("{}: no number at {}", file.generic_string(), path));
  }
  return node->scalar;
}

double relative_error(double predicted, double published) {
  return predicted / published - 1;
}

}  // namespace zenflow::sim
