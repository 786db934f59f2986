#include "runtime/tune/choice.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "runtime/tune/candidates.h"

namespace zenflow::runtime {
namespace {

/// What the change costs comes in again, or is less than the slack, before the end.
bool pays_back(const Known& known, const TunePoint& point, double seconds) {
  const double here = known.visit.seconds;
  const double gain = std::max(here - seconds, known.settings.slack * here);
  // Columns change place at the end of the next window.
  const std::int64_t steps =
      known.steps_left - (point.topk_ratio == known.here.topk_ratio ? 0 : point.update_interval);
  return known.cost.of(known.here.topk_ratio, point.topk_ratio) <=
         gain * static_cast<double>(std::max<std::int64_t>(0, steps));
}

bool allowed(const Known& known, const TunePoint& point, double seconds) {
  if (point == known.here) return true;
  if (point.topk_ratio < known.here.topk_ratio &&
      (point.topk_ratio <= known.left.deferred_too_much ||
       !known.shares.allows(point.topk_ratio))) {
    return false;
  }
  return pays_back(known, point, seconds) &&
         point.update_interval <=
             staleness_limit(known.settings.max_staleness, known.settings.overlap_step) &&
         point.update_interval <= known.due.to_stay() &&
         (point.update_interval <= known.here.update_interval ||
          point.update_interval <= known.due.to_rise());
}

/// The share of the current step's time that the last profile does not explain, beyond noise.
double unexplained(const Known& known) {
  if (known.explained == 0) return 0;
  const double noise = beyond_noise(known.settings, known.times.noise(), known.visit.windows);
  return std::max(0.0, 1 - known.explained - noise);
}

/// A setting that may be chosen.
struct Candidate {
  TunePoint point;
  double seconds = 0;  ///< a step
  bool tried = false;
  double doubt = 0;  ///< of `seconds`, if it has been tried: a relative deviation
};

}  // namespace

void Visit::add(double step_seconds) {
  ++windows;
  seconds += (step_seconds - seconds) / static_cast<double>(windows);
}

double SelectionCost::of(double from, double to) const {
  // All selected columns leave and others come.
  return from == to ? 0 : factor * ((from + to) * carry_seconds + reorder_seconds);
}

void SelectionCost::learn(double seconds) {
  if (expected > 0) factor *= std::max(1.0, seconds / expected);
}

double estimate(const SettingTimes& times, const TunePoint& here, const Visit& visit,
                const TunePoint& point) {
  return visit.seconds * std::exp(times.compare(here, point).log_ratio);
}

double beyond_noise(const TuneSettings& settings, double noise, std::int64_t windows) {
  return std::max(settings.slack,
                  settings.confidence * noise / std::sqrt(static_cast<double>(windows)));
}

std::optional<Choice> choose(const Known& known) {
  const TuneSettings& settings = known.settings;
  const double here = known.visit.seconds;
  std::vector<Candidate> candidates;  // in the tuner's order
  double best = here;
  for (const auto& [point, predicted] : known.times.model()) {
    const SettingTimes::Ratio ratio = known.times.compare(known.here, point);
    const double seconds = here * std::exp(ratio.log_ratio);
    if (!allowed(known, point, seconds) || known.left.too_slow.contains(point)) continue;
    candidates.push_back({point, seconds, known.times.tried(point), ratio.deviation});
    best = std::min(best, seconds);
  }
  const double mark = best * (1 + settings.slack);
  const auto is_faster = [&](const Candidate& one) {
    // How well a setting's time is known is itself known once it has been tried. Before that it is
    // not, but a try costs a few windows once: the noise of what was measured here has to be less
    // than the gain in doubt.
    const double doubt =
        one.tried ? one.doubt : known.sigma / std::sqrt(static_cast<double>(known.visit.windows));
    const double margin = std::max(std::log1p(settings.least_gain), settings.confidence * doubt);
    return here > one.seconds * std::exp(margin);
  };
  // A less stale setting that is only predicted has to be fast enough even if the prediction is as
  // far off as the last one was, and if what the profile does not explain of a step comes with
  // updates, which are more frequent then. One that has been tried has to be within the slack even
  // if it is off by one deviation, unless it is the faster one of the two beyond doubt.
  const double unexplained_share = unexplained(known);
  const auto trusted = [&](const Candidate& one) {
    if (!(one.point < known.here)) return one.seconds;
    if (one.tried) return one.seconds * (1 + (is_faster(one) ? 0 : one.doubt));
    const double updates = static_cast<double>(known.here.update_interval) /
                           static_cast<double>(one.point.update_interval);
    return one.seconds * (1 + known.model_error + unexplained_share * (updates - 1));
  };
  const auto chosen = std::find_if(candidates.begin(), candidates.end(),
                                   [&](const Candidate& one) { return trusted(one) <= mark; });
  if (chosen == candidates.end() || chosen->point == known.here) return std::nullopt;
  if (is_faster(*chosen) && here > mark) return Choice{chosen->point, "faster"};
  if (!(chosen->point < known.here)) return std::nullopt;
  const bool is_less = chosen->point.update_interval < known.here.update_interval;
  return Choice{chosen->point,
                fmt::format("{}, within {:g} % of the fastest",
                            is_less ? "less stale" : "more columns in time", 100 * settings.slack)};
}

}  // namespace zenflow::runtime
