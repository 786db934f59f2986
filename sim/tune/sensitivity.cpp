#include "sim/tune/sensitivity.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "sim/base/thread_pool.h"
#include "sim/config/switch_groups.h"

namespace zenflow::sim {
namespace {

/// A number of the profile.
struct Number {
  std::string path;
  /// False: this profile has none, or it is zero.
  std::function<bool(HardwareProfile& profile, double factor)> scale;
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

/// Both directions together carry at least what one does.
bool scale(HostPath& path, BytesPerSecond HostPath::*rate, double factor) {
  if (!scale(path.*rate, factor)) return false;
  path.bidirectional = std::max({path.bidirectional, path.h2d, path.d2h});
  return true;
}

using Profile = HardwareProfile;

/// Those that a profile may have once.
std::vector<Number> single_numbers() {
  return {
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
      {"host.adam_half_cores",
       [](Profile& p, double f) { return scale(p.host.adam_half_cores, f); }},
      {"host.adam_launch", [](Profile& p, double f) { return scale(p.host.adam_launch, f); }},
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
       [](Profile& p, double f) { return scale(p.host_link.pinned, &HostPath::h2d, f); }},
      {"host_link.d2h",
       [](Profile& p, double f) { return scale(p.host_link.pinned, &HostPath::d2h, f); }},
      {"host_link.bidirectional",
       [](Profile& p, double f) { return scale(p.host_link.pinned, &HostPath::bidirectional, f); }},
      {"host_link.pageable_h2d",
       [](Profile& p, double f) { return scale(p.host_link.pageable_h2d, f); }},
      {"host_link.pageable_d2h",
       [](Profile& p, double f) { return scale(p.host_link.pageable_d2h, f); }},
      {"host_link.latency", [](Profile& p, double f) { return scale(p.host_link.latency, f); }},
      {"gpu_link.bandwidth",
       [](Profile& p, double f) { return p.gpu_link && scale(p.gpu_link->bandwidth, f); }},
      {"gpu_link.latency",
       [](Profile& p, double f) { return p.gpu_link && scale(p.gpu_link->latency, f); }},
      {"network.bandwidth",
       [](Profile& p, double f) { return p.network && scale(p.network->bandwidth, f); }},
      {"network.latency",
       [](Profile& p, double f) { return p.network && scale(p.network->latency, f); }},
      {"nvme.read", [](Profile& p, double f) { return p.nvme && scale(p.nvme->read, f); }},
      {"nvme.write", [](Profile& p, double f) { return p.nvme && scale(p.nvme->write, f); }},
      {"nvme.latency", [](Profile& p, double f) { return p.nvme && scale(p.nvme->latency, f); }},
  };
}

/// One number for all switches of equal capacity.
Number of_switches(const SwitchGroup& group, const char* name, BytesPerSecond HostPath::*rate) {
  return {group.path + name, [members = group.members, rate](Profile& profile, double factor) {
            return std::all_of(members.begin(), members.end(), [&](std::size_t member) {
              return scale(profile.host_link.switches[member].path, rate, factor);
            });
          }};
}

/// Whether or not this profile has them, but for its switches.
std::vector<Number> all_numbers(const HardwareProfile& profile) {
  std::vector<Number> numbers = single_numbers();
  for (const SwitchGroup& group : switch_groups(profile.host_link)) {
    numbers.push_back(of_switches(group, ".h2d", &HostPath::h2d));
    numbers.push_back(of_switches(group, ".d2h", &HostPath::d2h));
    numbers.push_back(of_switches(group, ".bidirectional", &HostPath::bidirectional));
  }
  return numbers;
}

/// Whether the family's schedules read it at all.
bool is_read(std::string_view path, Family family) {
  if (path == "host.step_gap" || path == "gpu.column_efficiency") return family == Family::kLive;
  if (path == "host.worker_adam_bandwidth" || path == "host.unbound_efficiency") {
    return family == Family::kDeepSpeed;
  }
  return true;
}

/// Whether the setting's step can depend on it: without offloading nothing of the host's is used
/// but the thread that enqueues, and NVMe only from there; one GPU has no link to others, nor one
/// node a network; published schedules copy from and to the one kind of memory that is configured.
bool matters(const Number& number, const Setting& setting, const TuneRequest& request) {
  const std::string_view path = number.path;
  if (!is_read(path, request.family)) return false;
  if (path == "host.step_gap") return true;
  if (path.starts_with("gpu_link")) {
    return setting.whole(Knob::kGpus) * request.job.scenario.nodes > 1;
  }
  if (path.starts_with("network")) return request.job.scenario.nodes > 1;
  if (path.starts_with("nvme")) return setting.placement() == Placement::kNvme;
  if (path.starts_with("host_link.pageable") && request.family == Family::kPublished &&
      setting.flag(Knob::kPinMemory)) {
    return false;
  }
  return !path.starts_with("host") || setting.placement() != Placement::kGpu;
}

/// Those that the profile has.
std::vector<Number> numbers_of(const HardwareProfile& profile) {
  std::vector<Number> numbers;
  for (Number& one : all_numbers(profile)) {
    HardwareProfile copy = profile;
    if (one.scale(copy, 1)) numbers.push_back(std::move(one));
  }
  return numbers;
}

/// Chance that a normal variable of this mean and deviation is below zero.
double chance_below_zero(double mean, double deviation) {
  if (deviation == 0) return mean < 0 ? 1 : 0;
  return 0.5 * std::erfc(mean / deviation / std::sqrt(2.0));
}

/// Costs of some settings with a number lower and higher by its error.
struct Costs {
  std::vector<double> lower;
  std::vector<double> higher;
};

/// The settings whose costs are held against each other: the chosen one, those of the top that are
/// of other kinds and, last, where it runs, the user's own; that by time.
class Compared {
 public:
  Compared(const Candidates& candidates, const SearchResult& result)
      : candidates_(candidates), result_(result), listed_({*result.chosen}) {
    const std::uint64_t kind = kind_of(result.simulated[*result.chosen].setting);
    for (const std::size_t one : result.top) {
      if (kind_of(result.simulated[one].setting) != kind) listed_.push_back(one);
    }
  }

