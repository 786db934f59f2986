/// Which setting a running training should have: decisions alone. No clock, no thread, no
/// simulation: it is told what was measured and what was predicted, and says what to do next.
///
///   measure  every window that ends: step time, and time in each track's operations
///   record   the first windows, then two after a drift: recordings are fitted, and every setting
///            is predicted (sim/calibrate/live_prediction.h); both happen elsewhere and arrive at a
///            later window's end
///   choose   the fastest allowed setting sets the mark; within `slack` of it the least staleness,
///            then the largest topk_ratio. A faster setting is taken if the gain exceeds noise, a
///            more careful one at once
///   limits   S is at most what max_staleness allows, and no longer than it takes for deferred
///            gradients to add up to selected ones (Zen-auto's rule, interval_controller.h). k
///            falls no further than max_deferred_share allows, and rises if it has to. What a
///            change of k takes at most, since columns have to be carried, has to come in again
///            before the end
///   check    after a change the measured step time corrects predictions, above all by windows near
///            it, as the machine wanders (setting_times.h): of a setting that has been tried as far
///            as its windows tell, of others as they are like those. The first setting that is
///            chosen is recorded, too: it shows more of its neighbours than the one before did. A
///            prediction that was far off later asks for one more recording
///   drift    when a time has moved for longer than noise would let it, or other programs use
///            more or less of the cores (drift.h), the machine is another one and is recorded anew;
///            once more if other programs use more or less than in the recording, or what that
///            explains of the step is another share than before, and it changes nothing that an
///            outcome would tell of. What was learnt of a setting is kept if it still is predicted
///            to take as much compared with the one at hand
///
/// Why it does not oscillate: a change to a setting that has been tried has to pay by more than
/// what noise and wander leave uncertain of both; between two drifts one that was left for being
/// slow is not tried again, nor a k for what it deferred, and choices are made only when something
/// new is known. Every drift raises the bar for the next one for a while.
#pragma once

#include <array>
#include <bitset>
#include <compare>
#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/tune/drift.h"
#include "runtime/tune/setting_times.h"
#include "sim/calibrate/live_prediction.h"

namespace zenflow::runtime {

using sim::TuneFit;
using sim::TunePoint;
using sim::TunePrediction;

/// Where operations run: whose busy time is watched beside the step's.
inline constexpr std::size_t kTuneTracks = 5;
inline constexpr std::array<const char*, kTuneTracks> kTuneTrackNames = {
    "compute", "d2h", "h2d", "cpu sums", "cpu optimizer"};

/// Of the squared gradient norm, what falls on columns that are not selected.
struct DeferredShare {
  double topk_ratio = 0;
  double share = 0;
};

struct TuneWindow {
  std::int64_t window = 0;
  TunePoint point;  ///< that it had
  /// k of the window that begins. If it is another one, columns have changed place at this one's
  /// end.
  double next_topk_ratio = 0;
  std::int64_t steps = 0;
  double step_seconds = 0;                 ///< mean
  std::array<double, kTuneTracks> busy{};  ///< seconds in the window, by track; 0: not known
  std::int64_t importance_due = 0;  ///< steps after which deferred gradients are due; 0: not known
  /// With the largest columns selected, by ascending ratio; where nothing is known, none.
  std::vector<DeferredShare> deferred_shares{};
  double selection_seconds = 0;             ///< of the step time, to select columns anew
  std::optional<double> other_cores{};      ///< that other programs used lately; nothing: not known
  std::int64_t steps_left = 1'000'000'000;  ///< of the run
};

struct TuneSettings {
  TunePoint first;
  std::int64_t max_staleness = 31;
  bool overlap_step = true;
  double slack = 0.01;       ///< of step time, given up for less staleness
  double least_gain = 0.01;  ///< by which a change must pay at least, whatever the noise
  double confidence = 2;     ///< standard errors by which it must
  /// Of the squared gradient norm: k is not lowered to where more is deferred, or where that is not
  /// known, and raised where it is. 1: no limit.
  double max_deferred_share = 1;
  /// The first window that is told of has what no other has: it belongs to no setting.
  bool begins_cold = false;
};

/// One line of the log.
struct TuneEvent {
  enum class Kind : std::uint8_t {
    kFitted,   ///< predictions are there: `predicted` and `measured` of the setting at hand
    kChange,   ///< from the next window on; `measured` so far, `predicted` from now on
    kOutcome,  ///< of a change: what was predicted, and what is measured
    kDrift,    ///< `measured` against what it was
    kFailed,   ///< a recording could not be used
  };
  Kind kind = Kind::kFitted;
  std::int64_t window = 0;
  TunePoint from;
  TunePoint to;         ///< the same unless it is a change or its outcome
  double measured = 0;  ///< seconds a step; 0: not known
  double predicted = 0;
  double noise = 0;                           ///< relative spread of windows' step times
  std::string reason;                         ///< one phrase
  std::vector<TunePrediction> predictions{};  ///< of kFitted
  double fit_seconds = 0;                     ///< likewise, what it took
  /// Of a change of k, to select columns anew, as expected; of its outcome, as measured.
  double selection_seconds = 0;
  /// Of kFitted: TuneFit's.
  std::optional<double> other_cores{};
  double other_threads = 0;
};
[[nodiscard]] std::string to_string(TuneEvent::Kind kind);

struct TuneOrder {
  TunePoint next;       ///< of the window that begins
  bool record = false;  ///< the window that begins; else what has been recorded may be dropped
  bool anew = false;    ///< may be dropped although the window that begins is recorded
  bool fit = false;     ///< what has been recorded, now
};

/// The limit S keeps so that no gradient exceeds max_staleness, whatever S was before.
[[nodiscard]] std::int64_t staleness_limit(std::int64_t max_staleness, bool overlap_step);

/// Both ends, three between them at equal ratios, and `current`; ascending. Those between have
/// three significant digits. Precondition: 1e-300 <= low <= current <= high.
[[nodiscard]] std::vector<double> topk_ratios(double low, double high, double current);

/// The settings that may be chosen: every S up to 8 and then a quarter apart, up to `most`, for
/// every k in `topk_ratios`; in the tuner's order.
[[nodiscard]] std::vector<TunePoint> tune_points(std::int64_t most,
                                                 const std::vector<double>& topk_ratios);

class LiveTuner {
 public:
  explicit LiveTuner(const TuneSettings& settings);

