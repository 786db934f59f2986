#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"
#include "sim/base/table.h"
#include "sim/schedule/micro_steps.h"
#include "sim/simulate/simulation.h"
#include "tools/commands/commands.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using sim::MicroStep;

template <class Number>
std::string or_dash(const std::optional<Number>& value) {
  return value ? std::to_string(*value) : "-";
}

std::string as_text(std::string_view schedule, const std::vector<MicroStep>& steps, bool bold) {
  std::vector<std::vector<std::string>> rows;
  for (const MicroStep& one : steps) {
    rows.push_back({std::to_string(one.step), std::to_string(one.window), one.selects ? "yes" : "-",
                    one.full_update ? "full"
                    : one.boundary  ? "yes"
                                    : "-",
                    or_dash(one.buffer), or_dash(one.weights_of)});
  }
  return fmt::format("{}\n", schedule) +
         sim::format_table({"step", "window", "selects", "updates", "buffer", "weights of"}, rows,
                           bold, 0);
}

nlohmann::ordered_json as_json(const MicroStep& one) {
  nlohmann::ordered_json map;
  map["step"] = one.step;
  map["window"] = one.window;
  map["selects"] = one.selects;
  map["boundary"] = one.boundary;
  map["full_update"] = one.full_update;
  map["buffer"] = nullptr;
  if (one.buffer) map["buffer"] = *one.buffer;
  map["weights_of"] = nullptr;
  if (one.weights_of) map["weights_of"] = *one.weights_of;
  return map;
}

}  // namespace

int steps_command(const CommonOptions& common, std::int64_t count) {
  const LoadedJob loaded = load_job(common, common.scenarios.front());
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  document["scenario"] = loaded.job.scenario.name;
  if (!loaded.job.assumptions.empty()) document["assumptions"] = loaded.job.assumptions;
  document["schedules"] = nlohmann::ordered_json::array();
  std::string text = job_heading(loaded.job) + "\n";
  for (const sim::Schedule* schedule : loaded.schedules) {
    // "auto" is resolved by simulating.
    const auto settings = schedule->zenflow(loaded.job);
    const bool is_auto = settings && !settings->update_interval;
    const sim::Job job =
        is_auto ? sim::with_update_interval(
                      loaded.job, *sim::simulate_schedule(loaded.job, *schedule).update_interval)
                : loaded.job;
    const std::vector<MicroStep> steps = sim::micro_steps(job, *schedule, count);
    text += as_text(schedule->name(), steps, colored(common)) + "\n";
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const MicroStep& one : steps) list.push_back(as_json(one));
    document["schedules"].push_back({{"schedule", schedule->name()}, {"micro_steps", list}});
  }
  print(common.json ? json_text(document)
                    : text +
                          "Steps count from 0. Weights of: the step whose CPU update arrives "
                          "as weights at this boundary.\n");
  return 0;
}

}  // namespace zenflow::tools
