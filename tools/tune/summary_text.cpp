#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include <fmt/format.h>

#include "sim/base/table.h"
#include "tools/tune/tune.h"

namespace zenflow::tools {
namespace {

using sim::Evaluation;
using sim::Knob;
using sim::Setting;

bool is_of_cost(const TuneAnswer& answer) {
  return answer.loaded.request.objective == sim::Objective::kCostPerToken;
}

/// "0.1234", of a million tokens.
std::string cost_cell(const TuneAnswer& answer, const Setting& setting, const Evaluation& one) {
  return fmt::format("{:.4g}", cost_per_million_tokens(answer, setting, one));
}

/// What is compared; the cells of a row begin with its name and the setting's.
struct Rows {
  const TuneAnswer& answer;
  std::vector<Setting> settings{};
  std::vector<std::vector<std::string>> cells{};

  void add(const std::string& name, const Setting& setting, const Evaluation& one) {
    settings.push_back(setting);
    std::vector<std::string>& row = cells.emplace_back(
        std::vector<std::string>{name, "", sim::format_milliseconds(one.step_time),
                                 fmt::format("{:.0f}", one.tokens_per_second)});
    if (is_of_cost(answer)) row.push_back(cost_cell(answer, setting, one));
    row.push_back(fmt::format("{}", one.staleness));
    row.push_back(sim::format_gib(one.gpu_bytes));
    row.push_back(fmt::format("{:.2f} GB", one.traffic() / 1e9));
    row.push_back(one.infeasible.empty() ? "yes" : "NO, " + one.infeasible);
  }
  /// With the settings' names.
  std::vector<std::vector<std::string>> named() {
    const std::vector<std::string> names = setting_names(answer.loaded.request, settings);
    for (std::size_t i = 0; i < cells.size(); ++i) cells[i][1] = names[i];
    return cells;
  }
};

std::vector<std::string> header(const TuneAnswer& answer) {
  std::vector<std::string> cells = {"", "setting", "step ms", "tokens/s"};
  if (is_of_cost(answer)) cells.emplace_back("cost/1M tokens");
  for (const char* one : {"staleness", "GPU memory", "PCIe/step", "feasible"}) {
    cells.emplace_back(one);
  }
  return cells;
}

constexpr const char* kLegend =
    "gpu: the optimizer on the GPUs; cpu: ZeRO-Offload; nvme: ZeRO-Infinity. Staleness: steps from "
    "a gradient to its use, at most. GPU memory: peak of one GPU. PCIe: both ways over one GPU's "
    "host link.\n";
constexpr const char* kCostLegend =
    "Cost: of a million tokens on all GPUs, in the currency of --price.\n";

std::string comparison(const TuneAnswer& answer) {
  const sim::SearchResult& result = answer.result;
  Rows rows{answer};
  if (result.own) rows.add("yours", sim::setting_of(answer.loaded.request.job), *result.own);
  rows.add("chosen", answer.chosen().setting, answer.chosen().evaluation);
  const auto add = [&](const std::string& name, std::size_t which) {
    if (which == *result.chosen) return;
    rows.add(name, result.simulated[which].setting, result.simulated[which].evaluation);
  };
  add(is_of_cost(answer) ? "cheapest" : "fastest", *result.fastest);
  if (result.published) {
    rows.add("published", result.published->setting, result.published->evaluation);
  }
  for (int place = 0; place < sim::kPlacements; ++place) {
    const auto& best = result.by_placement[static_cast<std::size_t>(place)];
    if (best) add(fmt::format("best {}", to_string(static_cast<sim::Placement>(place))), *best);
  }
  return sim::format_table(header(answer), rows.named(), answer.bold, 2) + kLegend +
         (is_of_cost(answer) ? kCostLegend : "");
}

std::string runners_up(const TuneAnswer& answer) {
  std::vector<Setting> settings;
  std::vector<std::vector<std::string>> rows;
  for (const sim::RunnerUp& one : answer.numbers.runners_up) {
    const sim::Simulated& simulated = answer.result.simulated[one.which];
    settings.push_back(simulated.setting);
    std::vector<std::string>& row = rows.emplace_back(
        std::vector<std::string>{"", sim::format_milliseconds(simulated.evaluation.step_time)});
    if (is_of_cost(answer)) {
      row.push_back(cost_cell(answer, simulated.setting, simulated.evaluation));
    }
    row.push_back(sim::signed_percent(one.difference));
    row.push_back(fmt::format("{:.0f} %", 100 * one.chance));
  }
  if (rows.empty()) return "";
  const std::vector<std::string> names = setting_names(answer.loaded.request, settings);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].front() = names[i];
  std::vector<std::string> cells = {"setting", "step ms"};
  if (is_of_cost(answer)) cells.emplace_back("cost/1M tokens");
  cells.emplace_back(is_of_cost(answer) ? "cost against chosen" : "time against chosen");
  cells.emplace_back("chance");
  return "\nRunners-up, the best of other kinds (placement, stage, micro-batch, update_interval, "
         "overlap_step), and the chance that they are really better:\n" +
         sim::format_table(cells, rows, answer.bold);
}

std::string knobs(const TuneAnswer& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const sim::KnobEffect& effect : answer.knobs) {
    std::string cells;
    for (const sim::KnobValue& one : effect.values) {
      cells += fmt::format("{}{}: {}", cells.empty() ? "" : ", ",
                           sim::value_text(effect.knob, one.value),
                           !one.evaluation ? "-"
                           : !one.evaluation->infeasible.empty()
                               ? "infeasible"
                               : sim::format_milliseconds(one.evaluation->step_time));
    }
    rows.push_back({std::string(sim::info(effect.knob).name), cells});
  }
  if (rows.empty()) return "";
  return "\nOne knob changed, step ms (- : nobody would run it):\n" +
         sim::format_table({"knob", "values"}, rows, answer.bold, 2);
}

