/// From a recording of a running training to predictions of all settings it could have, in memory.
///
/// The recording is fitted (sim/calibrate/live_fit.h) on top of a profile that knows nothing but
/// the machine's cores: what a recording does not determine keeps values that make it negligible.
/// Then schedule live-zenflow is simulated for every setting.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/tune/live_tuner.h"
#include "sim/schedule/job.h"
#include "sim/trace/timeline.h"

namespace zenflow::runtime {

/// What all settings of a run have in common.
struct LiveModelSettings {
  sim::ModelSpec model;
  sim::TrainingSettings training;
  std::int64_t cores = 1;              ///< of the machine
  std::int64_t device_cores = 1;       ///< threads of forward and backward; 0: the device is a GPU
  std::int64_t optimizer_threads = 1;  ///< of the CPU optimizer
  bool overlap_step = true;
};

/// Rates of a machine of which nothing is known; "host" or a GPU alike.
[[nodiscard]] sim::HardwareProfile unknown_machine(const LiveModelSettings& settings);

/// The run at `point` on `hardware`, its warm-up over at `first_step`.
[[nodiscard]] sim::Job live_job(const LiveModelSettings& settings, const TunePoint& point,
                                const sim::HardwareProfile& hardware, std::int64_t first_step = 0);

/// Windows of one setting as a Recorder has them; the first begins at `first_step`.
struct LiveWindows {
  TunePoint point;
  std::int64_t first_step = 0;
  sim::Timeline timeline;
};

/// Throws Error(kInput) if the recording is not of the model and setting.
[[nodiscard]] sim::HardwareProfile fit_windows(const LiveModelSettings& settings,
                                               const LiveWindows& windows);
[[nodiscard]] std::vector<TunePrediction> predict(const LiveModelSettings& settings,
                                                  const sim::HardwareProfile& hardware,
                                                  const std::vector<TunePoint>& points);
/// Both; what they throw becomes `failure`.
[[nodiscard]] TuneFit fit_and_predict(const LiveModelSettings& settings, const LiveWindows& windows,
                                      const std::vector<TunePoint>& points);

}  // namespace zenflow::runtime
