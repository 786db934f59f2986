#include "sim/tune/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "sim/tune/parallel.h"

namespace zenflow::sim {
namespace {

/// A number of the profile.
struct Number {
  const char* path;
  /// False: this profile has none, or it is zero.
  bool (*scale)(HardwareProfile& profile, double factor);
};

template <class Quantity>
bool scale(Quantity& quantity, double factor) {
  quantity = factor * quantity;
  return quantity.value() > 0;
}
bool scale(double& number, double factor) {
  number *= factor;
  return true;
}
template <class Quantity>
bool scale(std::optional<Quantity>& quantity, double factor) {
  return quantity && scale(*quantity, factor);
}

using Profile = HardwareProfile;

constexpr std::array<Number, 24> kNumbers = {{
    {"gpu.gemm_efficiency", [](Profile& p, double f) { return scale(p.gpu.gemm_efficiency, f); }},
    {"gpu.gemm_half_size", [](Profile& p, double f) { return scale(p.gpu.gemm_half_size, f); }},
    {"gpu.attention_efficiency",
     [](Profile& p, double f) { return scale(p.gpu.attention_efficiency, f); }},
    {"gpu.elementwise_efficiency",
     [](Profile& p, double f) { return scale(p.gpu.elementwise_efficiency, f); }},
    {"gpu.streaming_efficiency",
     [](Profile& p, double f) { return scale(p.gpu.streaming_efficiency, f); }},
    {"gpu.column_efficiency",
     [](Profile& p, double f) { return scale(p.gpu.column_efficiency, f); }},
    {"gpu.kernel_launch", [](Profile& p, double f) { return scale(p.gpu.kernel_launch, f); }},
    {"host.dram_bandwidth", [](Profile& p, double f) { return scale(p.host.dram_bandwidth, f); }},
    {"host.core_bandwidth", [](Profile& p, double f) { return scale(p.host.core_bandwidth, f); }},
    {"host.adam_bandwidth", [](Profile& p, double f) { return scale(p.host.adam_bandwidth, f); }},
    {"host.worker_adam_bandwidth",
     [](Profile& p, double f) { return scale(p.host.worker_adam_bandwidth, f); }},
    {"host.adam_half_cores", [](Profile& p, double f) { return scale(p.host.adam_half_cores, f); }},
    {"host.elementwise_bandwidth",
     [](Profile& p, double f) { return scale(p.host.elementwise_bandwidth, f); }},
    {"host.unbound_efficiency",
     [](Profile& p, double f) {
       if (p.host.unbound_efficiency == 1) return false;
       p.host.unbound_efficiency = std::min(1.0, f * p.host.unbound_efficiency);
       return true;
     }},
    {"host.step_gap", [](Profile& p, double f) { return scale(p.host.step_gap, f); }},
    {"host_link.h2d",
     [](Profile& p, double f) {
       for (HostSwitch& one : p.host_link.switches) scale(one.path.h2d, f);
       return scale(p.host_link.pinned.h2d, f);
     }},
    {"host_link.d2h",
     [](Profile& p, double f) {
       for (HostSwitch& one : p.host_link.switches) scale(one.path.d2h, f);
       return scale(p.host_link.pinned.d2h, f);
     }},
    {"host_link.pageable_h2d",
     [](Profile& p, double f) { return scale(p.host_link.pageable_h2d, f); }},
    {"host_link.pageable_d2h",
     [](Profile& p, double f) { return scale(p.host_link.pageable_d2h, f); }},
    {"host_link.latency", [](Profile& p, double f) { return scale(p.host_link.latency, f); }},
    {"gpu_link.bandwidth",
     [](Profile& p, double f) { return p.gpu_link && scale(p.gpu_link->bandwidth, f); }},
    {"gpu_link.latency",
     [](Profile& p, double f) { return p.gpu_link && scale(p.gpu_link->latency, f); }},
    {"nvme.read", [](Profile& p, double f) { return p.nvme && scale(p.nvme->read, f); }},
    {"nvme.write", [](Profile& p, double f) { return p.nvme && scale(p.nvme->write, f); }},
}};

/// Whether the setting's step can depend on it: without offloading nothing of the host's is used
/// but the thread that enqueues, and NVMe only from there; one GPU has no link to others.
bool matters(const Number& number, const Setting& setting, const Job& job) {
  const std::string_view path = number.path;
  if (path == "host.step_gap") return true;
  if (path.starts_with("gpu_link")) return setting.whole(Knob::kGpus) * job.scenario.nodes > 1;
  if (path.starts_with("nvme")) return setting.placement() == Placement::kNvme;
  return !path.starts_with("host") || setting.placement() != Placement::kGpu;
}

/// Those that the profile has.
std::vector<Number> numbers_of(const HardwareProfile& profile) {
  std::vector<Number> numbers;
  for (const Number& one : kNumbers) {
    HardwareProfile copy = profile;
    if (one.scale(copy, 1)) numbers.push_back(one);
  }
  return numbers;
}

/// Chance that a normal variable of this mean and deviation is below zero.
double chance_below_zero(double mean, double deviation) {
  if (deviation == 0) return mean < 0 ? 1 : 0;
  return 0.5 * std::erfc(mean / deviation / std::sqrt(2.0));
}

/// Costs of some settings with each number lower and higher by its error.
struct Costs {
  std::vector<double> lower;
  std::vector<double> higher;
};

}  // namespace

std::vector<std::string> uncertain_numbers() {
  std::vector<std::string> paths;
  for (const Number& one : kNumbers) paths.emplace_back(one.path);
  return paths;
}

std::vector<KnobEffect> knob_effects(Candidates& candidates, const Setting& chosen,
                                     const SearchOptions& options) {
  std::vector<KnobEffect> effects;
  std::vector<std::pair<KnobValue*, Setting>> work;
  for (const KnobInfo& one : knobs()) {
    const std::vector<double>& values = candidates.request().space.values(one.knob);
    if (values.size() < 2 || (one.of_zenflow && !chosen.zenflow())) continue;
    KnobEffect& effect = effects.emplace_back(KnobEffect{one.knob, {}});
    for (const double value : values) effect.values.push_back({value, "", std::nullopt});
  }
  for (KnobEffect& effect : effects) {
    for (KnobValue& value : effect.values) {
      Setting setting = chosen;
      setting.set(effect.knob, value.value);
      value.refusal = candidates.refusal_of_rest(setting);
      if (value.refusal.empty()) value.refusal = candidates.refusal(setting);
      if (value.refusal.empty()) work.emplace_back(&value, candidates.canonical(setting));
    }
  }
  in_parallel(work.size(), options.threads, [&](std::size_t i) {
    work[i].first->evaluation = candidates.evaluate(work[i].second);
  });
  return effects;
}

NumberEffects number_effects(const Candidates& candidates, const SearchResult& result,
                             const Uncertainty& uncertainty, const SearchOptions& options) {
  NumberEffects effects;
  if (!result.chosen) return effects;
  std::vector<std::size_t> which = {*result.chosen};
  for (const std::size_t one : result.top) {
    if (one != *result.chosen) which.push_back(one);
  }
  const Job& job = candidates.request().job;
  const HardwareProfile& base = job.scenario.hardware;
  const std::vector<Number> numbers = numbers_of(base);
  // Last, where it runs, the user's own setting; that by time.
  const std::size_t columns = which.size() + (result.own ? 1 : 0);
  const auto setting_at = [&](std::size_t i) {
    return i == which.size() ? setting_of(job) : result.simulated[which[i]].setting;
  };
  const auto cost = [&](std::size_t i) {
    if (i == which.size()) return result.own->step_time;
    const Simulated& one = result.simulated[which[i]];
    return candidates.cost(one.setting, one.evaluation.step_time);
  };
  std::vector<Costs> costs(numbers.size(),
                           {std::vector<double>(columns), std::vector<double>(columns)});
  std::vector<double> errors;
  for (const Number& one : numbers) {
    const auto known = uncertainty.relative.find(one.path);
    const bool measured = known != uncertainty.relative.end();
    errors.push_back(measured ? known->second : uncertainty.other);
    effects.numbers.push_back({one.path, errors.back(), measured, 0});
  }
  in_parallel(numbers.size() * columns * 2, options.threads, [&](std::size_t task) {
    const std::size_t number = task / 2 / columns;
    const std::size_t i = task / 2 % columns;
    const bool higher = task % 2 == 1;
    double& target = (higher ? costs[number].higher : costs[number].lower)[i];
    const Setting setting = setting_at(i);
    target = cost(i);
    if (!matters(numbers[number], setting, job)) return;
    HardwareProfile changed = base;
    numbers[number].scale(changed, higher ? 1 + errors[number] : 1 / (1 + errors[number]));
    target = i == which.size()
                 ? candidates.evaluate_own(&changed).step_time
                 : candidates.cost(setting, candidates.evaluate(setting, &changed).step_time);
  });
  const double chosen = cost(0);
  // What one standard error of the number does to the cost.
  const auto effect = [&](std::size_t number, std::size_t i) {
    return (costs[number].higher[i] - costs[number].lower[i]) / 2 / chosen;
  };
  double variance = 0;
  double of_gain = 0;
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    if (errors[n] > 0) effects.numbers[n].elasticity = effect(n, 0) / std::log1p(errors[n]);
    variance += effect(n, 0) * effect(n, 0);
    if (!result.own) continue;
    const std::size_t own = which.size();
    const double change =
        (costs[n].higher[own] - costs[n].lower[own]) / 2 / result.own->step_time - effect(n, 0);
    of_gain += change * change;
  }
  effects.error = std::sqrt(variance);
  effects.gain_error = std::sqrt(of_gain);
  for (std::size_t i = 1; i < which.size(); ++i) {
    RunnerUp one{which[i], (cost(i) - chosen) / chosen, 0, 0};
    double of_difference = 0;
    for (std::size_t n = 0; n < numbers.size(); ++n) {
      const double both = effect(n, i) - effect(n, 0);
      of_difference += both * both;
    }
    one.error = std::sqrt(of_difference);
    one.chance = chance_below_zero(one.difference, one.error);
    effects.runners_up.push_back(one);
  }
  std::stable_sort(effects.numbers.begin(), effects.numbers.end(),
                   [](const NumberEffect& a, const NumberEffect& b) {
                     return std::abs(a.elasticity) * a.relative_error >
                            std::abs(b.elasticity) * b.relative_error;
                   });
  return effects;
}

}  // namespace zenflow::sim
