#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/base/output_file.h"
#include "sim/base/table.h"
#include "sim/base/text.h"
#include "sim/deepspeed/overrides.h"
#include "sim/report/job_check.h"
#include "sim/report/result_json.h"
#include "tools/commands/commands.h"
#include "tools/commands/job_options.h"
#include "tools/report_page.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using sim::rounded_milliseconds;

std::string set_flags(const std::vector<std::string>& set) {
  std::string text;
  for (const std::string& one : set) text += " --set " + shell_word(one);
  return text;
}

/// "assumed: ...": what nobody has said, before anything that follows from it.
std::string assumed_line(const sim::JobFacts& facts) {
  std::string text;
  std::string host;
  std::string host_name;
  for (const sim::JobFact& fact : facts.all()) {
    if (!fact.is_estimate) continue;
    const bool of_host = fact.path.starts_with("hardware.host.");
    if (of_host) host_name = *fact.source.file;
    std::string& list = of_host ? host : text;
    list += fmt::format("{}{} {}", list.empty() ? "" : ", ",
                        fact.path.substr(fact.path.rfind('.') + 1), fact.value);
  }
  if (!host.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", host_name, host);
  return text.empty() ? "assumed: nothing, all is stated\n" : "assumed: " + text + "\n";
}

std::string range_text(const sim::JobCheck& check) {
  const double step = check.explanation.result.step_time;
  if (check.fastest == step && check.slowest == step) return "";
  return fmt::format(" ({} to {} on a host twice or half as fast)",
                     sim::format_seconds(std::min(check.fastest, step)),
                     sim::format_seconds(std::max(check.slowest, step)));
}

std::string time_text(const sim::JobCheck& check) {
  const sim::SimulationResult& result = check.explanation.result;
  std::string text =
      fmt::format("step {}{}, {:.0f} tokens/s\n", sim::format_seconds(result.step_time),
                  range_text(check), result.tokens_per_second);
  if (result.micro_steps > 1) {
    text += fmt::format("  {} micro steps are an optimizer step of {}\n", result.micro_steps,
                        sim::format_seconds(result.optimizer_step_time));
  }
  std::string waits;
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    const double stall = result.stall_by_cause.at(i);
    if (stall < 0.005 * result.step_time) continue;
    waits += fmt::format("{}{} {}", waits.empty() ? "" : ", ", name_of(static_cast<WaitCause>(i)),
                         sim::format_percent(stall / result.step_time));
  }
  text += fmt::format("  the GPU computes {} of it{}\n",
                      sim::format_percent(result.compute / result.step_time),
                      waits.empty() ? "" : " and waits for " + waits);
  return text + fmt::format("  {}\n", check.explanation.bound);
}

std::string findings_text(const sim::JobCheck& check) {
  std::string text;
  for (const sim::Severity severity : {sim::Severity::kError, sim::Severity::kWarning}) {
    for (const sim::Finding& finding : check.findings) {
      if (finding.severity != severity) continue;
      text +=
          fmt::format("  {}: {}: {}{}: {} -> {}\n", finding.at.text(), sim::to_string(severity),
                      finding.code, finding.path.empty() ? "" : " " + printable_name(finding.path),
                      printable_name(finding.what), printable_name(finding.instead));
    }
  }
  return text;
}

std::string changes_text(const sim::JobCheck& check) {
  const bool has_to_fit = check.verdict == sim::Verdict::kDoesNotFit;
  std::string text;
  if (check.nearest) {
    text = fmt::format(
        "no change that was tried makes this training fit; nearest: {}, with {}\n    {}\n",
        check.nearest->what, check.nearest->exceeded, set_flags(check.nearest->set).substr(1));
  }
  if (check.changes.empty()) {
    if (!text.empty()) return text;
    return has_to_fit ? "no change that was tried makes it fit\n"
                      : "no single change that was tried makes it 3 % faster\n";
  }
  text += has_to_fit ? "these fit:\n" : "what would help most:\n";
  int number = 0;
  for (const sim::JobChange& change : check.changes) {
    text += fmt::format(
        "  {}. {}: {:.0f} tokens/s{}{}\n    {}\n", ++number, change.what, change.tokens_per_second,
        change.gain > 0 ? fmt::format(", {:.2f} times as many", change.gain) : "",
        change.but.empty() ? "" : "; " + change.but, set_flags(change.set).substr(1));
  }
  return text;
}

