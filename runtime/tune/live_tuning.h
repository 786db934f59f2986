/// Tunes a training while it runs: records windows, has them fitted and predicted on a thread of
/// its own, and lets the tuner decide (runtime/tune/live_tuner.h).
///
/// What it needs of a device: a track in the recorder for every name in kTuneTrackNames, with the
/// host device's operation names. What streams have done when a window ends is there
/// (Device::collect_times), in their order and without a gap; what they have yet to do is not,
/// unless the device waits for it when a recording ends (LiveTuningSettings::finish_recording).
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "runtime/machine/core_use.h"
#include "runtime/offload/engine.h"
#include "runtime/trace/recorder.h"
#include "runtime/tune/interval_controller.h"
#include "runtime/tune/live_tuner.h"

namespace zenflow::runtime {

struct LiveTuningSettings {
  LiveModelSettings model;
  TuneSettings tuner;
  IntervalLimits importance;
  std::vector<double> topk_ratios;  ///< that may be chosen, ascending
  std::int64_t steps = 0;           ///< of the run
  /// What would be deferred with each of them, by the column norms that the engine has.
  std::function<std::vector<double>(const std::vector<double>& topk_ratios)> shares_of_norms{};
  /// What ranks took to exchange in the steps from `first_step` up to the one at hand. Empty where
  /// there is one rank.
  std::function<std::vector<sim::CollectiveSample>(std::int64_t first_step)> exchanges{};
  /// Called before what has been recorded is taken: Device::collect_all_times. May be empty.
  std::function<void()> finish_recording{};
  /// What other programs use of the CPUs named while windows are recorded. Empty where the
  /// device is not the host: then they are not asked for.
  std::function<CoreReading()> read_cores{};
  std::vector<int> cpus{};
  bool wait_for_fits = false;  ///< at the next window's end: for tests
};

/// A window as it went, for the log.
struct TunedWindow {
  std::int64_t window = 0;
  std::int64_t first_step = 0;
  TunePoint point;
  bool recorded = false;
  double step_seconds = 0;
  std::int64_t importance_due = 0;  ///< steps; 0: not known
  double deferred_share = 0;        ///< of matrices' squared gradient norm, if importance is known
  double selection_seconds = 0;     ///< of the last step
};

/// What a run's report has of it.
struct TuningLog {
  std::vector<TuneEvent> events;
  std::vector<TunedWindow> windows;
};

class LiveTuning {
 public:
  /// `recorder` keeps spans while the tuner wants them; on_event is called by `window_ended`.
  LiveTuning(LiveTuningSettings settings, Recorder& recorder,
             std::function<void(const TuneEvent&)> on_event);
  /// Waits for a fit under way: tens of milliseconds.
  ~LiveTuning();
  LiveTuning(const LiveTuning&) = delete;
  LiveTuning& operator=(const LiveTuning&) = delete;

  /// At a window's end, within its last step, which began at `step_start`: the setting of the next
  /// one.
  [[nodiscard]] TunePoint window_ended(const WindowObservation& seen, Clock::time_point step_start);

  /// Between two steps: from `begin` to `end` the process was suspended, and others had the cores.
  void suspended(const CoreReading& begin, const CoreReading& end);

  /// After the last window.
  void end();

  /// Whether the window that has begun is recorded.
  [[nodiscard]] bool is_recording() const { return recording_from_ >= 0; }

  [[nodiscard]] const TuningLog& log() const { return log_; }

 private:
  /// By track, since the call before; of the first one nothing is known: what came before the
  /// window that it is for counts, too.
  [[nodiscard]] std::array<double, kTuneTracks> busy_since_last();
  /// For every ratio, from the share that is deferred now: it grows and falls with k as it does by
  /// the column norms of the last selection. Without such norms larger ratios have the share that
  /// is deferred now, which they cannot exceed, and smaller ones are not known.
  [[nodiscard]] std::vector<DeferredShare> deferred_shares(const WindowObservation& seen,
                                                           const IntervalDecision& importance);
  /// From the step that recording began with up to the one at hand.
  [[nodiscard]] LiveWindows recorded(const TunePoint& point, const RecordedStep& at_hand) const;
  void start_recording(std::int64_t step);
  /// Cores that other programs used since the call that said so last, a tenth of a second ago or
  /// more; nothing: that was later. No burst is in two answers.
  [[nodiscard]] std::optional<double> used_lately();
  void log_events();
  void start_fit(LiveWindows windows);

  LiveTuningSettings settings_;
  Recorder& recorder_;
  std::function<void(const TuneEvent&)> on_event_;
  LiveTuner tuner_;
  std::vector<TunePoint> points_;
  std::array<const TrackRecorder*, kTuneTracks> tracks_{};
  std::optional<std::array<double, kTuneTracks>> busy_;  ///< so far, at the last call
  std::int64_t recording_from_ = -1;                     ///< step; -1: nothing is recorded
  Clock::time_point recording_began_;
  CoreReading cores_then_;                   ///< when that began
  std::optional<CoreReading> cores_lately_;  ///< when used_lately answered last
  std::int64_t norms_step_ = -1;             ///< that the following are of
  std::vector<double> shares_of_norms_;      ///< by ratio
  std::future<TuneFit> fit_;
  TuningLog log_;
};

}  // namespace zenflow::runtime
