/// Predicted against measured: errors of each setting, and of all that were predicted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/calibrate/live_fit.h"
#include "sim/calibrate/live_point.h"
#include "sim/report/simulation.h"
#include "sim/schedule/live_work.h"

namespace zenflow::sim {

[[nodiscard]] StepFigures figures_of(const SimulationResult& result);

struct ComparedPoint {
  LivePoint point;
  bool calibrated = false;  ///< its recording was fitted to: shown, not counted
  StepFigures measured{};   ///< medians of the runs
  StepFigures predicted{};
  double spread =
      0;  ///< of the measured step times: of their middle half, relative; 0 if there is one
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
[[nodiscard]] inline std::string fitted_table(const LiveFit& fit, bool bold) {
  return fitted_table(fit.numbers, bold);
}

}  // namespace zenflow::sim
