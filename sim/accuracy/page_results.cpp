#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/accuracy/page.h"
#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

constexpr const char* kUnknown = "n/a";

std::string ms(const StepFigures& figures, Metric metric) {
  return figures[metric] ? fmt::format("{:.1f}", *figures[metric]) : kUnknown;
}

std::string bytes_text(const ComparedSetting& one, const Tolerance& tolerance) {
  const std::optional<bool> within = one.bytes_within(tolerance.bytes.value_or(0));
  if (!within) return "unknown";
  const double error = *one.bytes_error();
  if (error == 0) return "equal";
  return std::isfinite(error) ? fmt::format("{:.2g} % off", 100 * error) : "differ";
}

std::string settings_table(const ValidationDocument& document) {
  std::string text =
      "| setting | | step, measured | predicted | error | compute, measured | predicted | stall, "
      "measured | predicted | error, points of the step | bytes | runs | spread |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ComparedSetting& one : document.settings) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n",
                    one.name, one.calibrated ? "fitted to" : "", ms(one.measured, Metric::kStep),
                    ms(one.predicted, Metric::kStep), signed_percent(one.error(Metric::kStep)),
                    ms(one.measured, Metric::kCompute), ms(one.predicted, Metric::kCompute),
                    ms(one.measured, Metric::kStall), ms(one.predicted, Metric::kStall),
                    signed_percent(one.error(Metric::kStall), ""),
                    bytes_text(one, document.tolerance), one.runs_text(), one.spread_text());
  }
  return text;
}

std::string metric_line(const std::string& title, const MetricError& one) {
  const char* unit = is_share_of_step(one.metric) ? " points" : " %";
  return fmt::format("| {} | {:.1f}{} | {} | {} |\n", title, 100 * one.mean, unit,
                     signed_percent(one.worst, unit), one.worst == 0 ? "" : one.worst_setting);
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

std::string bytes_judgement(const ValidationSummary& summary, const Tolerance& limit) {
  if (!summary.bytes_equal) return "bytes over the link of some settings unknown";
  if (!*summary.bytes_equal) return "bytes over the link differ";
  if (summary.worst_bytes_error == 0.0) return "bytes over the link equal";
  return fmt::format("bytes over the link equal within {:g} %", 100 * limit.bytes.value_or(0));
}

/// Two measures of how far runs of one setting lie apart (read_document).
std::string spread_text(const ValidationDocument& document) {
  const double spread = 100 * document.summary.worst_spread;
  if (spread == 0) return "one run of each setting, so noise is not known";
  const bool is_range =
      std::any_of(document.settings.begin(), document.settings.end(),
                  [](const ComparedSetting& one) { return one.run_times.size() > 1; });
  return is_range
             ? fmt::format(
                   "the runs of one setting that count differ by up to {:.1f} % of their "
                   "median",
                   spread)
             : fmt::format(
                   "half the width of the middle half of one setting's runs is up to {:.1f} % of "
                   "their median",
                   spread);
}

std::string judgement(const ValidationDocument& document) {
  const ValidationSummary& s = document.summary;
  const Tolerance& limit = document.tolerance;
  const auto limited = [](const char* what, const std::optional<double>& share, const char* unit) {
    return share ? fmt::format(", {} {:g} {}", what, 100 * *share, unit)
                 : fmt::format(", {} not judged", what);
  };
  return fmt::format(
      "\n{} settings predicted. Step time: mean {:.1f} %, worst {:.1f} %; stall {}; {}; {}. {} "
      "(mean "
      "{:g} %, worst {:g} %{}{}).\n",
      s.predicted, 100 * s.mean_step_error, 100 * s.worst_step_error,
      s.worst_stall_error
          ? fmt::format("at worst {:.1f} points of the step", 100 * *s.worst_stall_error)
          : "unknown",
      bytes_judgement(s, limit), spread_text(document),
      s.within ? "Within the tolerance" : "**Outside the tolerance**", 100 * limit.mean_step,
      100 * limit.worst_step, limited("stall", limit.worst_stall, "points"),
      limit.bytes == 0.0 ? ", bytes exact" : limited("bytes", limit.bytes, "%"));
}

}  // namespace

std::string results_text(const ValidationDocument& document) {
  const MeasurementOrigin& origin = document.origin;
  std::string text = fmt::format(
      "`{}`, {}, {}. Device {}, predicted by version {}. Times are milliseconds, those measured "
      "are "
      "medians of the runs that count. The profile's constants come from the settings marked "
      "\"fitted "
      "to\".\n\n",
      origin.command, origin.date, origin.machine, origin.device, document.version);
  text += settings_table(document) + metrics_table(document.summary) + not_told(document.summary) +
          judgement(document);
  for (const std::string& remark : origin.remarks) text += "\n" + remark + "\n";
  return text;
}

}  // namespace zenflow::sim
