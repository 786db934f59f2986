/// Which setting the tuner chooses, given what it knows.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "runtime/tune/live_tuner.h"

namespace zenflow::runtime {
namespace {

constexpr std::size_t kImportanceWindows = 8;  // S may fall to what none of as many exceeded
constexpr std::size_t kImportanceMedian = 5;   // and rises to what most of these ask for
constexpr std::int64_t kDense = 8;             // S up to which every value is a candidate

double distance(const TunePoint& a, const TunePoint& b) {
  const double k = a.topk_ratio > 0 && b.topk_ratio > 0 ? std::log(a.topk_ratio / b.topk_ratio) : 0;
  return std::abs(std::log(static_cast<double>(a.update_interval) /
                           static_cast<double>(b.update_interval))) +
         std::abs(k);
}

}  // namespace

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

std::int64_t LiveTuner::importance_floor(bool to_leave) const {
  if (importance_.empty()) return 1;
  if (!to_leave) return *std::max_element(importance_.begin(), importance_.end());
  if (importance_.size() < kImportanceMedian) return 1;
  std::vector<std::int64_t> last(importance_.begin(), importance_.end());
  last.erase(last.begin(), last.end() - kImportanceMedian);
  std::nth_element(last.begin(), last.begin() + kImportanceMedian / 2, last.end());
  return last[kImportanceMedian / 2];
}

void LiveTuner::keep_importance(std::int64_t due) {
  const std::int64_t most = staleness_limit(settings_.max_staleness, settings_.overlap_step);
  importance_.push_back(std::clamp<std::int64_t>(due, 1, most));
  if (importance_.size() > kImportanceWindows) importance_.pop_front();
  if (importance_floor(false) < floor_before_) something_new_ = true;
  floor_before_ = importance_floor(false);
}

void LiveTuner::follow_importance() {
  const std::int64_t floor = importance_floor(true);
  // A recording is of one setting: what is being recorded is finished first.
  if (point_.update_interval >= floor || since_change_ == 0 || wants_fit_ || fitting_) return;
  const std::int64_t most = staleness_limit(settings_.max_staleness, settings_.overlap_step);
  const std::vector<TunePoint> points = tune_points(most, {point_.topk_ratio});
  const auto next = std::find_if(points.begin(), points.end(), [&](const TunePoint& point) {
    return point.update_interval >= floor;
  });
  change(*next, fmt::format("deferred gradients are due after {} steps", floor));
}

bool LiveTuner::allowed(const TunePoint& point) const {
  if (point == point_) return true;
  return point.update_interval <=
             staleness_limit(settings_.max_staleness, settings_.overlap_step) &&
         point.update_interval >= importance_floor(true) &&
         (point.update_interval >= point_.update_interval ||
          point.update_interval >= importance_floor(false));
}

double LiveTuner::estimate(const TunePoint& point) const {
  const auto tried = levels_.find(point);
  if (tried != levels_.end()) return tried->second.seconds;
  double ratio = 1;
  double nearest = INFINITY;
  for (const auto& [other, level] : levels_) {
    if (!model_.contains(other) || distance(other, point) >= nearest) continue;
    nearest = distance(other, point);
    ratio = level.seconds / model_.at(other);
  }
  return ratio * model_.at(point);
}

double LiveTuner::margin(const TunePoint& other) const {
  const auto windows = [this](const TunePoint& point) {
    const auto found = levels_.find(point);
    return found == levels_.end() ? 0.0 : 1 / static_cast<double>(found->second.windows);
  };
  return std::max(settings_.least_gain, settings_.confidence * step_monitor_.sigma() *
                                            std::sqrt(windows(point_) + windows(other)));
}

void LiveTuner::choose() {
  something_new_ = false;
  if (model_.empty() || !levels_.contains(point_)) return;
  double best = levels_.at(point_).seconds;
  for (const auto& [point, seconds] : model_) {
    if (allowed(point)) best = std::min(best, estimate(point));
  }
  const double mark = best * (1 + settings_.slack);
  // To be more careful than now on a prediction's word, it has to hold even if it is as far off as
  // the last one was.
  const auto trusted = [&](const TunePoint& point) {
    const bool unproven = point < point_ && !levels_.contains(point);
    return estimate(point) * (unproven ? 1 + model_error_ : 1);
  };
  const auto careful = std::find_if(model_.begin(), model_.end(), [&](const auto& one) {
    return allowed(one.first) && !too_slow_.contains(one.first) && trusted(one.first) <= mark;
  });
  if (careful == model_.end() || careful->first == point_) return;
  const double here = levels_.at(point_).seconds;
  if (here > estimate(careful->first) * (1 + margin(careful->first)) && here > mark) {
    change(careful->first, "faster");
  } else if (careful->first < point_) {
    change(careful->first,
           fmt::format("less stale, within {:g} % of the fastest", 100 * settings_.slack));
  }
}

void LiveTuner::change(const TunePoint& to, std::string reason) {
  TuneEvent& event = note(TuneEvent::Kind::kChange, std::move(reason));
  event.to = to;
  event.measured = level_here().seconds;
  event.predicted = model_.contains(to) ? estimate(to) : 0;
  unchecked_.reset();
  if (event.predicted > 0) unchecked_ = {point_, event.measured, event.predicted};
  point_ = to;
  levels_.erase(to);  // measured anew
  since_change_ = 0;
  step_monitor_.restart();
  for (DriftMonitor& monitor : track_monitors_) monitor.restart();
}

}  // namespace zenflow::runtime
