#include "runtime/tune/live_tuner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kRamp = 1;  // windows after a change that belong to neither setting
// Of a recording. Its first window's update runs in the second.
constexpr std::int64_t kLeastWindows = 2;
constexpr std::int64_t kLeastSteps = 4;
constexpr std::int64_t kOutcomeWindows = 2;  // after which a change is judged
constexpr int kMostFailures = 3;
constexpr std::int64_t kMostDoubtful = 8;  // windows kept of what is only doubted
constexpr double kPatience = 1.5;          // by which an alarm raises the bar for the next
constexpr double kMostPatience = 8;
constexpr std::int64_t kCalm = 64;    // windows after which it is lowered again
constexpr double kLeastShare = 0.02;  // of the window: tracks busy for less say nothing
constexpr double kOtherShare = 0.2;   // relative: that a profile may explain more or less of a step
constexpr DriftLimits kStepLimits{.allowance = 0.02, .threshold = 0.06};
constexpr DriftLimits kTrackLimits{.allowance = 0.1, .threshold = 0.3};

}  // namespace

std::string to_string(TuneEvent::Kind kind) {
  switch (kind) {
    case TuneEvent::Kind::kFitted:
      return "fitted";
    case TuneEvent::Kind::kChange:
      return "change";
    case TuneEvent::Kind::kOutcome:
      return "outcome";
    case TuneEvent::Kind::kDrift:
      return "drift";
    case TuneEvent::Kind::kFailed:
      break;
  }
  return "failed";
}

std::int64_t staleness_limit(std::int64_t max_staleness, bool overlap_step) {
  return std::max<std::int64_t>(1, overlap_step ? (max_staleness + 1) / 2 : max_staleness + 1);
}

LiveTuner::LiveTuner(const TuneSettings& settings)
    : settings_(settings),
      point_(settings.first),
      since_change_(settings.begins_cold ? 0 : kRamp),
      step_monitor_(kStepLimits),
      track_monitors_(kTuneTracks, DriftMonitor(kTrackLimits)) {}

TuneEvent& LiveTuner::note(TuneEvent::Kind kind, std::string reason) {
  events_.push_back({.kind = kind,
                     .window = window_,
                     .from = point_,
                     .to = point_,
                     .noise = step_monitor_.sigma(),
                     .reason = std::move(reason)});
  return events_.back();
}

TuneOrder LiveTuner::window_ended(const TuneWindow& seen, const std::optional<TuneFit>& fit) {
  events_.clear();
  window_ = seen.window;
  steps_left_ = seen.steps_left;
  // An order of this window's k has been carried out, too, if that was another one.
  const TunePoint ordered{seen.point.update_interval, seen.next_topk_ratio};
  if (!(ordered == point_)) {  // a resume, or a window that was cut: begin anew
    abandon_outcome("begun anew");
    point_ = ordered;
    visit_ = {};
    since_change_ = 0;
    cost_expected_ = 0;
  }
  if (seen.point == point_) {
    ++since_change_;
  } else {  // columns have changed place at its end
    learn_cost(seen.selection_seconds);
    if (unchecked_) unchecked_->selection_seconds = seen.selection_seconds;
  }
  if (since_change_ > kRamp) {
    measure(seen);
    check_drift(seen);
  }
  if (fit) take(*fit);
  check_outcome();
  keep_importance(seen.importance_due);
  keep_shares(seen.deferred_shares);
  if (seen.steps_left <= 0) return {.next = point_};
  if (something_new_ && since_change_ > kRamp && !wants_fit_ && !fitting_) choose();
  doubt_fit();
  follow_importance();
  follow_shares();
  return next_window(seen);
}

void LiveTuner::end() {
  events_.clear();
  abandon_outcome("the run has ended");
}

void LiveTuner::measure(const TuneWindow& seen) {
  const std::int64_t n = ++visit_.windows;
  visit_.seconds += (seen.step_seconds - visit_.seconds) / static_cast<double>(n);
  times_.add(point_, window_, seen.step_seconds);
  // More windows at a setting make its time more certain: worth another look, ever more rarely.
  if (n >= 2 && (n & (n - 1)) == 0) something_new_ = true;
  step_monitor_.add(seen.step_seconds, patience_);
  const double steps = static_cast<double>(seen.steps);
  for (std::size_t t = 0; t < kTuneTracks; ++t) {
    if (seen.busy.at(t) < kLeastShare * seen.step_seconds * steps) {
      track_monitors_[t].skip();
    } else {
      track_monitors_[t].add(seen.busy.at(t), patience_);
    }
  }
  if (seen.other_cores) others_.add(*seen.other_cores, patience_);
  if (++quiet_ >= kCalm) {
    patience_ = std::max(1.0, patience_ / kPatience);
    quiet_ = 0;
  }
}

