#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/trace/import/clocks.h"
#include "sim/trace/import/decimal_time.h"
#include "sim/trace/import/import_trace.h"
#include "sim/trace/import/json_text.h"
#include "sim/trace/import/nsight_file.h"
#include "sim/trace/import/nsight_host.h"
#include "sim/trace/import/nsight_work.h"
#include "sim/trace/import/phases.h"
#include "sim/trace/import/steps.h"
#include "sim/trace/launches.h"

namespace zenflow::sim {

namespace {

/// Traced things that have a table of their own. Releases add tables: what has times is one.
void count_others(NsightFile& file) {
  const SqliteDatabase& database = file.database();
  for (const std::string& table : database.tables()) {
    const bool is_read = table == nsight::kKernels || table == nsight::kCopies ||
                         table == nsight::kMemsets || table == nsight::kCalls ||
                         table == nsight::kDriverCalls || table == nsight::kSyncs ||
                         table == nsight::kRanges;
    const bool is_traced = table.starts_with("CUPTI_ACTIVITY_KIND_") ||
                           database.has_column(table, "start") ||
                           database.has_column(table, "timestamp");
    if (is_read || !is_traced) continue;
    if (table == "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" && database.count(table) > 0) {
      file.problem(
          fmt::format("{} CUDA graphs were traced as a whole: what ran in them is not in the "
                      "file and counts as "
                      "idle (record with --cuda-graph-trace=node)",
                      database.count(table)));
    }
    const bool has_times = database.has_column(table, "start") && database.has_column(table, "end");
    SqliteRows rows = database.rows(table, {"start", "end"});
    while (rows.next()) {
      const auto when = has_times && rows.is_number(0) && rows.is_number(1)
                            ? since({rows.integer(1), 0}, rows.integer(0))
                            : std::nullopt;
      const bool is_duration = when && when->count > 0;
      file.left_out().add(table, is_duration ? *when : Picoseconds{}, rows.number(), "row");
    }
  }
}

/// What Nsight says itself where it recorded nothing of a GPU: no permission, an old driver.
void add_diagnostics(NsightFile& file) {
  const std::string table = "DIAGNOSTIC_EVENT";
  const Timeline& timeline = file.timeline();
  const bool has_work =
      std::any_of(timeline.spans.begin(), timeline.spans.end(),
                  [&](const TimelineSpan& span) { return is_gpu_work(kind_of(timeline, span)); });
  if (has_work || !file.database().has_table(table)) return;
  const auto severities = file.enumeration("ENUM_DIAGNOSTIC_SEVERITY_LEVEL", {});
  constexpr std::size_t kMost = 10;
  std::vector<std::string> said;
  std::size_t further = 0;
  SqliteRows rows = file.database().rows(table, {"text", "severity"});
  while (rows.next()) {
    const auto severity = severities.find(rows.integer(1));
    const bool informs =
        severity != severities.end() && (severity->second.find("nfo") != std::string::npos ||
                                         severity->second.find("INFO") != std::string::npos);
    const std::string text = as_utf8(rows.text(0));
    if (informs || text.empty() || std::find(said.begin(), said.end(), text) != said.end()) {
      continue;
    }
    if (said.size() == kMost) {
      ++further;
      continue;
    }
    said.push_back(text);
    file.problem("Nsight Systems says: " + text);
  }
  if (further > 0) file.problem(fmt::format("Nsight Systems says {} further things", further));
}

void read_metadata(NsightFile& file) {
  const std::string table = "META_DATA_EXPORT";
  if (!file.database().has_table(table)) return;
  SqliteRows rows = file.database().rows(table, {"name", "value"});
  while (rows.next()) {
    if (rows.text(0) != "EXPORT_PRODUCT_VERSION" && rows.text(0) != "EXPORT_SCHEMA_VERSION")
      continue;
    file.timeline().metadata.emplace_back(as_utf8(rows.text(0)),
                                          nlohmann::json(as_utf8(rows.text(1))).dump());
  }
}

}  // namespace

ImportedTrace import_nsight(const std::filesystem::path& path, const ImportOptions& options) {
  NsightFile file(path, options);
  read_gpu_work(file);
  read_host_events(file);
  count_others(file);
  name_threads(file);
  read_metadata(file);
  ImportedTrace& result = file.result();
  Timeline& timeline = result.timeline;
  timeline.name = path.filename().string();
  file.finish();
  add_diagnostics(file);
  const SpanLaunches launch = launch_of_spans(timeline);
  note_clock_differences(file.name(), launch, result);
  assign_phases(timeline, launch, file.collector().intervals(), options.rules);
  result.step_source =
      find_steps(timeline, launch, file.collector().intervals(), options.rules, options.steps);
  result.left_out = file.left_out().take();
  note_unusable(file.name(), result);
  return std::move(result);
}

}  // namespace zenflow::sim
