#include "sim/report/sweep.h"

#include <optional>
#include <set>

#include <fmt/format.h>
#include <malloc.h>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/json_text.h"
#include "sim/base/table.h"
#include "sim/deepspeed/ds_config.h"
#include "sim/report/result_json.h"
#include "sim/schedule/live_work.h"
#include "tools/commands/commands.h"
#include "tools/progress_line.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

using Json = nlohmann::ordered_json;

/// Every point allocates and frees the same megabyte or so; giving it back to the system each
/// time costs a page fault per 4 KiB.
void keep_freed_memory() {
  constexpr int kKeep = 256 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kKeep);
  ::mallopt(M_TRIM_THRESHOLD, kKeep);
}

std::vector<std::string> header(const std::vector<sim::Variation>& variations,
                                std::initializer_list<const char*> columns) {
  std::vector<std::string> cells;
  for (const sim::Variation& one : variations) cells.push_back(one.key);
  cells.insert(cells.end(), columns.begin(), columns.end());
  return cells;
}

/// For people: rounded.
std::vector<std::string> table_cells(const std::vector<sim::Override>& settings,
                                     const sim::SimulationResult& result) {
  std::vector<std::string> row;
  for (const sim::Override& one : settings) row.push_back(one.value);
  for (std::string cell :
       {result.schedule, sim::format_milliseconds(result.step_time),
        sim::format_milliseconds(result.compute), sim::format_milliseconds(result.stall),
        fmt::format("{:.3f}", result.model_sizes), fmt::format("{:.0f}", result.tokens_per_second),
        fmt::format("{}", result.staleness.max), sim::format_gib(result.memory.gpu.total),
        sim::format_gib(result.memory.limit(sim::MemoryLimit::kHost).need),
        std::string(result.memory.fits ? "yes" : "NO")}) {
    row.push_back(std::move(cell));
  }
  return row;
}

/// For programs: the digits of the result document.
std::vector<std::string> csv_cells(const std::vector<sim::Override>& settings,
                                   const sim::SimulationResult& result) {
  std::vector<std::string> row;
  for (const sim::Override& one : settings) row.push_back(one.value);
  for (std::string cell :
       {result.schedule, sim::json_milliseconds(result.step_time),
        sim::json_milliseconds(result.compute), sim::json_milliseconds(result.stall),
        sim::json_number(result.compute / result.step_time), sim::json_number(result.model_sizes),
        sim::json_number(result.tokens_per_second), fmt::format("{}", result.staleness.max),
        fmt::format("{:.0f}", result.memory.gpu.total),
        fmt::format("{:.0f}", result.memory.limit(sim::MemoryLimit::kHost).need),
        std::string(result.memory.fits ? "true" : "false")}) {
    row.push_back(std::move(cell));
  }
  return row;
}

/// Reads the scenario's files once; per point only what overrides change is read again.
class PointReader {
 public:
  PointReader(const CommonOptions& common, const std::filesystem::path& scenario)
      : common_(common),
        scenario_(scenario),
        options_(load_options(common, scenario)),
        tree_(load_tree(common, scenario, options_)) {}

  sim::Job operator()(const std::vector<sim::Override>& settings) const {
    std::vector<sim::Override> all = options_.overrides;
    all.insert(all.end(), settings.begin(), settings.end());
    for (const sim::Override& one : settings) {
      if (!sim::names_a_file(one.path)) continue;
      sim::LoadOptions changed = options_;
      changed.overrides = all;
      return sim::make_job(
          sim::read_scenario(load_tree(common_, scenario_, changed), changed.overrides));
    }
    return sim::make_job(sim::read_scenario(tree_, all));
  }

 private:
  const CommonOptions& common_;
  std::filesystem::path scenario_;
  sim::LoadOptions options_;
  sim::ScenarioTree tree_;
};

class SweepOutput {
 public:
  SweepOutput(const std::string& format, const std::vector<sim::Variation>& variations)
      : format_(format),
        header_(
            format == "table"
                ? header(variations, {"schedule", "step ms", "GPU ms", "stall ms", "PCIe/step",
                                      "tokens/s", "staleness", "GPU memory", "host memory", "fits"})
                : header(variations,
                         {"schedule", "step_time_ms", "gpu_compute_ms", "gpu_stall_ms",
                          "gpu_utilization", "model_sizes_per_step", "tokens_per_second",
                          "staleness_max", "gpu_peak_bytes", "host_peak_bytes", "fits"})),
        left_(variations.size() + 1),
        points_(Json::array()) {}

