/// Predicted against measured: errors of each setting, and of all that were predicted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/accuracy/step_figures.h"

namespace zenflow::sim {

/// What is missed of a step by less is not looked into.
inline constexpr double kMissWorthALook = 0.05;

/// One setting of a scenario: what was measured of it, and what is predicted.
struct ComparedSetting {
  std::string name;         ///< "zenflow k=0.1 S=4"
  std::string schedule;     ///< "live-zenflow"
  bool calibrated = false;  ///< its recording was fitted to: shown, not counted
  StepFigures measured{};   ///< medians of the runs that count
  StepFigures predicted{};
  /// Step times of the runs that count, in milliseconds; empty: not kept.
  std::vector<double> run_times{};
  /// Step times of the runs before those, made until the newest agreed; empty: none, or not kept.
  std::vector<double> earlier_run_times{};
  /// How far those lie apart: run_spread. Unknown of a single run.
  std::optional<double> spread{};
  std::optional<std::int64_t> runs{};  ///< made in all

  /// The larger of both directions', relative; infinite where nothing was to be moved. A direction
  /// that is not known on both sides has none.
  [[nodiscard]] std::optional<double> bytes_error() const;
  /// Whether the bytes of both directions are right to within `tolerance`, relative. Unknown if
  /// those of a direction are not known on both sides, unless the other direction's are wrong.
  [[nodiscard]] std::optional<bool> bytes_within(double tolerance) const;
  /// The errors of a window's steps one by one, relative to the measured step's mean; empty where
  /// they are not known.
  [[nodiscard]] std::vector<double> errors_in_window() const;
  /// Relative, of parts of the stall and phases in shares of the measured step.
  [[nodiscard]] std::optional<double> error(Metric metric) const;
  /// The part of the step that is off by most in the direction in which the step is off: of a log
  /// forward, backward or step(), else what the GPU computes or waits for. Nothing where the step
  /// is less than kMissWorthALook off or no part is known on both sides.
  [[nodiscard]] std::optional<Metric> first_to_look_at() const;
  /// run_spread of all runs, those included that do not count; unknown if there are none of these.
  [[nodiscard]] std::optional<double> spread_of_all() const;
  /// "3", "newest 3 of 8" where not all count; empty: unknown.
  [[nodiscard]] std::string runs_text() const;
  /// "0.5 %", "0.5 % (all runs: 12.1 %)"; empty: unknown.
  [[nodiscard]] std::string spread_text() const;
};

/// Whether ComparedSetting::error is a share of the step.
[[nodiscard]] bool is_share_of_step(Metric metric);

struct Tolerance {
  double mean_step = 0.08;
  double worst_step = 0.15;
  /// None: not judged. Otherwise what is not known is not within it.
  std::optional<double> worst_stall = 0.05;
  std::optional<double> bytes = 0;  ///< 0: exact; none as above
};

/// In place of a percentage: not judged.
inline constexpr const char* kNotJudged = "any";
/// Percent, as flags have them; empty: what is promised.
struct ToleranceFlags {
  std::optional<double> tolerance;
  std::optional<double> worst;
  std::string stall;  ///< or kNotJudged
  std::string bytes;  ///< likewise
};
/// What predictions are held against.
enum class MeasuredBy { kTraces, kHostDevice, kGpu };
/// What is given; else what is promised: of the host device 8 % in the mean, 15 % at worst, 5 % of
/// the step for the stall and the bytes exactly; of a GPU that trains here 3 %, 8 % and 0.1 % of
/// the bytes, the stall not judged; of traces as of the host device, with 0.1 % of the bytes.
[[nodiscard]] Tolerance tolerance_of(const ToleranceFlags& flags, MeasuredBy measured);

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
  std::optional<double> worst_stall_error;  ///< unknown unless every setting that counts has one
  std::optional<double> worst_bytes_error;  ///< of all settings, as far as they are known
  /// ComparedSetting::bytes_within of all settings; without a tolerance: equal.
  std::optional<bool> bytes_equal;
  std::vector<MetricError> metrics;
  std::optional<MetricError> window_steps;  ///< errors of single steps of windows
  std::vector<Metric> not_told;             ///< that no measurement has
  double worst_spread = 0;                  ///< of all settings
  /// A spread above a third of the tolerance says more about the machine than about the prediction.
  bool too_noisy = false;
  bool within = false;
};
[[nodiscard]] ValidationSummary summarize(const std::vector<ComparedSetting>& settings,
                                          const Tolerance& tolerance);

/// How far runs' step times lie apart: (largest - smallest) / median; 0 for one value.
/// Precondition: at least one.
[[nodiscard]] double run_spread(std::vector<double> times);

/// Settings, then each metric's errors, then the judgement.
[[nodiscard]] std::string validation_table(const std::vector<ComparedSetting>& settings,
                                           const ValidationSummary& summary,
                                           const Tolerance& tolerance, bool bold);

}  // namespace zenflow::sim
