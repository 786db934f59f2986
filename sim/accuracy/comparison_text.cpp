#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/accuracy/comparison.h"
#include "sim/accuracy/page.h"
#include "sim/base/table.h"

namespace zenflow::sim {
namespace {

constexpr const char* kUnknown = "n/a";

std::string text_of(const StepFigures& figures, Metric metric) {
  return figures[metric] ? format_metric(metric, *figures[metric]) : kUnknown;
}

std::string tenths(const StepFigures& figures, Metric metric) {
  return figures[metric] ? fmt::format("{:.1f}", *figures[metric]) : kUnknown;
}

std::string bytes_text(const ComparedSetting& one, const Tolerance& tolerance, bool on_page) {
  const std::optional<bool> within = one.bytes_within(tolerance.bytes.value_or(0));
  if (!within) return on_page ? "unknown" : kUnknown;
  const double error = *one.bytes_error();
  if (error == 0) return "equal";
  const bool says_how_much = on_page ? std::isfinite(error) : *within;
  if (says_how_much) return fmt::format("{:.2g} % off", 100 * error);
  return on_page ? "differ" : "DIFFER";
}

/// Title, mean, worst, whose that is, settings: a row for each metric.
std::vector<std::vector<std::string>> metric_rows(const ValidationSummary& summary,
                                                  const char* points, int decimals) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& title, const MetricError& one) {
    const char* unit = is_share_of_step(one.metric) ? points : " %";
    rows.push_back({title, fmt::format("{:.{}f}{}", 100 * one.mean, decimals, unit),
                    signed_percent(one.worst, unit, decimals),
                    one.worst == 0 ? "" : one.worst_setting, std::to_string(one.settings)});
  };
  for (const MetricError& one : summary.metrics) {
    add(title_of(one.metric), one);
    if (one.metric == Metric::kStep && summary.window_steps) {
      add("single steps of a window", *summary.window_steps);
    }
  }
  return rows;
}

std::string not_told(const ValidationSummary& summary) {
  std::vector<std::string> titles;
  for (const Metric metric : summary.not_told) titles.push_back(title_of(metric));
  return fmt::format("{}", fmt::join(titles, ", "));
}

std::string bytes_judgement(const ValidationSummary& summary, const Tolerance& tolerance,
                            const char* bytes) {
  if (!summary.bytes_equal) return fmt::format("{} of some settings unknown", bytes);
  if (!*summary.bytes_equal) return fmt::format("{} differ", bytes);
  if (summary.worst_bytes_error == 0.0) return fmt::format("{} equal", bytes);
  return fmt::format("{} equal within {:g} %", bytes, 100 * tolerance.bytes.value_or(0));
}

// For a terminal.

std::string settings_table(const std::vector<ComparedSetting>& settings, const Tolerance& tolerance,
                           bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const ComparedSetting& one : settings) {
    rows.push_back(
        {one.name, one.calibrated ? "fitted" : "predicted", text_of(one.measured, Metric::kStep),
         text_of(one.predicted, Metric::kStep), signed_percent(one.error(Metric::kStep)),
         text_of(one.measured, Metric::kCompute), text_of(one.predicted, Metric::kCompute),
         text_of(one.measured, Metric::kStall), text_of(one.predicted, Metric::kStall),
         signed_percent(one.error(Metric::kStall), " pt"), bytes_text(one, tolerance, false),
         one.runs ? one.runs_text() : kUnknown, one.spread ? one.spread_text() : kUnknown});
  }
  return format_table({"setting", "", "step ms", "predicted", "error", "GPU ms", "predicted",
                       "stall ms", "predicted", "of step", "bytes", "runs", "spread"},
                      rows, bold);
}

std::string limit_text(const std::optional<double>& limit) {
  return limit ? fmt::format("at most {:g}", 100 * *limit) : "not judged";
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
      limit_text(tolerance.worst_stall), bytes_judgement(summary, tolerance, "bytes"),
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

// For the page.

std::string settings_on_page(const ValidationDocument& document) {
  std::string text =
      "| setting | | step, measured | predicted | error | compute, measured | predicted | stall, "
      "measured | predicted | error, points of the step | bytes | runs | spread |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  for (const ComparedSetting& one : document.settings) {
    text += markdown_row(
        {one.name, one.calibrated ? "fitted to" : "", tenths(one.measured, Metric::kStep),
         tenths(one.predicted, Metric::kStep), signed_percent(one.error(Metric::kStep)),
         tenths(one.measured, Metric::kCompute), tenths(one.predicted, Metric::kCompute),
         tenths(one.measured, Metric::kStall), tenths(one.predicted, Metric::kStall),
         signed_percent(one.error(Metric::kStall), ""), bytes_text(one, document.tolerance, true),
         one.runs_text(), one.spread_text()});
  }
  return text;
}