std::string sources_text(const sim::JobScenario& scenario, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const sim::JobFact& fact : scenario.facts.all()) {
    if (fact.path == "name" || fact.path == "schedules" || fact.path == "hardware.gpus_per_node") {
      continue;
    }
    std::string value = fact.value;
    constexpr std::size_t kWide = 48;
    if (value.size() > kWide) value = value.substr(0, kWide - 3) + "...";
    rows.push_back({fact.path, printable_name(value),
                    printable_name((fact.is_estimate ? "estimated: " : "") + fact.source.text())});
  }
  return sim::format_table({"what", "value", "from"}, rows, bold, 3);
}

std::string as_text(const sim::JobScenario& scenario, const sim::Job& job,
                    const sim::JobCheck& check, bool bold) {
  std::string text = assumed_line(scenario.facts) + job_heading(job) + "\n";
  text += fmt::format("{}: {}\n", sim::to_string(check.verdict), check.decided_by);
  text += time_text(check);
  const std::string findings = findings_text(check);
  if (!findings.empty()) text += "DeepSpeed:\n" + findings;
  text += changes_text(check) + "\n" + sources_text(scenario, bold);
  return text;
}

nlohmann::ordered_json changes_json(const sim::JobCheck& check) {
  auto list = nlohmann::ordered_json::array();
  for (const sim::JobChange& change : check.changes) {
    nlohmann::ordered_json one;
    one["what"] = change.what;
    one["set"] = change.set;
    one["step_time_ms"] = rounded_milliseconds(change.step_time);
    one["tokens_per_second"] = change.tokens_per_second;
    if (change.gain > 0) one["gain"] = change.gain;
    if (!change.but.empty()) one["but"] = change.but;
    list.push_back(std::move(one));
  }
  return list;
}

/// What a user should know of how the job was read.
std::vector<std::string> notes_of(const sim::JobScenario& scenario, const sim::Job& job,
                                  const sim::Schedule& schedule) {
  std::vector<std::string> notes = scenario.notes;
  for (const std::vector<std::string>& more :
       {job.scenario.notes, job.deepspeed.warnings, ignored_settings(schedule, job),
        job_notes(job, true)}) {
    notes.insert(notes.end(), more.begin(), more.end());
  }
  return notes;
}

