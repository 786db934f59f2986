#include "sim/accuracy/page_results.h"

#include <cmath>

#include <fmt/format.h>

namespace zenflow::sim {
namespace {

constexpr const char* kUnknown = "n/a";

std::string ms(const StepFigures& figures, Metric metric) {
  return figures[metric] ? fmt::format("{:.1f}", *figures[metric]) : kUnknown;
}

std::string signed_number(const std::optional<double>& share, const char* unit) {
  return share ? fmt::format("{:+.1f}{}", 100 * *share, unit) : kUnknown;
}

std::string bytes_text(const ComparedSetting& one) {
  const std::optional<double> error = one.bytes_error();
  if (!error) return kUnknown;
  if (*error == 0) return "equal";
  return std::isfinite(*error) ? fmt::format("{:.2g} % off", 100 * *error) : "differ";
}

std::string settings_table(const ValidationDocument& document) {
  std::string text =
      "| setting | | step, measured | predicted | error | compute, measured | predicted | stall, "
      "measured | predicted | error, points of the step | bytes |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ComparedSetting& one : document.settings) {
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", one.name,
                        one.calibrated ? "fitted to" : "", ms(one.measured, Metric::kStep),
                        ms(one.predicted, Metric::kStep), signed_number(one.step_error(), " %"),
                        ms(one.measured, Metric::kCompute), ms(one.predicted, Metric::kCompute),
                        ms(one.measured, Metric::kStall), ms(one.predicted, Metric::kStall),
                        signed_number(one.stall_error(), ""), bytes_text(one));
  }
  return text;
}

std::string metric_line(const std::string& title, const MetricError& one) {
  const char* unit = is_share_of_step(one.metric) ? "points" : "%";
  return fmt::format("| {} | {:.1f} {} | {:+.1f} {} | {} |\n", title, 100 * one.mean, unit,
                     100 * one.worst, unit, one.worst_setting);
}

std::string metrics_table(const ValidationSummary& summary) {
  if (summary.metrics.empty()) return "";
  std::string text =
      "\nMean of the absolute errors of what was predicted, and the worst; of stalls and phases "
      "in points of the step:\n\n| | mean | worst | of |\n|---|---|---|---|\n";
  for (const MetricError& one : summary.metrics) {
    text += metric_line(title_of(one.metric), one);
    if (one.metric == Metric::kStep && summary.window_steps) {
      text += metric_line("single steps of a window", *summary.window_steps);
    }
  }
  return text;
}

std::string not_told(const ValidationSummary& summary) {
  if (summary.not_told.empty()) return "";
  std::vector<std::string> titles;
  for (const Metric metric : summary.not_told) titles.push_back(title_of(metric));
  return fmt::format("\nNot in what was measured: {}.\n", fmt::join(titles, ", "));
}

std::string judgement(const ValidationDocument& document) {
  const ValidationSummary& s = document.summary;
  const Tolerance& limit = document.tolerance;
  std::string text =
      fmt::format("\n{} settings predicted. Step time: mean {:.1f} %, worst {:.1f} %", s.predicted,
                  100 * s.mean_step_error, 100 * s.worst_step_error);
  if (s.worst_stall_error) {
    text += fmt::format("; stall at worst {:.1f} points of the step", 100 * *s.worst_stall_error);
  }
  text += s.bytes_equal ? "; bytes over the link equal" : "; bytes over the link differ";
  if (s.worst_spread > 0) {
    text += fmt::format("; runs of one setting differ by up to {:.1f} %", 100 * s.worst_spread);
  }
  return text +
         fmt::format(". {} (mean {:g} %, worst {:g} %, stall {:g} points{}).\n",
                     s.within ? "Within the tolerance" : "**Outside the tolerance**",
                     100 * limit.mean_step, 100 * limit.worst_step, 100 * limit.worst_stall,
                     limit.bytes > 0 ? fmt::format(", bytes {:g} %", 100 * limit.bytes) : "");
}

}  // namespace

std::string results_text(const ValidationDocument& document) {
  const MeasurementOrigin& origin = document.origin;
  std::string text = fmt::format(
      "`{}`, {}, {}. Device {}, predicted by version {}. Milliseconds, medians of the runs; what "
      "is marked as fitted to is what the profile's constants come from.\n\n",
      origin.command, origin.date, origin.machine, origin.device, document.version);
  text += settings_table(document) + metrics_table(document.summary) + not_told(document.summary) +
          judgement(document);
  for (const std::string& remark : origin.remarks) text += "\n" + remark + "\n";
  return text;
}

}  // namespace zenflow::sim