std::string metrics_on_page(const ValidationSummary& summary) {
  if (summary.metrics.empty()) return "";
  std::string text =
      "\nMean of the absolute errors of what was predicted, and the worst; of stalls and phases "
      "in points of the step:\n\n| | mean | worst | of |\n|---|---|---|---|\n";
  for (std::vector<std::string>& row : metric_rows(summary, " points", 1)) {
    row.pop_back();
    text += markdown_row(row);
  }
  return text;
}

/// Two measures of how far runs of one setting lie apart (read_document).
std::string spread_on_page(const ValidationDocument& document) {
  const double spread = 100 * document.summary.worst_spread;
  if (spread == 0) return "one run of each setting, so noise is not known";
  const bool is_range =
      std::any_of(document.settings.begin(), document.settings.end(),
                  [](const ComparedSetting& one) { return one.run_times.size() > 1; });
  return fmt::format("{} {:.1f} % of their median",
                     is_range ? "the runs of one setting that count differ by up to"
                              : "half the width of the middle half of one setting's runs is up to",
                     spread);
}

std::string judgement_on_page(const ValidationDocument& document) {
  const ValidationSummary& s = document.summary;
  const Tolerance& limit = document.tolerance;
  const auto limited = [](const char* what, const std::optional<double>& share, const char* unit) {
    return share ? fmt::format(", {} {:g} {}", what, 100 * *share, unit)
                 : fmt::format(", {} not judged", what);
  };
  return fmt::format(
      "\n{} settings predicted. Step time: mean {:.1f} %, worst {:.1f} %; stall {}; {}; {}. {} "
      "(mean {:g} %, worst {:g} %{}{}).\n",
      s.predicted, 100 * s.mean_step_error, 100 * s.worst_step_error,
      s.worst_stall_error
          ? fmt::format("at worst {:.1f} points of the step", 100 * *s.worst_stall_error)
          : "unknown",
      bytes_judgement(s, limit, "bytes over the link"), spread_on_page(document),
      s.within ? "Within the tolerance" : "**Outside the tolerance**", 100 * limit.mean_step,
      100 * limit.worst_step, limited("stall", limit.worst_stall, "points"),
      limit.bytes == 0.0 ? ", bytes exact" : limited("bytes", limit.bytes, "%"));
}

}  // namespace

std::string validation_table(const std::vector<ComparedSetting>& settings,
                             const ValidationSummary& summary, const Tolerance& tolerance,
                             bool bold) {
  std::string text = settings_table(settings, tolerance, bold);
  for (const ComparedSetting& one : settings) {
    if (const auto first = one.first_to_look_at()) {
      text += fmt::format("{}: first to look at: {}, {} ms measured, {} predicted\n", one.name,
                          title_of(*first), text_of(one.measured, *first),
                          text_of(one.predicted, *first));
    }
  }
  if (!summary.metrics.empty()) {
    text += "\n" + format_table({"of what was predicted", "mean error", "worst", "of", "settings"},
                                metric_rows(summary, " pt", 2), bold);
  }
  if (!summary.not_told.empty()) {
    text += fmt::format("\nnot told by what was measured: {}\n", not_told(summary));
  }
  return text + "\n" + judgement(summary, tolerance) + noise(settings, summary);
}

std::string results_text(const ValidationDocument& document) {
  const MeasurementOrigin& origin = document.origin;
  std::string text = fmt::format(
      "`{}`, {}, {}. Device {}, predicted by version {}. Times are milliseconds, those measured "
      "are medians of the runs that count. The profile's constants come from the settings marked "
      "\"fitted to\".\n\n",
      origin.command, origin.date, origin.machine, origin.device, document.version);
  text += settings_on_page(document) + metrics_on_page(document.summary);
  if (!document.summary.not_told.empty()) {
    text += fmt::format("\nNot in what was measured: {}.\n", not_told(document.summary));
  }
  text += judgement_on_page(document);
  for (const std::string& remark : origin.remarks) text += "\n" + remark + "\n";
  return text;
}

}  // namespace zenflow::sim
