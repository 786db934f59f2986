#include "sim/report/explain.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"
#include "sim/base/table.h"
#include "sim/report/result_json.h"
#include "tools/commands/commands.h"
#include "tools/report_page.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

double share_of(double part, const sim::Explanation& one) {
  return part / one.result.step_time;
}

std::string as_text(const sim::Explanation& one, bool bold) {
  std::string text =
      fmt::format("{}: step {}, GPU computes {}, waits {}\n", one.result.schedule,
                  sim::format_seconds(one.result.step_time),
                  sim::format_seconds(one.result.compute), sim::format_seconds(one.result.stall));
  if (one.result.micro_steps > 1) text += optimizer_step_text(one.result);
  text += "\n";
  text += "  " + one.bound + "\n\n";
  std::vector<std::vector<std::string>> rows;
  for (const sim::PathShare& part : one.path) {
    rows.push_back({part.what, sim::format_milliseconds(part.time),
                    sim::format_percent(share_of(part.time, one))});
  }
  text += sim::format_table({"what decides the step", "ms", "share"}, rows, bold) + "\n";
  rows.clear();
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    const double stall = one.result.stall_by_cause.at(i);
    if (stall == 0) continue;
    rows.push_back({std::string(name_of(static_cast<WaitCause>(i))),
                    sim::format_milliseconds(stall), sim::format_percent(share_of(stall, one))});
  }
  if (!rows.empty())
    text += sim::format_table({"the GPU waits for", "ms", "share"}, rows, bold) + "\n";
  rows.clear();
  for (const sim::WhatIf& what : one.what_if) {
    rows.push_back({sim::to_string(what.resource), sim::format_milliseconds(what.step_time),
                    fmt::format("{:.2f}x", one.result.step_time / what.step_time)});
  }
  return text + sim::format_table({"twice as fast", "step ms", "gain"}, rows, bold) + "\n";
}

nlohmann::ordered_json as_json(const sim::Explanation& one) {
  using sim::rounded_milliseconds;
  nlohmann::ordered_json map;
  map["schedule"] = one.result.schedule;
  map["step_time_ms"] = rounded_milliseconds(one.result.step_time);
  if (one.result.micro_steps > 1) {
    map["gradient_accumulation_steps"] = one.result.micro_steps;
    map["micro_step_time_ms"] = rounded_milliseconds(one.result.micro_step_time);
    map["optimizer_step_time_ms"] = rounded_milliseconds(one.result.optimizer_step_time);
  }
  map["bound"] = one.bound;
  map["path_ms"] = nlohmann::ordered_json::object();
  for (const sim::PathShare& part : one.path)
    map["path_ms"][part.what] = rounded_milliseconds(part.time);
  map["stall_by_cause_ms"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < kStallCauses; ++i) {
    map["stall_by_cause_ms"][std::string(name_of(static_cast<WaitCause>(i)))] =
        rounded_milliseconds(one.result.stall_by_cause.at(i));
  }
  map["step_time_ms_if_twice_as_fast"] = nlohmann::ordered_json::object();
  for (const sim::WhatIf& what : one.what_if) {
    map["step_time_ms_if_twice_as_fast"][sim::to_string(what.resource)] =
        rounded_milliseconds(what.step_time);
  }
  return map;
}

}  // namespace

int explain_command(const CommonOptions& common) {
  check_report(common.report, common.overwrite);
  const LoadedJob loaded = load_job(common, common.scenarios.front());
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  document["scenario"] = loaded.job.scenario.name;
  if (!loaded.job.deepspeed.not_modelled.empty())
    document["not_modelled"] = loaded.job.deepspeed.not_modelled;
  if (!loaded.job.assumptions.empty()) document["assumptions"] = loaded.job.assumptions;
  document["explanations"] = nlohmann::ordered_json::array();
  std::string text = job_heading(loaded.job) + "\n";
  sim::PageContent page{"explain", loaded.job.scenario.name, ""};
  for (const sim::Schedule* schedule : loaded.schedules) {
    if (signal_exit_code() != 0) break;
    sim::Explanation one;
    if (!finishes([&] { one = sim::explain(loaded.job, *schedule); })) break;
    document["explanations"].push_back(as_json(one));
    text += as_text(one, colored(common));
    if (common.report) {
      page.runs.push_back(page_run(loaded.job, *schedule, one.result, one.result.schedule));
    }
  }
  page.document = json_text(document);
  print(common.json ? page.document : text);
  if (signal_exit_code() == 0) write_report(common.report, page, common.overwrite, common.quiet);
  return signal_exit_code();
}

}  // namespace zenflow::tools
