#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/table.h"
#include "sim/config/reader.h"
#include "sim/deepspeed/lint.h"
#include "sim/deepspeed/overrides.h"
#include "sim/schedule/live_work.h"
#include "tools/commands/commands.h"
#include "tools/commands/job_options.h"

namespace zenflow::tools {

sim::LoadOptions load_options(const CommonOptions& common, const std::filesystem::path& scenario) {
  sim::LoadOptions options;
  options.profile_directories = profile_directories(scenario);
  options.profile = common.profile ? common.profile : Defaults(common.config).value("profile");
  options.overrides = sim::parse_overrides(common.set, common.deepspeed_version, common.target);
  return options;
}

sim::ScenarioTree load_tree(const CommonOptions& common, const std::filesystem::path& scenario,
                            const sim::LoadOptions& options) {
  if (!scenario.empty()) return sim::load_scenario_tree(scenario, options);
  sim::JobScenario job = assemble_job(common.job, options.overrides);
  if (!common.quiet) {
    for (const std::string& note : assembly_notes(job)) complain("zenflow-sim: " + note + "\n");
  }
  return sim::load_scenario_tree(std::move(job.root), options);
}

LoadedJob finish_job(const CommonOptions& common, sim::Scenario scenario) {
  LoadedJob loaded{sim::make_job(std::move(scenario)), {}};
  const sim::Scenario& read = loaded.job.scenario;
  const bool own = common.schedules.empty();
  const std::vector<std::string>& names = own ? read.schedules : common.schedules;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const sim::Schedule* found =
        &sim::find_schedule(names[i], own ? &read.schedules_at[i] : nullptr);
    if (std::find(loaded.schedules.begin(), loaded.schedules.end(), found) !=
        loaded.schedules.end()) {
      throw Error(ErrorKind::kInput, fmt::format("--schedule {}: given twice", names[i]));
    }
    found->check(loaded.job);
    loaded.schedules.push_back(found);
  }
  return loaded;
}

/// Codes of the errors that the launcher's user would meet in the job's release.
static std::vector<std::string_view> errors_under(sim::LaunchTarget target, const sim::Job& job,
                                                  const sim::DsDocument& document) {
  sim::LintOptions options{.version = job.version, .target = target};
  options.world_size = job.scenario.ranks();
  std::vector<std::string_view> codes;
  for (const sim::Finding& finding : sim::lint(document, options)) {
    if (finding.severity == sim::Severity::kError) codes.push_back(finding.code);
  }
  return codes;
}

/// What keeps DeepSpeed from running the configuration under the launcher; where none is named,
/// under every one. A simulation does not need DeepSpeed's consent, but its user may.
static std::string refusal(const sim::Job& job) {
  const sim::Scenario& scenario = job.scenario;
  Node root = scenario.deepspeed;
  if (root.find("train_batch_size") == nullptr) {  // the scenario has it
    const auto micro = std::to_string(scenario.training.micro_batch_size_per_gpu);
    sim::apply_edit(root, sim::set_key("train_micro_batch_size_per_gpu", micro));
  }
  // Keys written in YAML become the JSON that DeepSpeed would read.
  const sim::DsDocument document = sim::parse_ds_document(sim::render_json(root), "deepspeed");
  std::vector<std::string_view> codes = errors_under(job.target, job, document);
  if (!scenario.target && !codes.empty()) {
    std::vector<std::string_view> others = errors_under(sim::LaunchTarget::kHf, job, document);
    if (others.size() < codes.size()) codes = std::move(others);
  }
  if (codes.empty()) return "";
  const Location& at = scenario.deepspeed.at;
  return fmt::format(
      "{}: simulated as it is, but DeepSpeed {}{} would not run it as meant ({}); see "
      "zenflow-sim lint",
      at.file != nullptr ? *at.file : "deepspeed", sim::to_string(job.version),
      scenario.target ? fmt::format(" under {}", sim::to_string(job.target)) : "",
      fmt::join(codes, ", "));
}

LoadedJob load_job(const CommonOptions& common, const std::filesystem::path& scenario) {
  const sim::LoadOptions options = load_options(common, scenario);
  LoadedJob loaded = finish_job(
      common, sim::read_scenario(load_tree(common, scenario, options), options.overrides));
  if (common.quiet) return loaded;
  std::vector<std::string> warnings = loaded.job.scenario.notes;
  const std::vector<std::string>& read = loaded.job.deepspeed.warnings;
  warnings.insert(warnings.end(), read.begin(), read.end());
  for (const sim::Schedule* schedule : loaded.schedules) {
    const std::vector<std::string> ignored = ignored_settings(*schedule, loaded.job);
    warnings.insert(warnings.end(), ignored.begin(), ignored.end());
  }
  // zenflow-train runs the live schedules: DeepSpeed does not see their configuration.
  const bool for_deepspeed =
      std::any_of(loaded.schedules.begin(), loaded.schedules.end(),
                  [](const sim::Schedule* one) { return !sim::live_kind(one->name()); });
  const std::vector<std::string> notes = job_notes(loaded.job, for_deepspeed);
  warnings.insert(warnings.end(), notes.begin(), notes.end());
  if (std::string found = for_deepspeed ? refusal(loaded.job) : ""; !found.empty()) {
    warnings.push_back(std::move(found));
  }
  for (const std::string& warning : warnings) {
    complain("zenflow-sim: warning: " + warning + "\n");
  }
  return loaded;
}

bool colored(const CommonOptions& common) {
  return colored_output(common.color, Defaults(common.config));
}

std::string optimizer_step_text(const sim::SimulationResult& one) {
  return fmt::format("{}: {} micro steps of {} are an optimizer step of {}\n", one.schedule,
                     one.micro_steps, sim::format_seconds(one.micro_step_time),
                     sim::format_seconds(one.optimizer_step_time));
}

std::string job_heading(const sim::Job& job) {
  const sim::Scenario& scenario = job.scenario;
  const auto& training = scenario.training;
  constexpr double kBillion = 1e9;
  std::string gpus = fmt::format("{} x {}", scenario.ranks(), scenario.hardware.gpu.name);
  if (scenario.nodes > 1) gpus += fmt::format(" in {} nodes", scenario.nodes);
  std::string trained;
  if (scenario.model.trained() < scenario.model.parameters()) {
    trained = fmt::format(", {:.1f} M trained",
                          static_cast<double>(scenario.model.trained()) / (kBillion / 1000));
  }
  return fmt::format(
      "{}: {} ({:.2f} B parameters{}) on {} ({}), {} sequences of {} tokens a GPU, {}{}\n",
      scenario.name, scenario.model.name,
      static_cast<double>(scenario.model.parameters()) / kBillion, trained, gpus,
      scenario.hardware.name, training.micro_batch_size_per_gpu, training.sequence_length,
      sim::to_string(training.dtype),
      training.activation_checkpointing ? ", activation checkpointing" : "");
}

}  // namespace zenflow::tools
