#include "runtime/tune/live_tuner.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "runtime/tune/candidates.h"

namespace zenflow::runtime {
namespace {

constexpr std::int64_t kRamp = 1;  // windows after a change that belong to neither setting
// A recording's least length. Its first window's update runs in the second.
constexpr std::int64_t kLeastWindows = 2;
constexpr std::int64_t kLeastSteps = 4;
constexpr std::int64_t kOutcomeWindows = 2;  // after which a change is judged
constexpr int kMostFailures = 3;
constexpr std::int64_t kMostDoubtful = 8;  // windows kept of what is only doubted
constexpr double kOtherShare = 0.2;  // relative: that a profile may explain more or less of a step

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

LiveTuner::LiveTuner(const TuneSettings& settings)
    : settings_(settings),
      now_{.point = settings.first, .since_change = settings.begins_cold ? 0 : kRamp},
      shares_(settings.max_deferred_share) {}

namespace {

/// Of a prediction that measured times are `off` from, as a logarithm. It was right if windows'
/// noise alone may be that much; what is off by more, but not beyond doubt, is said with its size.
std::string verdict(double off, double noise, bool beyond_doubt) {
  if (beyond_doubt) return "not as predicted";
  constexpr double kRounding = 1e-9;
  if (std::abs(off) <= std::max(noise, kRounding)) return "as predicted";
  return fmt::format("{:.1f} % {} than predicted: tolerated", 100 * std::abs(std::expm1(off)),
                     off > 0 ? "slower" : "faster");
}

}  // namespace

TuneEvent& LiveTuner::note(TuneEvent::Kind kind, std::string reason) {
  events_.push_back({.kind = kind,
                     .window = now_.window,
                     .from = now_.point,
                     .to = now_.point,
                     .noise = watch_.sigma(),
                     .reason = std::move(reason)});
  return events_.back();
}

TuneOrder LiveTuner::window_ended(const TuneWindow& seen, const std::optional<TuneFit>& fit) {
  events_.clear();
  now_.window = seen.window;
  now_.steps_left = seen.steps_left;
  // An order of this window's k has been carried out, too, if that was another one.
  const TunePoint ordered{seen.point.update_interval, seen.next_topk_ratio};
  if (!(ordered == now_.point)) {  // a resume, or a window that was cut: begin anew
    abandon_outcome("begun anew");
    now_.point = ordered;
    now_.visit = {};
    now_.since_change = 0;
    cost_.expected = 0;
  }
  if (seen.point == now_.point) {
    ++now_.since_change;
  } else {  // columns have changed place at its end
    cost_.learn(seen.selection_seconds);
    if (unchecked_) unchecked_->selection_seconds = seen.selection_seconds;
  }
  if (now_.since_change > kRamp) {
    measure(seen);
    check_drift(seen);
  }
  if (fit) take(*fit);
  check_outcome();
  if (due_.add(seen.importance_due)) something_new_ = true;
  if (shares_.add(seen.deferred_shares)) something_new_ = true;
  if (seen.steps_left <= 0) return {.next = now_.point};
  if (something_new_ && now_.since_change > kRamp && !recording_.holds_setting()) follow_choice();
  doubt_fit();
  follow_limits();
  return next_window(seen);
}

void LiveTuner::end() {
  events_.clear();
  abandon_outcome("the run has ended");
}

void LiveTuner::measure(const TuneWindow& seen) {
  now_.visit.add(seen.step_seconds);
  times_.add(now_.point, now_.window, seen.step_seconds);
  // More windows at a setting make its time more certain: worth another look, ever more rarely.
  const std::int64_t n = now_.visit.windows;
  if (n >= 2 && (n & (n - 1)) == 0) something_new_ = true;
  watch_.add(seen);
}

void LiveTuner::check_drift(const TuneWindow& seen) {
  std::string what = watch_.alarm(seen);
  // Before there is a model there is nothing to drift from: a fit will see what is now.
  if (what.empty() || (!learnt_.has_model && recording_.failures < kMostFailures)) return;
  abandon_outcome("a drift");
  note(TuneEvent::Kind::kDrift, std::move(what)).measured = seen.step_seconds;
  times_.drift(std::min(watch_.in_doubt_since().value_or(now_.window), now_.window));
  times_.add(now_.point, now_.window, seen.step_seconds);
  now_.visit = {seen.step_seconds, 1};
  learnt_ = {};
  cost_.factor = 1;  // what slowed a change down may be gone
  recording_.failures = 0;
  recording_.wanted = true;
  watch_.raise_bar();
  watch_.restart();
}

void LiveTuner::take(const TuneFit& fit) {
  recording_.fitting = false;
  if (!fit.failure.empty()) {
    note(TuneEvent::Kind::kFailed, fit.failure);
    recording_.wanted = ++recording_.failures < kMostFailures;
    return;
  }
  if (recording_.wanted) return;  // a drift since: this was recorded before it
  recording_.failures = 0;
  learnt_.model_error = 0;
  learnt_.has_model = true;
  std::map<TunePoint, double> model;
  for (const TunePrediction& one : fit.predictions) model[one.point] = one.step_seconds;
  const auto here = model.find(now_.point);
  const double predicted_here = here == model.end() ? 0 : here->second;
  times_.set_model(std::move(model), now_.point,
                   beyond_noise(settings_, times_.noise(), kLeastWindows));
  cost_.carry_seconds = fit.carry_seconds;
  cost_.reorder_seconds = fit.reorder_seconds;
  something_new_ = true;
  TuneEvent& event = note(TuneEvent::Kind::kFitted, "");
  event.measured = now_.visit.seconds;
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
  explained_ = {.now = event.predicted / event.measured, .before = explained_.now};
}

void LiveTuner::doubt_fit() {
  const auto fitted = std::find_if(events_.begin(), events_.end(), [](const TuneEvent& event) {
    return event.kind == TuneEvent::Kind::kFitted;
  });
  if (fitted == events_.end()) return;
  const double before = std::exchange(explained_.before, 0);
  if (now_.since_change == 0 || recording_.wanted || learnt_.refits_left == 0) return;
  if (fitted->other_cores && watch_.others().away(*fitted->other_cores)) {
    fitted->reason +=
        fmt::format(", now on {:.2f} cores: recorded anew", watch_.others().reference());
  } else if (before > 0 &&
             std::abs(std::log(explained_.now / before)) > std::log(1 + kOtherShare)) {
    fitted->reason += fmt::format(", not {:.1f} %: recorded anew", 100 * before);
  } else {
    return;
  }
  --learnt_.refits_left;
  recording_.wanted = true;
}

TuneEvent& LiveTuner::note_outcome(const Change& done, std::string reason) {
  TuneEvent& event = note(TuneEvent::Kind::kOutcome, std::move(reason));
  event.from = done.from;
  event.measured = now_.visit.seconds;
  event.predicted = done.predicted;
  event.noise = done.noise;
  event.selection_seconds = done.selection_seconds;
  return event;
}

void LiveTuner::abandon_outcome(const char* why) {
  if (!unchecked_) return;
  const std::int64_t windows = now_.visit.windows;
  note_outcome(*std::exchange(unchecked_, std::nullopt),
               fmt::format("after {} window{}: {}", windows, windows == 1 ? "" : "s", why));
}

void LiveTuner::check_outcome() {
  if (!unchecked_ || now_.visit.windows < kOutcomeWindows) return;
  const Change done = *std::exchange(unchecked_, std::nullopt);
  judge(done);
  if (!times_.tried(done.from)) return;
  const SettingTimes::Ratio left = times_.compare(now_.point, done.from);
  const double doubt = settings_.confidence * left.deviation;
  if (left.log_ratio > std::max(std::log1p(settings_.least_gain), doubt)) {
    learnt_.left.too_slow.insert(done.from);
  }
}

void LiveTuner::judge(const Change& done) {
  const double measured = now_.visit.seconds;
  something_new_ = true;
  if (done.predicted == 0) {
    note_outcome(done, "nothing was predicted");
    return;
  }
  const double off = std::log(measured / done.predicted);
  const bool far = std::abs(off) > beyond_noise(settings_, done.noise, kOutcomeWindows);
  TuneEvent& event = note_outcome(done, verdict(off, done.noise, far));
  learnt_.model_error = std::abs(off);
  if (!far) return;
  if (recording_.wanted) {
    event.reason += ": recorded anew";
  } else if (learnt_.refits_left > 0) {
    --learnt_.refits_left;
    recording_.wanted = true;
    event.reason += ": recorded anew";
  } else {
    event.reason += ": predictions are corrected";
  }
}

void LiveTuner::follow_choice() {
  something_new_ = false;
  if (!learnt_.has_model || now_.visit.windows == 0) return;
  std::optional<Choice> chosen = choose({.settings = settings_,
                                         .here = now_.point,
                                         .visit = now_.visit,
                                         .steps_left = now_.steps_left,
                                         .sigma = watch_.sigma(),
                                         .times = times_,
                                         .cost = cost_,
                                         .due = due_,
                                         .shares = shares_,
                                         .left = learnt_.left,
                                         .explained = explained_.now,
                                         .model_error = learnt_.model_error});
  if (!chosen) return;
  change(chosen->to, std::move(chosen->reason));
  // Recordings at two settings identify more than the first one.
  if (!std::exchange(learnt_.has_moved, true)) recording_.wanted = true;
}

void LiveTuner::follow_limits() {
  const auto may_change = [&] { return now_.since_change > 0 && !recording_.holds_setting(); };
  const std::int64_t due = due_.to_stay();
  if (now_.point.update_interval > due && may_change()) {
    std::int64_t most = 1;
    for (const TunePoint& point :
         tune_points(staleness_limit(settings_.max_staleness, settings_.overlap_step), {0.0})) {
      if (point.update_interval <= due) most = std::max(most, point.update_interval);
    }
    change({most, now_.point.topk_ratio},
           fmt::format("deferred gradients are due after {} steps", due));
  }
  const auto excess = shares_.excess(now_.point.topk_ratio);
  if (!excess || !may_change()) return;
  double& left = learnt_.left.deferred_too_much;
  left = std::max(left, now_.point.topk_ratio);
  change({now_.point.update_interval, excess->topk_ratio},
         fmt::format("{:.1f} % of the squared gradient norm are deferred", 100 * excess->deferred));
}

void LiveTuner::change(const TunePoint& to, std::string reason) {
  abandon_outcome("changed again");
  TuneEvent& event = note(TuneEvent::Kind::kChange, std::move(reason));
  event.to = to;
  event.measured = now_.visit.seconds;
  if (learnt_.has_model && now_.visit.windows > 0 && times_.model().contains(to)) {
    event.predicted = estimate(times_, now_.point, now_.visit, to);
  }
  unchecked_ = {.from = now_.point, .predicted = event.predicted, .noise = times_.noise()};
  event.selection_seconds = cost_.expected = cost_.of(now_.point.topk_ratio, to.topk_ratio);
  now_.point = to;
  now_.visit = {};
  now_.since_change = 0;
  watch_.restart();
}

TuneOrder LiveTuner::next_window(const TuneWindow& seen) {
  TuneOrder order{.next = now_.point};
  Recording& r = recording_;
  const bool settled = now_.since_change > kRamp;
  if (r.running && settled) {
    ++r.windows;
    r.steps += seen.steps;
  }
  if (!settled) r.forget();
  if (r.wanted && !r.fitting && r.windows >= kLeastWindows && r.steps >= kLeastSteps) {
    order.fit = r.fitting = true;
    r.wanted = r.running = false;
    r.forget();
    return order;
  }
  // What looks like a drift is recorded while it is still being doubted. What was recorded while
  // one time was doubted may be of before another one changed.
  const bool one_more = watch_.doubt(now_.window);
  order.anew = r.running && !r.wanted && (one_more || r.windows >= kMostDoubtful);
  r.running = (r.wanted || watch_.in_doubt()) && !r.fitting && now_.since_change >= kRamp;
  order.record = r.running;
  if (!r.running || order.anew) r.forget();
  return order;
}

}  // namespace zenflow::runtime