  [[nodiscard]] std::size_t listed() const { return listed_.size(); }
  [[nodiscard]] std::size_t size() const { return listed_.size() + (result_.own ? 1 : 0); }
  /// Into result.simulated. Precondition: i < listed().
  [[nodiscard]] std::size_t at(std::size_t i) const { return listed_[i]; }
  [[nodiscard]] Setting setting(std::size_t i) const {
    return is_own(i) ? setting_of(candidates_.request().job)
                     : result_.simulated[listed_[i]].setting;
  }
  [[nodiscard]] double cost(std::size_t i) const {
    if (is_own(i)) return result_.own->step_time;
    const Simulated& one = result_.simulated[listed_[i]];
    return candidates_.cost(one.setting, one.evaluation.step_time);
  }
  /// On another machine.
  [[nodiscard]] double cost_on(std::size_t i, const HardwareProfile& hardware) const {
    if (is_own(i)) return candidates_.own_step_time_on(hardware);
    const Setting setting = this->setting(i);
    return candidates_.cost(setting, candidates_.step_time_on(hardware, setting));
  }

 private:
  [[nodiscard]] bool is_own(std::size_t i) const { return i == listed_.size(); }

  const Candidates& candidates_;
  const SearchResult& result_;
  std::vector<std::size_t> listed_;
};

/// The costs at each number's lower and higher value.
std::vector<Costs> costs_with_errors(const Compared& compared, const TuneRequest& request,
                                     const std::vector<Number>& numbers,
                                     const std::vector<NumberEffect>& effects, unsigned threads) {
  const std::size_t columns = compared.size();
  std::vector<Costs> costs(numbers.size(),
                           {std::vector<double>(columns), std::vector<double>(columns)});
  ThreadPool(threads).run(numbers.size() * columns * 2, [&](std::size_t task) {
    const std::size_t number = task / 2 / columns;
    const std::size_t i = task / 2 % columns;
    const bool higher = task % 2 == 1;
    double& target = (higher ? costs[number].higher : costs[number].lower)[i];
    target = compared.cost(i);
    if (!matters(numbers[number], compared.setting(i), request)) return;
    HardwareProfile changed = request.job.scenario.hardware;
    const double factor = 1 + effects[number].relative_error;
    numbers[number].scale(changed, higher ? factor : 1 / factor);
    target = compared.cost_on(i, changed);
  });
  return costs;
}

/// Elasticities, the errors of the prediction and of the gain, and what they mean for runners-up:
/// first order, errors independent.
void propagate(const Compared& compared, const std::vector<Costs>& costs, bool has_own,
               NumberEffects& effects) {
  const double chosen = compared.cost(0);
  // What one standard error of the number does to the cost, were that linear: the costs are of a
  // number larger and smaller by a factor of 1 + error, whose logarithm is less than the error.
  const auto effect = [&](std::size_t number, std::size_t i, double of) {
    const double error = effects.numbers[number].relative_error;
    const double linear = error > 0 ? error / std::log1p(error) : 1;
    return linear * (costs[number].higher[i] - costs[number].lower[i]) / 2 / of;
  };
  const std::size_t own = compared.listed();
  double variance = 0;
  double of_gain = 0;
  for (std::size_t n = 0; n < costs.size(); ++n) {
    NumberEffect& number = effects.numbers[n];
    const double of_chosen = effect(n, 0, chosen);
    if (number.relative_error > 0) number.elasticity = of_chosen / number.relative_error;
    variance += of_chosen * of_chosen;
    if (!has_own) continue;
    const double change = effect(n, own, compared.cost(own)) - of_chosen;
    of_gain += change * change;
  }
  effects.error = std::sqrt(variance);
  effects.gain_error = std::sqrt(of_gain);
  for (std::size_t i = 1; i < compared.listed(); ++i) {
    RunnerUp one{compared.at(i), (compared.cost(i) - chosen) / chosen, 0, 0};
    double of_difference = 0;
    for (std::size_t n = 0; n < costs.size(); ++n) {
      const double both = effect(n, i, chosen) - effect(n, 0, chosen);
      of_difference += both * both;
    }
    one.error = std::sqrt(of_difference);
    one.chance = chance_below_zero(one.difference, one.error);
    effects.runners_up.push_back(one);
  }
}

}  // namespace

std::vector<std::string> uncertain_numbers(const HardwareProfile& profile) {
  std::vector<std::string> paths;
  for (Number& one : all_numbers(profile)) paths.push_back(std::move(one.path));
  return paths;
}

const Node* find_number(const Node& profile, std::string_view path) {
  const Node* node = &profile;
  while (node != nullptr && !path.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    const std::string_view key = part.substr(0, part.find('['));
    node = node->is_map() ? node->find(key) : nullptr;
    if (node == nullptr || node->kind != Node::Kind::kSequence) continue;
    // The first of those that it stands for: "[2,3]"; without, of all.
    std::size_t item = 0;
    if (key.size() < part.size()) {
      std::from_chars(part.data() + key.size() + 1, part.data() + part.size(), item);
    }
    node = item < node->items.size() ? &node->items[item] : nullptr;
  }
  return node;
}

std::vector<KnobEffect> knob_effects(Candidates& candidates, const SearchResult& result,
                                     const SearchOptions& options) {
  if (!result.chosen) return {};
  const Setting& chosen = result.simulated[*result.chosen].setting;
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
      if (!value.refusal.empty()) continue;
      const Setting same = candidates.canonical(setting);
      const std::uint64_t index = candidates.request().space.index_of(same);
      const auto known = std::lower_bound(
          result.simulated.begin(), result.simulated.end(), index,
          [](const Simulated& one, std::uint64_t wanted) { return one.index < wanted; });
      if (known != result.simulated.end() && known->index == index) {
        value.evaluation = known->evaluation;
      } else {
        work.emplace_back(&value, same);
      }
    }
  }
  ThreadPool pool(std::min<std::size_t>(options.threads, work.size()));
  pool.run(work.size(),
           [&](std::size_t i) { work[i].first->evaluation = candidates.evaluate(work[i].second); });
  return effects;
}

NumberEffects number_effects(const Candidates& candidates, const SearchResult& result,
                             const Uncertainty& uncertainty, const SearchOptions& options) {
  NumberEffects effects;
  if (!result.chosen) return effects;
  const Job& job = candidates.request().job;
  const Compared compared(candidates, result);
  const std::vector<Number> numbers = numbers_of(job.scenario.hardware);
  for (const Number& one : numbers) {
    const auto known = uncertainty.relative.find(one.path);
    const bool measured = known != uncertainty.relative.end();
    effects.numbers.push_back(
        {one.path, measured ? known->second : uncertainty.other, measured, 0});
  }
  const std::vector<Costs> costs =
      costs_with_errors(compared, candidates.request(), numbers, effects.numbers, options.threads);
  propagate(compared, costs, result.own.has_value(), effects);
  std::stable_sort(effects.numbers.begin(), effects.numbers.end(),
                   [](const NumberEffect& a, const NumberEffect& b) {
                     return std::abs(a.elasticity) * a.relative_error >
                            std::abs(b.elasticity) * b.relative_error;
                   });
  return effects;
}

}  // namespace zenflow::sim
