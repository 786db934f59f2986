#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/deepspeed/estimator.h"
#include "sim/report/table.h"
#include "tools/commands/commands.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using sim::MemoryPeak;

void add_rows(const std::string& place, const MemoryPeak& peak, double capacity,
              std::vector<std::vector<std::string>>& rows) {
  for (std::size_t i = 0; i < peak.by_category.size(); ++i) {
    if (peak.by_category[i] == 0) continue;
    rows.push_back({place, sim::to_string(static_cast<sim::MemoryCategory>(i)),
                    sim::format_gib(peak.by_category[i]),
                    sim::format_percent(peak.by_category[i] / capacity)});
  }
  rows.push_back(
      {place, "peak", sim::format_gib(peak.total), sim::format_percent(peak.total / capacity)});
  rows.push_back({place, "capacity", sim::format_gib(capacity), ""});
}

std::string as_text(const sim::SimulationResult& result, bool bold) {
  std::vector<std::vector<std::string>> rows;
  add_rows("GPU", result.memory.gpu, result.memory.gpu_capacity, rows);
  add_rows("host", result.memory.host, result.memory.host_capacity, rows);
  return fmt::format("{}: {}\n", result.schedule, result.memory.fits ? "fits" : "DOES NOT FIT") +
         sim::format_table({"place", "category", "at the peak", "of capacity"}, rows, bold, 2) +
         "\n";
}

nlohmann::ordered_json as_json(const MemoryPeak& peak, double capacity) {
  nlohmann::ordered_json map;
  map["peak_bytes"] = static_cast<std::int64_t>(peak.total + 0.5);
  map["capacity_bytes"] = static_cast<std::int64_t>(capacity);
  map["by_category"] = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < peak.by_category.size(); ++i) {
    if (peak.by_category[i] == 0) continue;
    map["by_category"][sim::to_string(static_cast<sim::MemoryCategory>(i))] =
        static_cast<std::int64_t>(peak.by_category[i] + 0.5);
  }
  return map;
}

}  // namespace

int fit_command(const CommonOptions& common) {
  const LoadedJob loaded = load_job(common, common.scenarios.front());
  nlohmann::ordered_json document;
  document["schema_version"] = 1;
  document["tool"] = "zenflow-sim";
  document["version"] = kVersion;
  document["scenario"] = loaded.job.scenario.name;
  document["results"] = nlohmann::ordered_json::array();
  std::string text = job_heading(loaded.job) + "\n";
  const auto estimate =
      sim::deepspeed_estimate(loaded.job.scenario.model, loaded.job.deepspeed,
                              loaded.job.scenario.gpus, loaded.job.scenario.nodes);
  bool all_fit = true;
  for (const sim::Schedule* schedule : loaded.schedules) {
    if (signal_exit_code() != 0) break;
    const sim::SimulationResult result = sim::simulate_schedule(loaded.job, *schedule);
    all_fit = all_fit && result.memory.fits;
    text += as_text(result, colored(common));
    document["results"].push_back(
        {{"schedule", result.schedule},
         {"fits", result.memory.fits},
         {"gpu", as_json(result.memory.gpu, result.memory.gpu_capacity)},
         {"host", as_json(result.memory.host, result.memory.host_capacity)}});
  }
  if (estimate) {
    text += fmt::format(
        "DeepSpeed's own estimator for ZeRO-{} says {} a GPU and {} a node: it counts model states "
        "only,\nno activations, logits, buckets or CUDA context, and multiplies the host's by "
        "1.5.\n",
        loaded.job.deepspeed.zero_stage, sim::format_gib(estimate->gpu_bytes),
        sim::format_gib(estimate->cpu_bytes));
    document["deepspeed_estimator"] = {{"gpu_bytes", estimate->gpu_bytes},
                                       {"cpu_bytes", estimate->cpu_bytes}};
  }
  print(common.json ? document.dump(2) + "\n" : text);
  if (signal_exit_code() != 0) return signal_exit_code();
  return all_fit ? 0 : static_cast<int>(ErrorKind::kInfeasible);
}

}  // namespace zenflow::tools
