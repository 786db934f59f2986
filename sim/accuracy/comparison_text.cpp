#include <cmath>

#include <fmt/format.h>

#include "sim/accuracy/comparison.h"
#include "sim/report/table.h"

namespace zenflow::sim {
namespace {

constexpr const char* kUnknown = "n/a";

std::string text_of(const StepFigures& figures, Metric metric) {
  return figures[metric] ? format_metric(metric, *figures[metric]) : kUnknown;
}

std::string signed_percent(const std::optional<double>& share, const char* unit) {
  return share ? fmt::format("{:+.1f} {}", 100 * *share, unit) : kUnknown;
}

std::string bytes_text(const ComparedSetting& one, const Tolerance& tolerance) {
  const std::optional<double> error = one.bytes_error();
  if (!error) return kUnknown;
  if (*error == 0) return "equal";
  if (*error <= tolerance.bytes) return fmt::format("{:.2g} % off", 100 * *error);
  return "DIFFER";
}

std::string settings_table(const std::vector<ComparedSetting>& settings, const Tolerance& tolerance,
                           bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedSetting& one : settings) {
    rows.push_back({one.name, one.calibrated ? "fitted" : "predicted",
                    text_of(one.measured, Metric::kStep), text_of(one.predicted, Metric::kStep),
                    signed_percent(one.step_error(), "%"), text_of(one.measured, Metric::kCompute),
                    text_of(one.predicted, Metric::kCompute), text_of(one.measured, Metric::kStall),
                    text_of(one.predicted, Metric::kStall), signed_percent(one.stall_error(), "pt"),
                    bytes_text(one, tolerance), one.runs ? std::to_string(*one.runs) : kUnknown,
                    one.spread ? fmt::format("{:.1f} %", 100 * *one.spread) : kUnknown});
  }
  return format_table({"setting", "", "step ms", "predicted", "error", "GPU ms", "predicted",
                       "stall ms", "predicted", "of step", "bytes", "runs", "spread"},
                      rows, bold);
}

std::vector<std::string> metric_row(const std::string& title, const MetricError& one) {
  const char* unit = is_share_of_step(one.metric) ? "pt" : "%";
  return {title, fmt::format("{:.2f} {}", 100 * one.mean, unit),
          fmt::format("{:+.2f} {}", 100 * one.worst, unit), one.worst_setting,
          std::to_string(one.settings)};
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
  text += fmt::format(
      "\n{} predicted: step time {:.1f} % off in the mean (at most {:.0f}), {:.1f} % at worst (at "
      "most {:.0f})",
      summary.predicted, 100 * summary.mean_step_error, 100 * tolerance.mean_step,
      100 * summary.worst_step_error, 100 * tolerance.worst_step);
  if (summary.worst_stall_error) {
    text += fmt::format("; stall {:.1f} points at worst (at most {:.0f})",
                        100 * *summary.worst_stall_error, 100 * tolerance.worst_stall);
  }
  if (summary.worst_bytes_error) {
    text += summary.bytes_equal ? "; bytes equal" : "; bytes differ";
    if (summary.bytes_equal && tolerance.bytes > 0) {
      text += fmt::format(" within {:g} %", 100 * tolerance.bytes);
    }
  }
  text += "\n";
  if (summary.too_noisy) {
    text += fmt::format(
        "The machine is too noisy to judge by: runs of one setting differ by {:.1f} % from their "
        "median, more than a third of the tolerance.\n",
        100 * summary.worst_spread);
  }
  return text;
}

}  // namespace zenflow::sim
