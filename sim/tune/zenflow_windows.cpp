#include "sim/tune/zenflow_windows.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/schedule/deepspeed_step.h"

namespace zenflow::sim {
namespace {

/// Windows of a period, at most.
constexpr std::int64_t kMostWindows = 4096;

/// Steps from one selection to the next; 0: none past the first.
std::int64_t selection_interval(const Job& job) {
  const ZenFlowSettings& zenflow = *job.deepspeed.zenflow;
  if (job.target != LaunchTarget::kDeepSpeed || zenflow.select_strategy != "step") return 0;
  return zenflow.select_interval.value_or(0);
}

/// As deepspeed_zenflow_windows has them, over one period that begins with a selection.
std::vector<WindowKind> cut_windows(std::int64_t window, std::int64_t every, std::int64_t warm_up) {
  const std::int64_t period = std::lcm(window, every);
  std::map<std::pair<std::int64_t, bool>, std::int64_t> counts;
  for (std::int64_t begin = 0; begin < period;) {
    // The boundaries before warm-up are at the same places as those after it.
    const std::int64_t past = ((begin - warm_up) % window + window) % window;
    const std::int64_t to_selection = every - begin % every;
    const std::int64_t steps = std::min(window - past, to_selection);
    ++counts[{steps, begin % every == 0}];
    begin += steps;
  }
  std::vector<WindowKind> kinds;
  for (const auto& [kind, count] : counts) {
    const double share = static_cast<double>(count) / static_cast<double>(period);
    kinds.push_back({kind.first, kind.second, share});
  }
  return kinds;
}

}  // namespace

std::vector<WindowKind> long_run_windows(const Job& job) {
  const std::int64_t window = zenflow_window(job);
  const std::int64_t every = selection_interval(job);
  const std::int64_t warm_up = job.deepspeed.zenflow->full_warm_up_rounds;
  const auto s = static_cast<double>(window);
  if (every == 0) return {{window, false, 1 / s}};
  if (every % window == 0 && warm_up % window == 0) {
    const double selecting = 1 / static_cast<double>(every);
    if (every == window) return {{window, true, selecting}};
    return {{window, false, 1 / s - selecting}, {window, true, selecting}};
  }
  const std::int64_t period = std::lcm(window, every);
  if (period / window + period / every > kMostWindows) return {{window, false, 1 / s}};
  return cut_windows(window, every, warm_up);
}

}  // namespace zenflow::sim