std::string numbers(const TuneAnswer& answer) {
  std::vector<std::vector<std::string>> rows;
  for (const sim::NumberEffect& one : answer.numbers.numbers) {
    constexpr double kSmall = 1e-4;
    if (std::abs(one.elasticity) * one.relative_error < kSmall) continue;
    rows.push_back(
        {one.path,
         fmt::format("{:.1f} %{}", 100 * one.relative_error, one.measured ? "" : " assumed"),
         fmt::format("{:+.2f} %", 100 * one.elasticity * one.relative_error)});
  }
  if (rows.empty()) return "";
  return "\nNumbers of the hardware profile, their standard error, and what that does to the step "
         "time:\n" +
         sim::format_table({"number", "error", "step time"}, rows, answer.bold);
}

std::string front(const TuneAnswer& answer) {
  if (answer.result.front.empty()) return "";
  constexpr std::size_t kShown = 12;
  Rows shown{answer};
  for (const std::size_t one : answer.result.front) {
    if (shown.settings.size() == kShown) break;
    const sim::Simulated& simulated = answer.result.simulated[one];
    shown.add("", simulated.setting, simulated.evaluation);
  }
  // None has a name, and all are feasible.
  const auto inner = [](const std::vector<std::string>& cells) {
    return std::vector<std::string>(cells.begin() + 1, cells.end() - 1);
  };
  std::vector<std::vector<std::string>> rows;
  for (const std::vector<std::string>& cells : shown.named()) rows.push_back(inner(cells));
  const std::size_t left = answer.result.front.size() - rows.size();
  return fmt::format(
             "\nPareto front of step time, staleness, GPU memory and traffic, up to {:.0f} % "
             "more than the best: {}\n",
             100 * answer.loaded.request.front_within,
             sim::counted(answer.result.front.size(), "setting")) +
         sim::format_table(inner(header(answer)), rows, answer.bold) +
         (left > 0 ? fmt::format("... and {} more in summary.json\n", left) : "");
}

std::string configuration(const TuneAnswer& answer) {
  std::string text = "\nChanges to the DeepSpeed file";
  text += answer.text.kept ? fmt::format(" {}:\n", answer.loaded.base_name)
                           : fmt::format(" ({}):\n", answer.text.reason);
  for (const sim::Edit& edit : answer.changes) text += "  " + describe(edit) + "\n";
  if (answer.changes.empty()) text += "  none\n";
  text += is_relied_on(answer)
              ? "Command: " + answer.command
              : std::string("No file and no command to launch are written (--anyway).\n");
  if (answer.chosen().setting.flag(Knob::kCheckpointing) !=
      answer.loaded.request.job.scenario.training.activation_checkpointing) {
    text += "The model needs activation checkpointing to be switched on or off in its own code.\n";
  }
  return text;
}

