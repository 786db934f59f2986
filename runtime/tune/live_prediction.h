/// From a recording of a running training to predictions of all settings it could have, in memory.
///
/// The recording is fitted (sim/calibrate/live_fit.h) on top of a profile that knows nothing but
/// the machine's cores: what a recording does not determine keeps values that make it negligible.
/// Then schedule live-zenflow is simulated for every setting, beside as many threads of other
/// programs as there were.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/rank_collectives.h"
#include "sim/schedule/job.h"
#include "sim/trace/timeline.h"

namespace zenflow::runtime {

/// What is tuned. In the order of risk: less staleness first, then more columns in time.
struct TunePoint {
  std::int64_t update_interval = 4;
  double topk_ratio = 0.1;

  friend bool operator==(const TunePoint&, const TunePoint&) = default;
  friend bool operator<(const TunePoint& a, const TunePoint& b) {
    if (a.update_interval != b.update_interval) return a.update_interval < b.update_interval;
    return a.topk_ratio > b.topk_ratio;
  }
};

struct TunePrediction {
  TunePoint point;
  double step_seconds = 0;
};

/// What a fit of the recording that was asked for has come to.
struct TuneFit {
  std::vector<TunePrediction> predictions;  ///< of all settings that may be chosen
  std::string failure;                      ///< why there are none
  /// By the same profile: to carry weights and moments of all columns over the link once, and to
  /// pass over the host's once. For what a change of topk_ratio takes.
  double carry_seconds = 0;
  double reorder_seconds = 0;
  double seconds = 0;  ///< that fit and predictions took
  /// Cores that other programs used while it was recorded; nothing: not known, and taken for none.
  std::optional<double> other_cores{};
  double other_threads = 0;  ///< how many of them that were found to be
  std::string remark{};      ///< why other_cores is not known, where it should be
};

/// What all settings of a run have in common.
struct LiveModelSettings {
  sim::ModelSpec model;
  sim::TrainingSettings training;
  std::int64_t cores = 1;         ///< of the machine, for all ranks
  std::int64_t device_cores = 1;  ///< threads of forward and backward; 0: the device is a GPU
  std::int64_t ranks = 1;         ///< that train together; recordings are rank 0's
  sim::OffloadSetup offload;      ///< but for the point, that a prediction is of
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
  /// TuneFit's: while they ran.
  std::optional<double> other_cores{};
  std::string remark{};
  std::vector<sim::CollectiveSample> collectives{};  ///< of several ranks
};

/// What a recording shows a training to run on.
struct LiveMachine {
  sim::HardwareProfile hardware;
  double other_threads = 0;    ///< of other programs, that want a core all the time
  double update_slowdown = 0;  ///< LiveFit's: seconds a window at `recorded`
  TunePoint recorded{};        ///< the recording's setting
};

/// Throws Error(kInput) if the recording is not of the model and setting.
[[nodiscard]] LiveMachine fit_windows(const LiveModelSettings& settings,
                                      const LiveWindows& windows);

/// `machine.update_slowdown` comes once a window, as 1 - topk_ratio, what is deferred, is larger,
/// and makes a step longer by that times the share of it in which the device computes.
[[nodiscard]] std::vector<TunePrediction> predict(const LiveModelSettings& settings,
                                                  const LiveMachine& machine,
                                                  const std::vector<TunePoint>& points);
/// Both; what they throw becomes `failure`.
[[nodiscard]] TuneFit fit_and_predict(const LiveModelSettings& settings, const LiveWindows& windows,
                                      const std::vector<TunePoint>& points);

}  // namespace zenflow::runtime
