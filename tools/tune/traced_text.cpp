#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "sim/base/table.h"
#include "tools/tune/tune.h"

namespace zenflow::tools {
namespace {

/// More than this of the measured step missed, relative, and a prediction needs a warning.
constexpr double kLargeGap = 0.15;

std::string list(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = title + "\n";
  for (const std::string& one : lines) text += "  - " + one + "\n";
  return text;
}

/// ", the median of 13 update windows of 4 steps".
std::string averaged_over(const sim::TracedRequest& traced) {
  if (traced.steps == 0) return ", as --measured-step says";
  if (traced.window <= 1) {
    return fmt::format(", the {} of {}", traced.window == 0 ? "mean" : "median",
                       sim::counted(traced.steps, "step"));
  }
  const auto window = static_cast<std::uint64_t>(traced.window);
  return fmt::format(", the median of {} of {} steps",
                     sim::counted(traced.steps / window, "update window"), window);
}

std::string gain_error_text(const TuneAnswer& answer) {
  if (!answer.result.complete) return "standard error not computed: the search was stopped";
  return fmt::format(
      "standard error {:.1f} %, from the errors of the profile's numbers and what the model misses",
      100 * sim::gain_error(answer));
}

/// The parts of a step in which the model misses.
std::string missed_parts_text(const TuneAnswer& answer) {
  const auto& step = answer.loaded.request.measured_step;
  if (!step || !answer.result.own) return "";
  const std::vector<sim::PartTime> missed = sim::missed_parts(
      sim::part_times(answer.traced->parts, answer.loaded.request.job, *answer.result.own), *step);
  std::string text;
  for (const sim::PartTime& one : missed) {
    text += fmt::format("The model misses {}: {} recorded, {} simulated.\n", one.name,
                        sim::format_seconds(1e12 * one.recorded),
                        sim::format_seconds(1e12 * one.simulated));
  }
  return text;
}

std::string measured(const TuneAnswer& answer) {
  const auto& step = answer.loaded.request.measured_step;
  if (!step) return "Nothing says what a step takes, so the model is not held against the job.\n";
  const double picoseconds = *step * 1e12;
  const sim::TracedRequest& traced = *answer.traced;
  std::string text = fmt::format("Measured: {} a step", sim::format_seconds(picoseconds));
  text += averaged_over(traced);
  if (!answer.result.own) {
    return text + "; the model cannot run that setting, so it is not held against it.\n";
  }
  const double own = answer.result.own->step_time;
  text += fmt::format("; simulated with what was fitted: {}, {:.3f} of it.{}\n",
                      sim::format_seconds(own), own / picoseconds, miss_text(answer));
  text += fmt::format("Predicted for the chosen setting: {}",
                      sim::format_seconds(answer.chosen().evaluation.step_time));
  if (sim::is_of_another_job(own, picoseconds)) {
    return text +
           fmt::format(
               ", {}.\nWARNING: the model is off by a factor of {:.1f}. --model, --base or what is "
               "assumed below is of another job, or something else is in the measured steps: do "
               "not "
               "rely on what was chosen, nor on the gain.\n",
               times_text(own / answer.chosen().evaluation.step_time),
               std::max(own / picoseconds, picoseconds / own));
  }
  text +=
      fmt::format("; scaled by the same to what was measured: {}. {}, {}.\n",
                  sim::format_seconds(*scaled_step(answer)),
                  times_text(own / answer.chosen().evaluation.step_time), gain_error_text(answer));
  if (std::abs(own / picoseconds - 1) > kLargeGap) {
    text += fmt::format(
        "WARNING: the model misses {:.0f} % of what was measured. Something of the job is not in "
        "it, or what is assumed below is wrong; the gain may not hold.\n",
        100 * std::abs(own / picoseconds - 1));
  }
  return text;
}

}  // namespace

std::string traced_text(const TuneAnswer& answer) {
  if (!answer.traced) return "";
  const sim::TracedRequest& traced = *answer.traced;
  const auto fitted = std::count_if(traced.numbers.begin(), traced.numbers.end(),
                                    [](const sim::FittedNumber& one) { return one.fitted; });
  std::string text = "\nFrom the traces:\n" + missed_parts_text(answer) + measured(answer);
  text += list(fmt::format("What they told (and {} of {} numbers of the profile, which began as "
                           "{}; profile.yaml says which):",
                           fitted, traced.numbers.size(), traced.base_profile),
               traced.facts);
  return text + list("What they could not tell:", traced.untold);
}

}  // namespace zenflow::tools
