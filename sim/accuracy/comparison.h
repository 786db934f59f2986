/// Predicted against measured: errors of each setting, and of all that were predicted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/accuracy/step_figures.h"

namespace zenflow::sim {

/// One setting of a scenario: what was measured of it, and what is predicted.
struct ComparedSetting {
  std::string name;         ///< "zenflow k=0.1 S=4"
  std::string schedule;     ///< "live-zenflow"
  bool calibrated = false;  ///< its recording was fitted to: shown, not counted
  StepFigures measured{};   ///< medians of the runs
  StepFigures predicted{};
  /// Of the measured step times: of their middle half, relative. Unknown if there is one.
  std::optional<double> spread{};
  std::optional<std::int64_t> runs{};
  /// Errors as a table of rounded figures stated them: they take precedence.
  std::optional<double> stated_step_error{};
  std::optional<double> stated_stall_error{};
  std::optional<bool> stated_bytes_equal{};

  /// Relative: 0.08 is 8 % too long.
  [[nodiscard]] std::optional<double> step_error() const;
  /// Of the measured step: 0.05 is 5 points.
  [[nodiscard]] std::optional<double> stall_error() const;
  /// The larger of both directions', relative; infinite where nothing was to be moved.
  [[nodiscard]] std::optional<double> bytes_error() const;
  /// The errors of a window's steps one by one, relative to the measured step's mean; empty where
  /// they are not known.
  [[nodiscard]] std::vector<double> errors_in_window() const;
  /// Relative, of parts of the stall and phases in shares of the measured step.
  [[nodiscard]] std::optional<double> error(Metric metric) const;
};

/// Whether ComparedSetting::error is a share of the step.
[[nodiscard]] bool is_share_of_step(Metric metric);

struct Tolerance {
  double mean_step = 0.08;
  double worst_step = 0.15;
  double worst_stall = 0.05;
  double bytes = 0;  ///< 0: exact
};

/// Over the settings that were predicted and of which both sides are known. A metric that is 0
/// everywhere, on both sides, has none.
struct MetricError {
  Metric metric;
  std::int64_t settings = 0;
  double mean = 0;   ///< of absolute values
  double worst = 0;  ///< with its sign
  std::string worst_setting;
};

struct ValidationSummary {
  std::int64_t predicted = 0;  ///< settings that count
  double mean_step_error = 0;  ///< of absolute values
  double worst_step_error = 0;
  std::optional<double> worst_stall_error;  ///< unknown: no measurement tells the stall
  std::optional<double> worst_bytes_error;
  bool bytes_equal = true;  ///< within the tolerance, of all settings
  std::vector<MetricError> metrics;
  std::optional<MetricError> window_steps;  ///< errors of single steps of windows
  std::vector<Metric> not_told;             ///< that no measurement tells
  double worst_spread = 0;                  ///< of all settings
  /// A spread above a third of the tolerance says more about the machine than about the prediction.
  bool too_noisy = false;
  bool within = false;
};
[[nodiscard]] ValidationSummary summarize(const std::vector<ComparedSetting>& settings,
                                          const Tolerance& tolerance);

/// Half the width of the middle half, relative to the median; 0 for one value.
/// Precondition: at least one.
[[nodiscard]] double middle_spread(std::vector<double> values);

/// Settings, then each metric's errors, then the judgement.
[[nodiscard]] std::string validation_table(const std::vector<ComparedSetting>& settings,
                                           const ValidationSummary& summary,
                                           const Tolerance& tolerance, bool bold);

}  // namespace zenflow::sim
