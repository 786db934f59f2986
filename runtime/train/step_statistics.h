/// How long steps took and what the compute stream waited for.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/device/device.h"
#include "runtime/trace/recorder.h"

namespace zenflow::runtime {

/// The times of one step, in seconds; compute, the causes and `launch` add up to `total`.
struct StepTimes {
  double total = 0;
  double compute = 0;
  double cpu_update = 0;
  double d2h = 0;
  double h2d = 0;
  double collective = 0;
  double launch = 0;  ///< the rest: nothing was enqueued
};

/// A regular window's last step.
struct WindowEnd {
  std::int64_t steps = 0;  ///< S
  TrafficCount traffic;    ///< so far: StepResult::window_traffic
};

/// Means over the steps that count: whole windows after the warm-up and two more, which lack what
/// later ones wait for; all steps if there are no others.
struct StepMeans {
  StepTimes mean;
  std::int64_t steps = 0;
  std::vector<double> last_window;  ///< seconds of each step of the last whole window
  /// Bytes over the link in these steps; none if they are all steps: only the run's end, when all
  /// has settled, says what those have moved.
  std::optional<TrafficCount> traffic;
};

class StepStatistics {
 public:
  StepStatistics(const TrackRecorder& compute, const TrackRecorder& training_thread);

  /// At the beginning of a step, and at its end; `window` if it was a regular window's last one.
  void begin();
  void end(const std::optional<WindowEnd>& window);
  /// The same of a run's last step, which counts in no mean: it did not take the time it would.
  void end_uncounted();

  [[nodiscard]] const StepTimes& last() const { return steps_.back(); }
  /// When the last step began (the one at hand between `begin` and `end`), and ended.
  [[nodiscard]] Clock::time_point last_start() const { return start_; }
  [[nodiscard]] Clock::time_point last_end() const { return end_; }
  [[nodiscard]] StepMeans means() const;

 private:
  const TrackRecorder& compute_;
  const TrackRecorder& training_thread_;
  [[nodiscard]] StepTimes times_until_now();

  Clock::time_point start_;
  Clock::time_point end_;
  TrackRecorder::Totals compute_start_;
  TrackRecorder::Totals training_start_;
  std::vector<StepTimes> steps_;
  std::size_t uncounted_ = 0;  // at the end of steps_
  struct Window {
    std::size_t begin;
    std::size_t end;  // one past the last step
    TrafficCount traffic;
  };
  std::vector<Window> windows_;
};

}  // namespace zenflow::runtime
