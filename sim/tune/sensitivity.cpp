#include "sim/tune/sensitivity.h"

#include <algorithm>
#include <cmath>

#include "sim/tune/parallel.h"

namespace zenflow::sim {
namespace {

/// A number of the profile; null if this one has none.
struct Number {
  const char* path;
  void (*scale)(HardwareProfile& profile, double factor);
};

template <class Quantity>
void scale(Quantity& quantity, double factor) {
  quantity = factor * quantity;
}

constexpr std::array<Number, 17> kNumbers = {{
    {"gpu.gemm_efficiency", [](HardwareProfile& p, double f) { p.gpu.gemm_efficiency *= f; }},
    {"gpu.attention_efficiency",
     [](HardwareProfile& p, double f) { p.gpu.attention_efficiency *= f; }},
    {"gpu.elementwise_efficiency",
     [](HardwareProfile& p, double f) { p.gpu.elementwise_efficiency *= f; }},
    {"gpu.streaming_efficiency",
     [](HardwareProfile& p, double f) { p.gpu.streaming_efficiency *= f; }},
    {"gpu.kernel_launch", [](HardwareProfile& p, double f) { scale(p.gpu.kernel_launch, f); }},
    {"host.dram_bandwidth", [](HardwareProfile& p, double f) { scale(p.host.dram_bandwidth, f); }},
    {"host.core_bandwidth", [](HardwareProfile& p, double f) { scale(p.host.core_bandwidth, f); }},
    {"host.adam_bandwidth", [](HardwareProfile& p, double f) { scale(p.host.adam_bandwidth, f); }},
    {"host.worker_adam_bandwidth",
     [](HardwareProfile& p, double f) {
       if (p.host.worker_adam_bandwidth) scale(*p.host.worker_adam_bandwidth, f);
     }},
    {"host.adam_half_cores", [](HardwareProfile& p, double f) { p.host.adam_half_cores *= f; }},
    {"host.elementwise_bandwidth",
     [](HardwareProfile& p, double f) { scale(p.host.elementwise_bandwidth, f); }},
    {"host.unbound_efficiency",
     [](HardwareProfile& p, double f) {
       if (p.host.unbound_efficiency < 1) {
         p.host.unbound_efficiency = std::min(1.0, f * p.host.unbound_efficiency);
       }
     }},
    {"host_link.h2d",
     [](HardwareProfile& p, double f) {
       scale(p.host_link.pinned.h2d, f);
       for (HostSwitch& one : p.host_link.switches) scale(one.path.h2d, f);
     }},
    {"host_link.d2h",
     [](HardwareProfile& p, double f) {
       scale(p.host_link.pinned.d2h, f);
       for (HostSwitch& one : p.host_link.switches) scale(one.path.d2h, f);
     }},
    {"host_link.pageable_h2d",
     [](HardwareProfile& p, double f) { scale(p.host_link.pageable_h2d, f); }},
    {"host_link.pageable_d2h",
     [](HardwareProfile& p, double f) { scale(p.host_link.pageable_d2h, f); }},
    {"gpu_link.bandwidth",
     [](HardwareProfile& p, double f) {
       if (p.gpu_link) scale(p.gpu_link->bandwidth, f);
     }},
}};

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
      if (value.refusal.empty()) work.emplace_back(&value, setting);
    }
  }
  in_parallel(work.size(), options.threads, [&](std::size_t i) {
    work[i].first->evaluation = candidates.evaluate(candidates.canonical(work[i].second));
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
  const HardwareProfile& base = candidates.request().job.scenario.hardware;
  // Last, where it runs, the user's own setting; that by time.
  const std::size_t columns = which.size() + (result.own ? 1 : 0);
  std::vector<Costs> costs(kNumbers.size(),
                           {std::vector<double>(columns), std::vector<double>(columns)});
  std::vector<double> errors;
  for (const Number& one : kNumbers) {
    const auto known = uncertainty.relative.find(one.path);
    const bool measured = known != uncertainty.relative.end();
    errors.push_back(measured ? known->second : uncertainty.other);
    effects.numbers.push_back({one.path, errors.back(), measured, 0});
  }
  in_parallel(kNumbers.size() * columns * 2, options.threads, [&](std::size_t task) {
    const std::size_t number = task / 2 / columns;
    const std::size_t setting = task / 2 % columns;
    const bool higher = task % 2 == 1;
    HardwareProfile changed = base;
    kNumbers[number].scale(changed, higher ? 1 + errors[number] : 1 / (1 + errors[number]));
    std::vector<double>& target = higher ? costs[number].higher : costs[number].lower;
    if (setting == which.size()) {
      target[setting] = candidates.evaluate_own(&changed).step_time;
      return;
    }
    const Simulated& one = result.simulated[which[setting]];
    target[setting] =
        candidates.cost(one.setting, candidates.evaluate(one.setting, &changed).step_time);
  });
  const auto cost = [&](std::size_t i) {
    const Simulated& one = result.simulated[which[i]];
    return candidates.cost(one.setting, one.evaluation.step_time);
  };
  const double chosen = cost(0);
  // What one standard error of the number does to the cost.
  const auto effect = [&](std::size_t number, std::size_t i) {
    return (costs[number].higher[i] - costs[number].lower[i]) / 2 / chosen;
  };
  double variance = 0;
  double of_gain = 0;
  for (std::size_t n = 0; n < kNumbers.size(); ++n) {
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
    for (std::size_t n = 0; n < kNumbers.size(); ++n) {
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
