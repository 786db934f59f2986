#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/accuracy/comparison.h"
#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

constexpr const char* kUnknown = "n/a";

std::string text_of(const StepFigures& figures, Metric metric) {
  return figures[metric] ? format_metric(metric, *figures[metric]) : kUnknown;
}

std::string bytes_text(const ComparedSetting& one, const Tolerance& tolerance) {
  const std::optional<bool> within = one.bytes_within(tolerance.bytes.value_or(0));
  if (!within) return kUnknown;
  const double error = *one.bytes_error();
  if (error == 0) return "equal";
  return *within ? fmt::format("{:.2g} % off", 100 * error) : "DIFFER";
}

std::string settings_table(const std::vector<ComparedSetting>& settings, const Tolerance& tolerance,
                           bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedSetting& one : settings) {
    rows.push_back(
        {one.name, one.calibrated ? "fitted" : "predicted", text_of(one.measured, Metric::kStep),
         text_of(one.predicted, Metric::kStep), signed_percent(one.error(Metric::kStep)),
         text_of(one.measured, Metric::kCompute), text_of(one.predicted, Metric::kCompute),
         text_of(one.measured, Metric::kStall), text_of(one.predicted, Metric::kStall),
         signed_percent(one.error(Metric::kStall), " pt"), bytes_text(one, tolerance),
         one.runs ? one.runs_text() : kUnknown, one.spread ? one.spread_text() : kUnknown});
  }
  return format_table({"setting", "", "step ms", "predicted", "error", "GPU ms", "predicted",
                       "stall ms", "predicted", "of step", "bytes", "runs", "spread"},
                      rows, bold);
}

std::vector<std::string> metric_row(const std::string& title, const MetricError& one) {
  const char* unit = is_share_of_step(one.metric) ? " pt" : " %";
  return {title, fmt::format("{:.2f}{}", 100 * one.mean, unit), signed_percent(one.worst, unit, 2),
          one.worst == 0 ? "" : one.worst_setting, std::to_string(one.settings)};
}

std::string metrics_table(const ValidationSummary& summary, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const MetricError& one : summary.metrics) {
    rows.push_back(metric_row(title_of(one.metric), one));
    if (one.metric == Metric::kStep && summary.window_steps) {
      rows.push_back(metric_row("single steps of a window", *summary.window_steps));
    }
  }
  return format_table({"of what was predicted", "mean error", "worst", "of", "settings"}, rows,
                      bold);
}

std::string limit_text(const std::optional<double>& limit) {
  return limit ? fmt::format("at most {:g}", 100 * *limit) : "not judged";
}

std::string bytes_judgement(const ValidationSummary& summary, const Tolerance& tolerance) {
  if (!summary.bytes_equal) return "bytes of some settings unknown";
  if (!*summary.bytes_equal) return "bytes differ";
  if (summary.worst_bytes_error == 0.0) return "bytes equal";
  return fmt::format("bytes equal within {:g} %", 100 * tolerance.bytes.value_or(0));
}

std::string judgement(const ValidationSummary& summary, const Tolerance& tolerance) {
  const std::string stall =
      summary.worst_stall_error
          ? fmt::format("{:.1f} points at worst", 100 * *summary.worst_stall_error)
          : "unknown";
  return fmt::format(
      "{} predicted: step time {:.1f} % off in the mean (at most {:g}), {:.1f} % at worst (at most "
      "{:g}); stall {} ({}); {}{}\n",
      summary.predicted, 100 * summary.mean_step_error, 100 * tolerance.mean_step,
      100 * summary.worst_step_error, 100 * tolerance.worst_step, stall,
      limit_text(tolerance.worst_stall), bytes_judgement(summary, tolerance),
      tolerance.bytes ? "" : " (not judged)");
}

std::string noise(const std::vector<ComparedSetting>& settings, const ValidationSummary& summary) {
  const bool is_known = std::any_of(settings.begin(), settings.end(),
                                    [](const ComparedSetting& one) { return one.spread; });
  if (!is_known) return "One run of each setting: how noisy the machine is, is not known.\n";
  if (!summary.too_noisy) return "";
  return fmt::format(
      "The machine is too noisy to judge by: runs of one setting differ by {:.1f} % of their "
      "median, more than a third of the tolerance.\n",
      100 * summary.worst_spread);
}

}  // namespace

std::string validation_table(const std::vector<ComparedSetting>& settings,
                             const ValidationSummary& summary, const Tolerance& tolerance,
                             bool bold) {
  std::string text = settings_table(settings, tolerance, bold);
  if (!summary.metrics.empty()) text += "\n" + metrics_table(summary, bold);
  if (!summary.not_told.empty()) {
    text += "\nnot told by what was measured:";
    const char* separator = " ";
    for (const Metric metric : summary.not_told) {
      text += separator + title_of(metric);
      separator = ", ";
    }
    text += "\n";
  }
  return text + "\n" + judgement(summary, tolerance) + noise(settings, summary);
}

}  // namespace zenflow::sim
