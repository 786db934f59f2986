/// Which setting a running training should have: decisions alone. No clock, no thread, no
/// simulation: it takes what was measured and what was predicted, and says what to do next.
///
///   measure  every window that ends: step time, and time in each track's operations
///   record   the first windows, then two after a drift: recordings are fitted, and every setting
///            is predicted (runtime/tune/live_prediction.h); both happen elsewhere and arrive at a
///            later window's end
///   choose   the fastest allowed setting sets the mark; within `slack` of it the least staleness,
///            then the largest topk_ratio. A faster setting is taken if the gain exceeds noise, a
///            less stale one at once
///   limits   S is at most what max_staleness allows, and no longer than it takes for deferred
///            gradients to add up to selected ones (Zen-auto's rule, interval_controller.h). k
///            falls no further than max_deferred_share allows, and rises if it has to. What a
///            change of k takes at most, since columns have to be carried, has to come in again
///            before the end
///   check    after a change the measured step time corrects predictions, above all by windows near
///            it, as the machine wanders (setting_times.h): a setting that has been tried goes by
///            its own windows, others by those of settings near them. The first setting that is
///            chosen is recorded, too: it shows more of its neighbours than the one before did. A
///            prediction that was far off later asks for one more recording
///   drift    when a time has moved for longer than noise would let it, or other programs use
///            more or less of the cores (drift.h), the machine is another one and is recorded anew;
///            once more if other programs use more or less than in the recording, or what that
///            explains of the step is another share than before, and it changes nothing that an
///            outcome would show. What was learnt of a setting is kept if it still is predicted
///            to take as much compared with the one at hand
///
/// Why it does not oscillate: a change to a setting that has been tried has to pay by more than
/// what noise and wander leave uncertain of both; between two drifts one that was left for being
/// slow is not tried again, nor a k for what it deferred, and choices are made only when something
/// new is known. Every drift raises the bar for the next one for a while.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/tune/choice.h"
#include "runtime/tune/drift_watch.h"
#include "runtime/tune/gradient_limits.h"
#include "runtime/tune/setting_times.h"
#include "runtime/tune/window.h"

namespace zenflow::runtime {

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
  /// What it takes to select columns anew when k changes: expected, or, in the outcome of a change,
  /// measured.
  double selection_seconds = 0;
  /// As in TuneFit; kFitted alone has them.
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

class LiveTuner {
 public:
  explicit LiveTuner(const TuneSettings& settings);

  /// At a window's end. `fit`: what was asked for, if it is there.
  [[nodiscard]] TuneOrder window_ended(const TuneWindow& seen, const std::optional<TuneFit>& fit);

  /// No more windows: a change without an outcome gets one, by what is known.
  void end();

  /// What the last call had to say.
  [[nodiscard]] const std::vector<TuneEvent>& events() const { return events_; }

 private:
  /// The setting at hand, and what is known of it.
  struct Stay {
    TunePoint point;                ///< of the window that ended, then of the next
    std::int64_t window = 0;        ///< that ended
    std::int64_t since_change = 0;  ///< windows at this setting
    std::int64_t steps_left = 0;    ///< of the run
    Visit visit{};                  ///< windows that count
  };
  /// A change that waits for its outcome.
  struct Change {
    TunePoint from;
    double predicted = 0;          ///< 0: nothing was
    double noise = 0;              ///< relative, of windows until then
    double selection_seconds = 0;  ///< measured
  };
  /// What a fit is made of.
  struct Recording {
    bool wanted = true;  ///< until there is enough
    bool fitting = false;
    bool running = false;  ///< in the window at hand
    std::int64_t windows = 0;
    std::int64_t steps = 0;
    int failures = 0;  ///< of fits in a row

    /// It is of one setting: it is finished before that changes.
    [[nodiscard]] bool holds_setting() const { return wanted || fitting; }
    void forget() { windows = steps = 0; }
  };
  /// What was learnt since the last drift.
  struct Learnt {
    bool has_model = false;
    double model_error = 0;  ///< relative, of the last prediction that was checked
    int refits_left = 1;
    bool has_moved = false;  ///< by choice
    Left left{};
  };
  /// The share of the current step's time that a profile explains; 0: there is no profile.
  struct Explained {
    double now = 0;
    double before = 0;  ///< by the profile before, until the last one is not doubted
  };

  void measure(const TuneWindow& seen);
  void check_drift(const TuneWindow& seen);
  void take(const TuneFit& fit);
  /// If one has just been taken and nothing was changed by it.
  void doubt_fit();
  void check_outcome();
  void judge(const Change& done);
  /// Gives up waiting for a change's outcome, and says why.
  void abandon_outcome(const char* why);
  TuneEvent& note_outcome(const Change& done, std::string reason);
  TuneEvent& note(TuneEvent::Kind kind, std::string reason);
  void follow_choice();
  void follow_limits();
  void change(const TunePoint& to, std::string reason);
  TuneOrder next_window(const TuneWindow& seen);

  TuneSettings settings_;
  Stay now_;
  SettingTimes times_;
  SelectionCost cost_;
  Learnt learnt_;
  Explained explained_;
  Recording recording_;
  DriftWatch watch_;
  DueLimit due_;
  ShareLimit shares_;
  std::optional<Change> unchecked_;
  bool something_new_ = false;
  std::vector<TuneEvent> events_;
};

}  // namespace zenflow::runtime