void LiveTuner::check_drift(const TuneWindow& seen) {
  std::string what;
  const auto ask = [&](const DriftMonitor& monitor, const char* name) {
    if (!monitor.alarmed()) return;
    what += fmt::format("{}{} takes {:.2f} times what it took", what.empty() ? "" : ", ", name,
                        monitor.factor());
  };
  ask(step_monitor_, "a step");
  for (std::size_t t = 0; t < kTuneTracks; ++t) ask(track_monitors_[t], kTuneTrackNames.at(t));
  if (others_.alarmed() && seen.other_cores) {
    what += fmt::format("{}other programs use {:.2f} cores, not {:.2f}", what.empty() ? "" : ", ",
                        *seen.other_cores, others_.reference());
  }
  // Before there is a model there is nothing to drift from: a fit will see what is now.
  if (what.empty() || (!has_model_ && failures_ < kMostFailures)) return;
  abandon_outcome("a drift");
  note(TuneEvent::Kind::kDrift, what).measured = seen.step_seconds;
  has_model_ = false;
  times_.drift(std::min(suspicious_since_.value_or(window_), window_));
  times_.add(point_, window_, seen.step_seconds);
  visit_ = {seen.step_seconds, 1};
  too_slow_.clear();
  deferred_too_much_ = 0;
  model_error_ = 0;
  cost_factor_ = 1;  // what slowed a change down may be gone
  refits_left_ = 1;
  moved_ = false;
  failures_ = 0;
  wants_fit_ = true;
  patience_ = std::min(kMostPatience, patience_ * kPatience);
  quiet_ = 0;
  step_monitor_.restart();
  for (DriftMonitor& monitor : track_monitors_) monitor.restart();
  others_.restart();
}

void LiveTuner::take(const TuneFit& fit) {
  fitting_ = false;
  if (!fit.failure.empty()) {
    note(TuneEvent::Kind::kFailed, fit.failure);
    wants_fit_ = ++failures_ < kMostFailures;
    return;
  }
  if (wants_fit_) return;  // a drift since: this was recorded before it
  failures_ = 0;
  model_error_ = 0;
  std::map<TunePoint, double> model;
  for (const TunePrediction& one : fit.predictions) model[one.point] = one.step_seconds;
  const auto here = model.find(point_);
  const double predicted_here = here == model.end() ? 0 : here->second;
  has_model_ = true;
  times_.set_model(std::move(model), point_, beyond_noise(times_.noise(), kLeastWindows));
  carry_seconds_ = fit.carry_seconds;
  reorder_seconds_ = fit.reorder_seconds;
  something_new_ = true;
  TuneEvent& event = note(TuneEvent::Kind::kFitted, "");
  event.measured = visit_.seconds;
  event.predicted = predicted_here;
  event.reason = event.measured > 0 && event.predicted > 0
                     ? fmt::format("the profile explains {:.1f} % of the step",
                                   100 * event.predicted / event.measured)
                     : "predictions for every setting";
  event.predictions = fit.predictions;
  event.fit_seconds = fit.seconds;
  event.other_cores = fit.other_cores;
  event.other_threads = fit.other_threads;
  if (fit.other_cores.value_or(0) > 0) {
    event.reason =
        fmt::format("beside other programs on {:.2f} cores {}", *fit.other_cores, event.reason);
  }
  if (!fit.remark.empty()) {
    event.reason =
        fmt::format("{} (what other programs use is not known: {})", event.reason, fit.remark);
  }
  if (event.measured == 0 || event.predicted == 0) return;
  explained_before_ = std::exchange(explained_, event.predicted / event.measured);
}

