/// Predicted against measured: errors of each setting, and of all that were predicted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/live_fit.h"
#include "sim/report/simulation.h"
#include "sim/schedule/live_work.h"

namespace zenflow::sim {

/// What is compared; all of one step, times in milliseconds.
struct StepFigures {
  double step = 0;
  double compute = 0;
  double stall = 0;
  double cpu_update = 0;  ///< parts of the stall
  double d2h = 0;
  double h2d = 0;
  double launch = 0;
  double d2h_bytes = 0;
  double h2d_bytes = 0;
};
[[nodiscard]] StepFigures figures_of(const SimulationResult& result);

/// A schedule and its knobs, as run and as simulated.
struct LivePoint {
  LiveKind kind = LiveKind::kZenFlow;
  double topk_ratio = 0.1;
  std::int64_t update_interval = 4;
  bool overlap = true;

  friend bool operator==(const LivePoint&, const LivePoint&) = default;
};
/// "zenflow k=0.1 S=4".
[[nodiscard]] std::string to_string(const LivePoint& point);
/// "zero-offload" or "zenflow:K:S". Throws Error(kInput) naming what is expected.
[[nodiscard]] LivePoint parse_live_point(const std::string& text);

struct ComparedPoint {
  LivePoint point;
  bool calibrated = false;  ///< its recording was fitted to: shown, not counted
  StepFigures measured{};   ///< medians of the runs
  StepFigures predicted{};
  double spread = 0;  ///< of the measured step times: (largest - smallest) / (2 median)
  std::int64_t runs = 0;

  /// Relative: 0.08 is 8 % too long.
  [[nodiscard]] double step_error() const { return predicted.step / measured.step - 1; }
  /// Of the measured step: 0.05 is 5 points.
  [[nodiscard]] double stall_error() const {
    return (predicted.stall - measured.stall) / measured.step;
  }
  [[nodiscard]] bool bytes_equal() const {
    return predicted.d2h_bytes == measured.d2h_bytes && predicted.h2d_bytes == measured.h2d_bytes;
  }
};

struct Tolerance {
  double mean_step = 0.08;
  double worst_step = 0.15;
  double worst_stall = 0.05;
};

struct ValidationSummary {
  std::int64_t predicted = 0;  ///< points that count
  double mean_step_error = 0;  ///< of absolute values
  double worst_step_error = 0;
  double worst_stall_error = 0;
  bool bytes_equal = true;
  double worst_spread = 0;  ///< of all points
  /// A spread above a third of the tolerance says more about the machine than about the prediction.
  bool too_noisy = false;
  bool within = false;
};
[[nodiscard]] ValidationSummary summarize(const std::vector<ComparedPoint>& points,
                                          const Tolerance& tolerance);

[[nodiscard]] std::string validation_table(const std::vector<ComparedPoint>& points,
                                           const ValidationSummary& summary,
                                           const Tolerance& tolerance, bool bold);
[[nodiscard]] std::string fitted_table(const LiveFit& fit, bool bold);

}  // namespace zenflow::sim