  /// At a window's end. `fit`: what was asked for, if it is there.
  [[nodiscard]] TuneOrder window_ended(const TuneWindow& seen, const std::optional<TuneFit>& fit);

  /// No more windows: a change whose outcome has not been told is, by what is known.
  void end();

  /// What the last call had to say.
  [[nodiscard]] const std::vector<TuneEvent>& events() const { return events_; }

 private:
  /// Windows in a row at one setting.
  struct Visit {
    double seconds = 0;  ///< mean step time
    std::int64_t windows = 0;
  };
  struct Change {
    TunePoint from;
    double predicted = 0;          ///< 0: nothing was
    double noise = 0;              ///< relative, of windows until then
    double selection_seconds = 0;  ///< measured
  };
  /// Step time, use by others, and tracks: which may have drifted.
  using Suspects = std::bitset<2 + kTuneTracks>;

  // live_tuner.cpp: measuring
  void measure(const TuneWindow& seen);
  void check_drift(const TuneWindow& seen);
  void take(const TuneFit& fit);
  /// If one has just been taken and nothing was changed by it.
  void doubt_fit();
  void check_outcome();
  void judge(const Change& done);
  /// Of a change that is not waited for any longer, and why.
  void abandon_outcome(const char* why);
  TuneEvent& note_outcome(const Change& done, std::string reason);
  /// Relative: what the mean of so many windows is off by only if something has changed.
  [[nodiscard]] double beyond_noise(double noise, std::int64_t windows) const;
  TuneOrder next_window(const TuneWindow& seen);
  TuneEvent& note(TuneEvent::Kind kind, std::string reason);

  // live_choice.cpp: choosing
  void choose();
  void keep_importance(std::int64_t due);
  void follow_importance();
  void keep_shares(const std::vector<DeferredShare>& shares);
  void follow_shares();
  /// In every one of the last windows, and there are some, no more than the limit would be
  /// deferred.
  [[nodiscard]] bool shares_allow(double topk_ratio) const;
  /// Seconds to get from the ratio at hand to another one: for the most columns that can change
  /// place, and as much longer as a change has taken before.
  [[nodiscard]] double cost_of(double topk_ratio) const;
  /// The change of k under way has taken so long.
  void learn_cost(double seconds);
  /// What the change costs comes in again, or is less than the slack, before the end.
  [[nodiscard]] bool pays_back(const TunePoint& point) const;
  void change(const TunePoint& to, std::string reason);
  [[nodiscard]] bool allowed(const TunePoint& point) const;
  [[nodiscard]] double estimate(const TunePoint& point) const;
  /// By which a setting has to be faster, in logarithms, for a change to it.
  [[nodiscard]] double margin(const TunePoint& other) const;
  /// Of the step at hand, by the last profile, beyond noise.
  [[nodiscard]] double unexplained() const;
  [[nodiscard]] std::int64_t importance_cap(bool to_stay) const;

  TuneSettings settings_;
  TunePoint point_;  ///< of the window that ended, then of the next
  std::int64_t window_ = 0;
  std::int64_t since_change_;  ///< windows at this setting
  std::int64_t steps_left_ = 0;

  SettingTimes times_;
  Visit visit_;  ///< of the setting at hand

  // Since the last drift.
  bool has_model_ = false;
  std::set<TunePoint> too_slow_;  ///< left for a faster one
  double deferred_too_much_ = 0;  ///< the largest topk_ratio left for what it deferred
  double carry_seconds_ = 0;      ///< TuneFit's
  double reorder_seconds_ = 0;
  double cost_expected_ = 0;     ///< of the change of k under way, seconds
  double cost_factor_ = 1;       ///< longest change of k to what was expected of it, at least 1
  double model_error_ = 0;       ///< relative, of the last prediction that was checked
  double explained_ = 0;         ///< of the step, by the last profile; 0: there is none
  double explained_before_ = 0;  ///< by the one before, until the last one is not doubted
  int refits_left_ = 1;
  bool moved_ = false;  ///< by choice
  std::optional<Change> unchecked_;
  bool something_new_ = false;

  bool wants_fit_ = true;  ///< recording, until there is enough
  bool fitting_ = false;
  std::int64_t recorded_windows_ = 0;
  std::int64_t recorded_steps_ = 0;
  bool recording_ = false;  ///< the window at hand
  int failures_ = 0;

  DriftMonitor step_monitor_;
  std::vector<DriftMonitor> track_monitors_;
  UseMonitor others_;
  Suspects suspects_;
  std::optional<std::int64_t> suspicious_since_;  ///< window
  double patience_ = 1;
  std::int64_t quiet_ = 0;  ///< windows since patience changed

  std::deque<std::int64_t> importance_;  ///< steps until due, of the last windows
  std::int64_t cap_before_ = 0;
  std::deque<std::vector<DeferredShare>> shares_;  ///< of the last windows
  double least_before_ = 1;                        ///< ratio that they allowed
  std::vector<TuneEvent> events_;
};

}  // namespace zenflow::runtime
