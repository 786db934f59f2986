#include "sim/calibrate/validation.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/report/table.h"

namespace zenflow::sim {
namespace {

constexpr double kMilliseconds = 1e-9;  // a picosecond
}  // namespace

StepFigures figures_of(const SimulationResult& result) {
  const auto part = [&](StallCause cause) {
    return kMilliseconds * result.stall_by_cause.at(static_cast<std::size_t>(cause));
  };
  return {.step = kMilliseconds * result.step_time,
          .compute = kMilliseconds * result.compute,
          .stall = kMilliseconds * result.stall,
          .cpu_update = part(StallCause::kCpuUpdate),
          .d2h = part(StallCause::kD2H),
          .h2d = part(StallCause::kH2D),
          .launch = part(StallCause::kLaunch),
          .d2h_bytes = result.d2h_bytes,
          .h2d_bytes = result.h2d_bytes};
}

ValidationSummary summarize(const std::vector<ComparedPoint>& points, const Tolerance& tolerance) {
  ValidationSummary all;
  for (const ComparedPoint& one : points) {
    all.worst_spread = std::max(all.worst_spread, one.spread);
    all.bytes_equal = all.bytes_equal && one.bytes_equal();
    if (one.calibrated) continue;
    ++all.predicted;
    all.mean_step_error += std::abs(one.step_error());
    all.worst_step_error = std::max(all.worst_step_error, std::abs(one.step_error()));
    all.worst_stall_error = std::max(all.worst_stall_error, std::abs(one.stall_error()));
  }
  if (all.predicted > 0) all.mean_step_error /= static_cast<double>(all.predicted);
  all.too_noisy = all.worst_spread > tolerance.mean_step / 3;
  all.within = all.predicted > 0 && all.bytes_equal && all.mean_step_error <= tolerance.mean_step &&
               all.worst_step_error <= tolerance.worst_step &&
               all.worst_stall_error <= tolerance.worst_stall;
  return all;
}

std::string validation_table(const std::vector<ComparedPoint>& points,
                             const ValidationSummary& summary, const Tolerance& tolerance,
                             bool bold) {
  const std::vector<std::string> header = {
      "setting",  "",          "step ms", "predicted", "error", "GPU ms", "predicted",
      "stall ms", "predicted", "of step", "bytes",     "runs",  "spread"};
  std::vector<std::vector<std::string>> rows;
  for (const ComparedPoint& one : points) {
    rows.push_back(
        {to_string(one.point), one.calibrated ? "fitted" : "predicted",
         fmt::format("{:.2f}", one.measured.step), fmt::format("{:.2f}", one.predicted.step),
         fmt::format("{:+.1f} %", 100 * one.step_error()),
         fmt::format("{:.2f}", one.measured.compute), fmt::format("{:.2f}", one.predicted.compute),
         fmt::format("{:.2f}", one.measured.stall), fmt::format("{:.2f}", one.predicted.stall),
         fmt::format("{:+.1f} pt", 100 * one.stall_error()), one.bytes_equal() ? "equal" : "DIFFER",
         std::to_string(one.runs),
         one.runs > 1 ? fmt::format("{:.1f} %", 100 * one.spread) : "n/a"});
  }
  std::string text = format_table(header, rows, bold);
  text += fmt::format(
      "\n{} predicted: step time {:.1f} % off in the mean (at most {:.0f}), {:.1f} % at worst (at "
      "most {:.0f}); stall {:.1f} points at worst (at most {:.0f}); bytes {}\n",
      summary.predicted, 100 * summary.mean_step_error, 100 * tolerance.mean_step,
      100 * summary.worst_step_error, 100 * tolerance.worst_step, 100 * summary.worst_stall_error,
      100 * tolerance.worst_stall, summary.bytes_equal ? "equal" : "differ");
  if (summary.too_noisy) {
    text += fmt::format(
        "The machine is too noisy to judge by: runs of one setting differ by {:.1f} % from their "
        "median, more than a third of the tolerance.\n",
        100 * summary.worst_spread);
  }
  return text;
}

}  // namespace zenflow::sim
