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

struct Compared {
  std::string scenario;
  sim::SimulationResult result;
  double speedup = 0;  ///< against zero-offload of the same scenario
};

std::vector<Compared> compare(const LoadedJob& loaded) {
  const double baseline =
      sim::simulate_schedule(loaded.job, sim::find_schedule("zero-offload")).step_time;
  std::vector<Compared> rows;
  for (const sim::Schedule* schedule : loaded.schedules) {
    sim::SimulationResult result = sim::simulate_schedule(loaded.job, *schedule);
    const double speedup = baseline / result.step_time;
    rows.push_back({loaded.job.scenario.name, std::move(result), speedup});
  }
  return rows;
}

std::string as_table(const std::vector<Compared>& rows, bool bold) {
  std::vector<std::vector<std::string>> cells;
  for (const Compared& row : rows) {
    cells.push_back(
        {row.scenario, row.result.schedule, sim::format_milliseconds(row.result.step_time),
         fmt::format("{:.2f}x", row.speedup), sim::format_milliseconds(row.result.stall),
         sim::format_percent(row.result.compute / row.result.step_time),
         fmt::format("{:.3f}", row.result.model_sizes),
         fmt::format("{:.0f}", row.result.tokens_per_second),
         sim::format_gib(row.result.memory.gpu.total),
         sim::format_gib(row.result.memory.limit(sim::MemoryLimit::kHost).need),
         row.result.memory.fits ? "yes" : "NO"});
  }
  return sim::format_table(
      {"scenario", "schedule", "step ms", "vs zero-offload", "stall ms", "GPU busy", "PCIe/step",
       "tokens/s", "GPU memory", "host memory", "fits"},
      cells, bold, 2);
}

/// The scenario's document with the speed-ups.
nlohmann::ordered_json as_json(const LoadedJob& loaded, const std::vector<Compared>& compared) {
  std::vector<sim::SimulationResult> results;
  for (const Compared& row : compared) results.push_back(row.result);
  auto document = nlohmann::ordered_json::parse(sim::result_json(loaded.job, results, kVersion));
  for (std::size_t i = 0; i < compared.size(); ++i) {
    document["results"][i]["speedup_vs_zero_offload"] = compared[i].speedup;
  }
  return document;
}

std::string document_text(nlohmann::ordered_json scenarios) {
  nlohmann::ordered_json all;
  all["schema_version"] = 1;
  all["tool"] = "zenflow-sim";
  all["version"] = kVersion;
  all["scenarios"] = std::move(scenarios);
  return json_text(all);
}

void add_runs(const LoadedJob& loaded, const std::vector<Compared>& compared,
              std::vector<sim::PageRun>& runs) {
  for (std::size_t i = 0; i < compared.size(); ++i) {
    runs.push_back(page_run(loaded.job, *loaded.schedules[i], compared[i].result,
                            compared[i].scenario + ": " + compared[i].result.schedule));
  }
}

}  // namespace

int compare_command(const CommonOptions& common) {
  check_report(common.report, common.overwrite);
  std::vector<Compared> rows;
  nlohmann::ordered_json documents = nlohmann::ordered_json::array();
  sim::PageContent page{"compare", "", ""};
  for (const auto& path : common.scenarios) {
    if (signal_exit_code() != 0) break;
    const LoadedJob loaded = load_job(common, path);
    std::vector<Compared> compared;
    if (!finishes([&] { compared = compare(loaded); })) break;
    if (common.json || common.report) documents.push_back(as_json(loaded, compared));
    if (common.report) {
      page.title += (page.title.empty() ? "" : ", ") + loaded.job.scenario.name;
      add_runs(loaded, compared, page.runs);
    }
    rows.insert(rows.end(), compared.begin(), compared.end());
  }
  page.document = document_text(std::move(documents));
  print(common.json ? page.document : as_table(rows, colored(common)));
  if (signal_exit_code() == 0) write_report(common.report, page, common.overwrite, common.quiet);
  return signal_exit_code();
}

}  // namespace zenflow::tools
