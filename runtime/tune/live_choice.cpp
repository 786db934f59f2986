/// Which setting the tuner chooses, given what it knows.
#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "runtime/tune/live_tuner.h"

namespace zenflow::runtime {
namespace {

// S may rise to what none of the first number of windows was below, and falls to what most of the
// second ask for. k falls and rises alike, and falls only when there are as many as the second.
constexpr std::size_t kImportanceWindows = 8;
constexpr std::size_t kImportanceMedian = 5;
constexpr std::int64_t kNoLimit = 1'000'000'000;
constexpr std::int64_t kDense = 8;  // S up to which every value is a candidate
constexpr int kRatios = 4;          // by as many equal ratios from the least k to the largest

/// Of a list by ratio; none: not known.
std::optional<double> share_at(const std::vector<DeferredShare>& shares, double topk_ratio) {
  const auto found = std::find_if(shares.begin(), shares.end(),
                                  [&](const auto& one) { return one.topk_ratio == topk_ratio; });
  return found == shares.end() ? std::nullopt : std::optional(found->share);
}

}  // namespace

std::vector<double> topk_ratios(double low, double high, double current) {
  std::vector<double> ratios{low, high, current};
  for (int i = 1; i < kRatios; ++i) {
    // In logarithms: high / low may be more than a double holds.
    const double part = static_cast<double>(i) / kRatios;
    const double exact = std::exp((1 - part) * std::log(low) + part * std::log(high));
    const double scale = std::pow(10, 2 - std::floor(std::log10(exact)));
    ratios.push_back(std::clamp(std::round(exact * scale) / scale, low, high));
  }
  std::sort(ratios.begin(), ratios.end());
  ratios.erase(std::unique(ratios.begin(), ratios.end()), ratios.end());
  return ratios;
}

std::vector<TunePoint> tune_points(std::int64_t most, const std::vector<double>& topk_ratios) {
  std::vector<TunePoint> points;
  for (std::int64_t s = 1; s <= most;) {
    for (const double k : topk_ratios) points.push_back({s, k});
    if (s == most) break;
    s = std::min(most, s < kDense ? s + 1 : s + s / 4);
  }
  std::sort(points.begin(), points.end());
  return points;
}

std::int64_t LiveTuner::importance_cap(bool to_stay) const {
  if (importance_.empty()) return kNoLimit;
  if (!to_stay) return *std::min_element(importance_.begin(), importance_.end());
  if (importance_.size() < kImportanceMedian) return kNoLimit;
  std::vector<std::int64_t> last(importance_.begin(), importance_.end());
  last.erase(last.begin(), last.end() - kImportanceMedian);
  std::nth_element(last.begin(), last.begin() + kImportanceMedian / 2, last.end());
  return last[kImportanceMedian / 2];
}

void LiveTuner::keep_importance(std::int64_t due) {
  importance_.push_back(due == 0 ? kNoLimit : due);
  if (importance_.size() > kImportanceWindows) importance_.pop_front();
  if (importance_cap(false) > cap_before_) something_new_ = true;
  cap_before_ = importance_cap(false);
}

void LiveTuner::follow_importance() {
  const std::int64_t cap = importance_cap(true);
  // A recording is of one setting: what is being recorded is finished first.
  if (point_.update_interval <= cap || since_change_ == 0 || wants_fit_ || fitting_) return;
  std::int64_t most = 1;
  for (const TunePoint& point :
       tune_points(staleness_limit(settings_.max_staleness, settings_.overlap_step), {0.0})) {
    if (point.update_interval <= cap) most = std::max(most, point.update_interval);
  }
  change({most, point_.topk_ratio}, fmt::format("deferred gradients are due after {} steps", cap));
}

void LiveTuner::keep_shares(const std::vector<DeferredShare>& shares) {
  if (settings_.max_deferred_share >= 1) return;
  shares_.push_back(shares);
  if (shares_.size() > kImportanceWindows) shares_.pop_front();
  const auto least = std::find_if(shares.begin(), shares.end(),
                                  [this](const auto& one) { return shares_allow(one.topk_ratio); });
  const double ratio = least == shares.end() ? 1 : least->topk_ratio;
  if (ratio < least_before_) something_new_ = true;
  least_before_ = ratio;
}

bool LiveTuner::shares_allow(double topk_ratio) const {
  if (settings_.max_deferred_share >= 1) return true;
  return shares_.size() >= kImportanceMedian &&
         std::all_of(shares_.begin(), shares_.end(), [&](const auto& window) {
           return share_at(window, topk_ratio).value_or(1) <= settings_.max_deferred_share;
         });
}

void LiveTuner::follow_shares() {
  const double limit = settings_.max_deferred_share;
  if (limit >= 1 || shares_.size() < kImportanceMedian) return;
  if (since_change_ == 0 || wants_fit_ || fitting_) return;  // as above
  std::vector<double> last;
  for (auto window = shares_.end() - kImportanceMedian; window != shares_.end(); ++window) {
    last.push_back(share_at(*window, point_.topk_ratio).value_or(0));
  }
  std::nth_element(last.begin(), last.begin() + kImportanceMedian / 2, last.end());
  const double median = last[kImportanceMedian / 2];
  if (median <= limit) return;
  const std::vector<DeferredShare>& now = shares_.back();
  auto enough = std::find_if(now.begin(), now.end(), [&](const DeferredShare& one) {
    return one.topk_ratio > point_.topk_ratio && one.share <= limit;
  });
  if (enough == now.end() && !now.empty()) --enough;  // the largest there is
  if (enough == now.end() || enough->topk_ratio <= point_.topk_ratio) return;
  deferred_too_much_ = std::max(deferred_too_much_, point_.topk_ratio);
  change({point_.update_interval, enough->topk_ratio},
         fmt::format("{:.1f} % of the squared gradient norm are deferred", 100 * median));
}

double LiveTuner::cost_of(double topk_ratio) const {
  if (topk_ratio == point_.topk_ratio) return 0;
  // All selected columns leave and others come.
  return cost_factor_ * ((point_.topk_ratio + topk_ratio) * carry_seconds_ + reorder_seconds_);
}

void LiveTuner::learn_cost(double seconds) {
  if (cost_expected_ > 0) cost_factor_ *= std::max(1.0, seconds / cost_expected_);
}

bool LiveTuner::pays_back(const TunePoint& point) const {
  const double here = visit_.seconds;
  const double gain = std::max(here - estimate(point), settings_.slack * here);
  // Columns change place at the end of the next window.
  const std::int64_t steps =
      steps_left_ - (point.topk_ratio == point_.topk_ratio ? 0 : point.update_interval);
  return cost_of(point.topk_ratio) <= gain * static_cast<double>(std::max<std::int64_t>(0, steps));
}

bool LiveTuner::allowed(const TunePoint& point) const {
  if (point == point_) return true;
  if (point.topk_ratio < point_.topk_ratio &&
      (point.topk_ratio <= deferred_too_much_ || !shares_allow(point.topk_ratio))) {
    return false;
  }
  return pays_back(point) &&
         point.update_interval <=
             staleness_limit(settings_.max_staleness, settings_.overlap_step) &&
         point.update_interval <= importance_cap(true) &&
         (point.update_interval <= point_.update_interval ||
          point.update_interval <= importance_cap(false));
}

double LiveTuner::estimate(const TunePoint& point) const {
  return visit_.seconds * std::exp(times_.compare(point_, point).log_ratio);
}

double LiveTuner::margin(const TunePoint& other) const {
  // Of one that has been tried it is known how well it is known. Of others it is not, but a try
  // costs a few windows once: what was measured here has to be less than the gain in doubt.
  const double doubt = times_.tried(other)
                           ? times_.compare(point_, other).deviation
                           : step_monitor_.sigma() / std::sqrt(static_cast<double>(visit_.windows));
  return std::max(std::log1p(settings_.least_gain), settings_.confidence * doubt);
}

double LiveTuner::unexplained() const {
  if (explained_ == 0 || visit_.windows == 0) return 0;
  return std::max(0.0, 1 - explained_ - beyond_noise(times_.noise(), visit_.windows));
}

void LiveTuner::choose() {
  something_new_ = false;
  if (!has_model_ || visit_.windows == 0) return;
  double best = visit_.seconds;
  for (const auto& [point, seconds] : times_.model()) {
    if (allowed(point) && !too_slow_.contains(point)) best = std::min(best, estimate(point));
  }
  const double mark = best * (1 + settings_.slack);
  const double here = visit_.seconds;
  const auto faster = [&](const TunePoint& point) {
    return here > estimate(point) * std::exp(margin(point));
  };
  // To be more careful than now on a prediction's word, it has to hold even if it is as far off as
  // the last one was, and if updates, which come the more often then, are what the profile does not
  // explain of a step. One that has been tried has to be within the slack even if it is off by one
  // deviation, unless it is the faster one of the two beyond doubt.
  const double unexplained = this->unexplained();
  const auto trusted = [&](const TunePoint& point) {
    if (!(point < point_)) return estimate(point);
    if (times_.tried(point)) {
      const double doubt = faster(point) ? 0 : times_.compare(point_, point).deviation;
      return estimate(point) * (1 + doubt);
    }
    const double updates =
        static_cast<double>(point_.update_interval) / static_cast<double>(point.update_interval);
    return estimate(point) * (1 + model_error_ + unexplained * (updates - 1));
  };
  const auto& model = times_.model();
  const auto careful = std::find_if(model.begin(), model.end(), [&](const auto& one) {
    return allowed(one.first) && !too_slow_.contains(one.first) && trusted(one.first) <= mark;
  });
  if (careful == model.end() || careful->first == point_) return;
  if (faster(careful->first) && here > mark) {
    change(careful->first, "faster");
  } else if (careful->first < point_) {
    const bool less = careful->first.update_interval < point_.update_interval;
    change(careful->first,
           fmt::format("{}, within {:g} % of the fastest",
                       less ? "less stale" : "more columns in time", 100 * settings_.slack));
  }
  // One recording of where it was and one of where it is going tell more than the first alone.
  if (since_change_ == 0 && !std::exchange(moved_, true)) wants_fit_ = true;
}

void LiveTuner::change(const TunePoint& to, std::string reason) {
  abandon_outcome("changed again");
  TuneEvent& event = note(TuneEvent::Kind::kChange, std::move(reason));
  event.to = to;
  event.measured = visit_.seconds;
  event.predicted =
      has_model_ && visit_.windows > 0 && times_.model().contains(to) ? estimate(to) : 0;
  unchecked_ = {.from = point_, .predicted = event.predicted, .noise = times_.noise()};
  event.selection_seconds = cost_expected_ = cost_of(to.topk_ratio);
  point_ = to;
  visit_ = {};
  since_change_ = 0;
  step_monitor_.restart();
  for (DriftMonitor& monitor : track_monitors_) monitor.restart();
  others_.restart();  // they get more or less of the cores beside another setting
}

}  // namespace zenflow::runtime