std::string behaviour(const TuneAnswer& answer) {
  if (answer.findings.empty()) return "";
  const sim::Job& job = answer.loaded.request.job;
  const std::string deepspeed = fmt::format("DeepSpeed {}", to_string(job.version));
  std::string text =
      answer.loaded.request.family == sim::Family::kLive
          ? fmt::format("\nzenflow-train reads no DeepSpeed file. What {} would say of this one:\n",
                        deepspeed)
          : fmt::format("\nWhat {} will really do with it (launched by {}):\n", deepspeed,
                        to_string(job.target));
  for (const sim::Finding& one : answer.findings) {
    text += fmt::format("  {}{} {}{}{}\n", one.severity == sim::Severity::kError ? "ERROR " : "",
                        one.code, one.path, one.path.empty() ? "" : ": ", one.what);
  }
  return text;
}

/// The profile, which of traces has no name yet.
std::string machine_name(const TuneAnswer& answer) {
  const auto& traced = answer.traced;
  if (!traced) return answer.loaded.request.job.scenario.hardware.name;
  return traced->base_profile + ", fitted to the traces";
}

/// Whose behaviour the step times are those of.
std::string tuned_for(const sim::TuneRequest& request) {
  switch (request.family) {
    case sim::Family::kDeepSpeed:
      return fmt::format("Tuned for DeepSpeed {} launched by {} (schedule deepspeed-zenflow)",
                         to_string(request.job.version), to_string(request.job.target));
    case sim::Family::kPublished:
      return "Tuned for ZenFlow as published, which zenflow-train follows (schedule zenflow)";
    case sim::Family::kLive:
      return "Tuned for zenflow-train, operation by operation (schedule live-zenflow)";
  }
  return "";
}

}  // namespace

std::string reasons_text(const sim::SearchCounts& counts) {
  std::string text;
  for (const auto& [why, count] : counts.reasons) text += fmt::format("  {:>9} {}\n", count, why);
  return text;
}

std::string study_text(const TuneAnswer& answer) {
  const sim::SearchCounts& counts = answer.result.counts;
  std::string text = fmt::format(
      "Searched {}: {} simulated, {} equal to one of these, {} excluded by bounds, {} "
      "infeasible.\n",
      sim::counted(counts.points, "setting"), counts.simulated, counts.equal,
      counts.excluded_by_bound, counts.infeasible);
  if (counts.infeasible_when_simulated > 0) {
    const std::uint64_t simulated = simulated_infeasible(answer.result);
    text +=
        fmt::format("Found infeasible when simulated: {}, and {} equal to {}.\n", simulated,
                    counts.infeasible_when_simulated - simulated, simulated == 1 ? "it" : "these");
  }
  if (!answer.result.complete) {
    text += fmt::format("Stopped before the end: {} not reached; this is the best so far.\n",
                        sim::counted(counts.not_reached, "setting"));
  }
  if (!counts.reasons.empty()) text += "Infeasible, by reason:\n";
  return text + reasons_text(counts);
}

std::string summary_text(const TuneAnswer& answer) {
  const sim::TuneRequest& request = answer.loaded.request;
  const sim::Scenario& scenario = request.job.scenario;
  std::string text = fmt::format(
      "{}: {} on {} x {} ({}), {} of {} tokens a step\n{}; objective {}\n\n", scenario.name,
      scenario.model.name, scenario.ranks(), scenario.hardware.gpu.name, machine_name(answer),
      sim::counted(static_cast<std::uint64_t>(request.global_batch), "sequence"),
      scenario.training.sequence_length, tuned_for(request), to_string(request.objective));
  const std::vector<std::string> notes =
      job_notes(request.job, request.family != sim::Family::kLive);
  for (const std::string& one : notes) text += one + "\n";
  if (!notes.empty()) text += "\n";
  text += comparison(answer) + "\n" + gain_text(answer) + traced_text(answer) + "\n" +
          convergence_text(answer) + limits_text(answer);
  return text + configuration(answer) + runners_up(answer) + knobs(answer) + numbers(answer) +
         front(answer) + "\n" + study_text(answer) + behaviour(answer);
}

}  // namespace zenflow::tools