  void add(const std::vector<sim::Override>& settings,
           const std::vector<sim::Variation>& variations, const sim::Sweeper::Point& point) {
    if (format_ != "json") {
      for (const sim::SimulationResult& one : point.results) {
        rows_.push_back(format_ == "table" ? table_cells(settings, one) : csv_cells(settings, one));
      }
      return;
    }
    Json set;
    for (std::size_t i = 0; i < settings.size(); ++i) set[variations[i].key] = settings[i].value;
    Json results = Json::parse(sim::result_json(point.job, point.results, kVersion))["results"];
    Json one = {{"set", std::move(set)}, {"results", std::move(results)}};
    if (!point.job.assumptions.empty()) one["assumptions"] = point.job.assumptions;
    points_.push_back(std::move(one));
  }

  [[nodiscard]] std::string text(const std::string& scenario, bool bold) const {
    if (format_ == "table") return sim::format_table(header_, rows_, bold, left_);
    if (format_ == "json") {
      Json document;
      document["schema_version"] = 1;
      document["tool"] = "zenflow-sim";
      document["version"] = kVersion;
      document["scenario"] = scenario;
      document["points"] = points_;
      return json_text(document);
    }
    std::string csv = sim::csv_line(header_);
    for (const auto& row : rows_) csv += sim::csv_line(row);
    return csv;
  }

 private:
  std::string format_;
  std::vector<std::string> header_;
  std::size_t left_;  ///< columns of text
  std::vector<std::vector<std::string>> rows_;
  Json points_;
};

/// What rows do not show: a setting that the schedule does not know, a key that is not modelled.
void add_ignored(const sim::Sweeper::Point& point, std::set<std::string>& warnings) {
  for (const sim::SimulationResult& one : point.results) {
    const auto note = sim::ignored_sum_place(one.schedule, point.job.scenario.offload);
    if (note) warnings.insert(*note);
    const bool of_deepspeed = !sim::live_kind(one.schedule);
    for (std::string& text : job_notes(point.job, of_deepspeed)) warnings.insert(std::move(text));
  }
}

/// The command line's settings that every point replaces.
void add_replaced(const std::vector<sim::Override>& settings,
                  const std::vector<sim::Variation>& variations, std::set<std::string>& warnings) {
  for (const sim::Override& one : settings) {
    for (const sim::Variation& varied : variations) {
      if (one.path != varied.path && !one.path.starts_with(varied.path + ".")) continue;
      warnings.insert(fmt::format("--set {}={} has no effect: --vary {} replaces it", one.path,
                                  one.value, varied.key));
    }
  }
}

}  // namespace

int sweep_command(const CommonOptions& common, const SweepOptions& options) {
  keep_freed_memory();
  std::vector<sim::Variation> variations;
  for (const std::string& text : options.vary) {
    variations.push_back(sim::parse_variation(text));
    variations.back().path = sim::expand_usual_name(variations.back().key);
  }
  const std::filesystem::path& scenario = common.scenarios.front();
  sim::Sweeper sweeper(PointReader(common, scenario));
  const std::size_t total = sim::combinations(variations);
  if (common.json && !options.format.empty() && options.format != "json") {
    throw Error(ErrorKind::kInput, fmt::format("--json or --format {}, not both", options.format));
  }
  const std::string format = common.json              ? "json"
                             : options.format.empty() ? "table"
                                                      : options.format;
  SweepOutput output(format, variations);
  std::optional<ProgressLine> progress(std::in_place, !common.quiet);
  std::set<std::string> warnings;
  add_replaced(load_options(common, scenario).overrides, variations, warnings);
  std::string name;
  for (std::size_t i = 0; i < total && signal_exit_code() == 0; ++i) {
    const std::vector<sim::Override> settings = sim::combination(variations, i);
    std::optional<sim::Sweeper::Point> simulated;
    if (!finishes([&] { simulated = sweeper.simulate(settings, common.schedules); })) break;
    const sim::Sweeper::Point& point = *simulated;
    name = point.job.scenario.name;
    output.add(settings, variations, point);
    add_ignored(point, warnings);
    progress->show(fmt::format("{} of {}", i + 1, total), static_cast<double>(i + 1),
                   static_cast<double>(total));
  }
  progress.reset();
  print(output.text(name, colored(common)));
  for (const std::string& warning : warnings) {
    if (!common.quiet) complain("zenflow-sim: warning: " + warning + "\n");
  }
  return signal_exit_code();
}

}  // namespace zenflow::tools