nlohmann::ordered_json as_json(const sim::JobScenario& scenario, const sim::Job& job,
                               const sim::JobCheck& check, const std::vector<std::string>& notes) {
  const sim::SimulationResult& result = check.explanation.result;
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  document["scenario"] = job.scenario.name;
  document["verdict"] = check.verdict == sim::Verdict::kFits        ? "fits"
                        : check.verdict == sim::Verdict::kUncertain ? "uncertain"
                                                                    : "does_not_fit";
  document["decided_by"] = check.decided_by;
  document["parameters"] = job.scenario.model.parameters();
  document["trained_parameters"] = job.scenario.model.trained();
  document["schedule"] = result.schedule;
  document["step_time_ms"] = rounded_milliseconds(result.step_time);
  document["step_time_range_ms"] = {
      rounded_milliseconds(std::min(check.fastest, result.step_time)),
      rounded_milliseconds(std::max(check.slowest, result.step_time))};
  document["gradient_accumulation_steps"] = result.micro_steps;
  document["optimizer_step_time_ms"] = rounded_milliseconds(result.optimizer_step_time);
  document["tokens_per_second"] = result.tokens_per_second;
  document["gpu_compute_ms"] = rounded_milliseconds(result.compute);
  auto& stall = document["stall_by_cause_ms"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    stall[std::string(name_of(static_cast<WaitCause>(i)))] =
        rounded_milliseconds(result.stall_by_cause.at(i));
  }
  document["bound"] = check.explanation.bound;
  auto& memory = document["memory"] = nlohmann::ordered_json::object();
  memory["gpu_peak_bytes"] = check.fit.memory.limit(sim::MemoryLimit::kGpu).need;
  memory["host_peak_bytes"] = check.fit.memory.limit(sim::MemoryLimit::kHost).need;
  auto& findings = document["findings"] = nlohmann::ordered_json::array();
  for (const sim::Finding& finding : check.findings) {
    nlohmann::ordered_json one;
    one["code"] = finding.code;
    one["severity"] = sim::to_string(finding.severity);
    one["at"] = finding.at.text();
    one["path"] = finding.path;
    one["what"] = finding.what;
    one["instead"] = finding.instead;
    findings.push_back(std::move(one));
  }
  document["changes"] = changes_json(check);
  if (check.nearest) {
    document["nearest"] = {{"what", check.nearest->what},
                           {"set", check.nearest->set},
                           {"exceeded", check.nearest->exceeded}};
  }
  auto& facts = document["facts"] = nlohmann::ordered_json::array();
  for (const sim::JobFact& fact : scenario.facts.all()) {
    nlohmann::ordered_json one;
    one["path"] = fact.path;
    one["value"] = fact.value;
    one["source"] = fact.source.text();
    one["estimated"] = fact.is_estimate;
    facts.push_back(std::move(one));
  }
  document["notes"] = notes;
  return document;
}

}  // namespace

int check_command(const CommonOptions& common, const CheckOptions& options) {
  if (common.job.empty()) {
    throw Error(ErrorKind::kInput,
                "check: expected a job: --model M --gpu NAME [--ds FILE]; of a scenario: "
                "zenflow-sim fit, run and explain");
  }
  if (!common.schedules.empty()) {
    throw Error(ErrorKind::kInput,
                "check: --schedule: the configuration says what is simulated; another schedule: "
                "zenflow-sim run with the same flags");
  }
  if (options.save) check_output(*options.save, common.overwrite);
  check_report(common.report, common.overwrite, {options.save.value_or(std::filesystem::path())});
  const sim::LoadOptions load = load_options(common, {});
  if (sim::sets(load.overrides, "schedules")) {
    throw Error(ErrorKind::kInput,
                "check: --set schedules: the configuration says what is simulated");
  }
  const sim::JobScenario scenario = assemble_job(common.job, load.overrides);
  const sim::ScenarioTree tree = sim::load_scenario_tree(scenario.root, load);
  const LoadedJob loaded = finish_job(common, sim::read_scenario(tree, load.overrides));
  const std::vector<std::string> notes = notes_of(scenario, loaded.job, *loaded.schedules.front());
  for (const std::string& note : notes) {
    if (!common.quiet) complain("zenflow-sim: " + note + "\n");
  }
  sim::JobCheck check;
  if (!finishes([&] { check = sim::check_job(scenario, tree, load.overrides); })) {
    return signal_exit_code();
  }
  if (options.save) write_output(*options.save, sim::scenario_text(scenario), common.overwrite);
  std::string text = as_text(scenario, loaded.job, check, colored(common));
  if (options.save) {
    text += fmt::format("\nwritten: {}; next: zenflow-sim explain {}, zenflow-tune {}\n",
                        options.save->generic_string(), options.save->generic_string(),
                        options.save->generic_string());
  } else {
    text += "\nnext: zenflow-tune with the same flags and -o tuned\n";
  }
  const std::string document = json_text(as_json(scenario, loaded.job, check, notes));
  print(common.json ? document : text);
  if (common.report) {
    const sim::PageRun run = page_run(loaded.job, *loaded.schedules.front(),
                                      check.explanation.result, check.explanation.result.schedule);
    write_report(common.report, {"check", loaded.job.scenario.name, document, {run}},
                 common.overwrite, common.quiet);
  }
  return check.verdict == sim::Verdict::kDoesNotFit ? static_cast<int>(ErrorKind::kInfeasible) : 0;
}

}  // namespace zenflow::tools
