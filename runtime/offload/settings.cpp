#include "runtime/offload/settings.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"

namespace zenflow::runtime {

namespace {

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(ErrorKind::kInput, message);
}

void check(const OffloadSettings& s) {
  require(s.gradient_accumulation_steps >= 1,
          fmt::format("gradient_accumulation_steps: expected at least 1, found {}",
                      s.gradient_accumulation_steps));
  require(s.topk_ratio >= 0 && s.topk_ratio <= 1,
          fmt::format("topk_ratio: expected a number from 0 to 1, found {}", s.topk_ratio));
  if (s.topk_range) {
    const TopkRange& range = *s.topk_range;
    require(!s.topk_is_global,
            "topk_range: expected topk_scope matrix: where columns of all matrices compete, "
            "topk_ratio stays");
    require(range.low > 0 && range.low <= range.high && range.high < 1,
            fmt::format("topk_range: expected two numbers above 0 and below 1, the smaller one "
                        "first, found {} and {}",
                        range.low, range.high));
    require(range.low >= kLeastTopkRatio,
            fmt::format("topk_range: expected at least {}, found {}", kLeastTopkRatio, range.low));
    require(range.has(s.topk_ratio),
            fmt::format("topk_ratio: expected a number from {} to {} (topk_range), found {}",
                        range.low, range.high, s.topk_ratio));
  }
  require(s.update_interval >= 1,
          fmt::format("update_interval: expected at least 1, found {}", s.update_interval));
  require(
      s.select_interval >= 0 && (s.interval_is_auto || s.select_interval % s.update_interval == 0),
      fmt::format("select_interval: expected a multiple of update_interval ({}), found {}: "
                  "columns change place between two windows",
                  s.update_interval, s.select_interval));
  require(s.full_warm_up_rounds >= 0,
          fmt::format("full_warm_up_rounds: expected at least 0, found {}", s.full_warm_up_rounds));
  require(s.gradient_clipping >= 0 && std::isfinite(s.gradient_clipping),
          fmt::format("gradient_clipping: expected 0 (none) or a positive number, found {}",
                      s.gradient_clipping));
  require(s.optimizer_threads >= 1,
          fmt::format("optimizer threads: expected at least 1, found {}", s.optimizer_threads));
  require(s.sum_threads >= 1,
          fmt::format("sum threads: expected at least 1, found {}", s.sum_threads));
  for (const int core : s.optimizer_cores) {
    require(core >= 0, fmt::format("optimizer cores: expected CPU numbers, found {}", core));
    require(std::ranges::count(s.optimizer_cores, core) == 1,
            fmt::format("optimizer cores: {} is there twice", core));
  }
  const std::int64_t staleness = s.update_interval - 1 + (s.overlap_step ? s.update_interval : 0);
  require(s.everything_on_device() || staleness <= s.max_staleness,
          fmt::format("update_interval: {} makes gradients up to {} steps old, max_staleness is {}",
                      s.update_interval, staleness, s.max_staleness));
  const kernels::AdamWSettings& a = s.adamw;
  require(
      a.learning_rate >= 0 && std::isfinite(a.learning_rate),
      fmt::format("learning rate: expected a finite number, 0 or more, found {}", a.learning_rate));
  require(a.beta1 >= 0 && a.beta1 < 1 && a.beta2 >= 0 && a.beta2 < 1,
          fmt::format("betas: expected from 0 to below 1, found {} and {}", a.beta1, a.beta2));
  require(a.epsilon > 0 && std::isfinite(a.epsilon),
          fmt::format("epsilon: expected a finite number above 0, found {}", a.epsilon));
  require(
      a.weight_decay >= 0 && std::isfinite(a.weight_decay),
      fmt::format("weight decay: expected a finite number, 0 or more, found {}", a.weight_decay));
}

}  // namespace

DeferredScaling deferred_scaling(std::string_view name) {
  const auto* const found = std::find(kDeferredScalings.begin(), kDeferredScalings.end(), name);
  require(found != kDeferredScalings.end(),
          fmt::format("deferred scaling: expected {}, found \"{}\"",
                      fmt::join(kDeferredScalings, ", "), name));
  return static_cast<DeferredScaling>(found - kDeferredScalings.begin());
}

CpuThreads share_cores(int cores, const OffloadSettings& settings) {
  constexpr double kSumBytes = 10;
  constexpr double kUpdateBytes = 30;
  if (!settings.keeps_sums() || settings.sums_on_device() || cores < 2) return {cores, 1};
  const double sums = kSumBytes * static_cast<double>(settings.update_interval);
  const int threads = static_cast<int>(std::lround(cores * sums / (sums + kUpdateBytes)));
  const int bounded = std::clamp(threads, 1, cores - 1);
  return {cores - bounded, bounded};
}

kernels::AdamWSettings with_decay(kernels::AdamWSettings adamw, bool decays) {
  if (!decays) adamw.weight_decay = 0;
  return adamw;
}

kernels::AdamWSettings scaled_adamw(const kernels::AdamWSettings& adamw, DeferredScaling scaling,
                                    std::int64_t steps) {
  if (scaling == DeferredScaling::kNone || steps == 1) return adamw;
  const auto s = static_cast<double>(steps);
  const double rate = scaling == DeferredScaling::kLinear          ? s
                      : scaling == DeferredScaling::kThreeQuarters ? std::pow(s, 0.75)
                                                                   : std::sqrt(s);
  const auto times = [](float value, double factor) {
    return static_cast<float>(static_cast<double>(value) * factor);
  };
  const auto power = [s](float beta) {
    return static_cast<float>(std::pow(static_cast<double>(beta), s));
  };
  return {.learning_rate = times(adamw.learning_rate, rate),
          .beta1 = power(adamw.beta1),
          .beta2 = power(adamw.beta2),
          .epsilon = adamw.epsilon,
          .weight_decay = times(adamw.weight_decay, s / rate)};
}

OffloadSettings settings_for(OffloadSchedule schedule, OffloadSettings settings) {
  settings.schedule = schedule;
  if (schedule != OffloadSchedule::kZenFlow) settings.topk_range.reset();
  static_cast<sim::OffloadSetup&>(settings) = sim::as_scheduled(settings);
  check(settings);
  return settings;
}

}  // namespace zenflow::runtime