void LiveTuner::doubt_fit() {
  const auto fitted = std::find_if(events_.begin(), events_.end(), [](const TuneEvent& event) {
    return event.kind == TuneEvent::Kind::kFitted;
  });
  if (fitted == events_.end()) return;
  const double before = std::exchange(explained_before_, 0);
  if (since_change_ == 0 || wants_fit_ || refits_left_ == 0) return;
  if (fitted->other_cores && others_.away(*fitted->other_cores)) {
    fitted->reason += fmt::format(", now on {:.2f} cores: recorded anew", others_.reference());
  } else if (before > 0 && std::abs(std::log(explained_ / before)) > std::log(1 + kOtherShare)) {
    fitted->reason += fmt::format(", not {:.1f} %: recorded anew", 100 * before);
  } else {
    return;
  }
  --refits_left_;
  wants_fit_ = true;
}

TuneEvent& LiveTuner::note_outcome(const Change& done, std::string reason) {
  TuneEvent& event = note(TuneEvent::Kind::kOutcome, std::move(reason));
  event.from = done.from;
  event.measured = visit_.seconds;
  event.predicted = done.predicted;
  event.selection_seconds = done.selection_seconds;
  return event;
}

void LiveTuner::abandon_outcome(const char* why) {
  if (!unchecked_) return;
  const std::int64_t windows = visit_.windows;
  note_outcome(*std::exchange(unchecked_, std::nullopt),
               fmt::format("after {} window{}: {}", windows, windows == 1 ? "" : "s", why));
}

void LiveTuner::check_outcome() {
  if (!unchecked_ || visit_.windows < kOutcomeWindows) return;
  const Change done = *std::exchange(unchecked_, std::nullopt);
  judge(done);
  if (!times_.tried(done.from)) return;
  const SettingTimes::Ratio left = times_.compare(point_, done.from);
  const double doubt = settings_.confidence * left.deviation;
  if (left.log_ratio > std::max(std::log1p(settings_.least_gain), doubt)) {
    too_slow_.insert(done.from);
  }
}

double LiveTuner::beyond_noise(double noise, std::int64_t windows) const {
  return std::max(settings_.slack,
                  settings_.confidence * noise / std::sqrt(static_cast<double>(windows)));
}

void LiveTuner::judge(const Change& done) {
  const double measured = visit_.seconds;
  something_new_ = true;
  if (done.predicted == 0) {
    note_outcome(done, "nothing was predicted");
    return;
  }
  const double off = std::log(measured / done.predicted);
  const bool far = std::abs(off) > beyond_noise(done.noise, kOutcomeWindows);
  TuneEvent& event = note_outcome(done, far ? "not as predicted" : "as predicted");
  model_error_ = std::abs(off);
  if (!far) return;
  if (wants_fit_) {
    event.reason += ": recorded anew";
  } else if (refits_left_ > 0) {
    --refits_left_;
    wants_fit_ = true;
    event.reason += ": recorded anew";
  } else {
    event.reason += ": predictions are corrected";
  }
}

TuneOrder LiveTuner::next_window(const TuneWindow& seen) {
  TuneOrder order{.next = point_};
  const bool settled = since_change_ > kRamp;
  if (recording_ && settled) {
    ++recorded_windows_;
    recorded_steps_ += seen.steps;
  }
  if (!settled || since_change_ == 0) recorded_windows_ = recorded_steps_ = 0;
  if (wants_fit_ && !fitting_ && recorded_windows_ >= kLeastWindows &&
      recorded_steps_ >= kLeastSteps) {
    order.fit = true;
    fitting_ = true;
    wants_fit_ = false;
    recorded_windows_ = recorded_steps_ = 0;
    recording_ = false;
    return order;
  }
  // What looks like a drift is recorded while it is still being doubted.
  Suspects suspects;
  suspects[0] = step_monitor_.suspicious();
  suspects[1] = others_.suspicious();
  for (std::size_t t = 0; t < kTuneTracks; ++t) suspects[2 + t] = track_monitors_[t].suspicious();
  const bool one_more = (suspects & ~suspects_).any();
  suspects_ = suspects;
  if (suspects.none()) {
    suspicious_since_.reset();
  } else if (!suspicious_since_) {
    suspicious_since_ = window_;
  }
  // What was recorded while one time was doubted may be of before another one changed.
  order.anew = recording_ && !wants_fit_ && (one_more || recorded_windows_ >= kMostDoubtful);
  recording_ = (wants_fit_ || suspects.any()) && !fitting_ && since_change_ >= kRamp;
  order.record = recording_;
  if (!recording_ || order.anew) recorded_windows_ = recorded_steps_ = 0;
  return order;
}

}  // namespace zenflow::runtime
