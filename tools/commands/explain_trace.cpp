#include "tools/commands/explain_trace.h"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "sim/config/gpu_catalogue.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_report.h"
#include "tools/environment.h"
#include "tools/read_trace.h"
#include "tools/report_page.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

/// A JSON document moved to the right.
std::string indented(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

std::string document_text(const std::string& traces) {
  return fmt::format(
      "{{\n  \"schema_version\": 1,\n  \"version\": \"{}\",\n  \"traces\": [\n{}\n  ]\n}}\n",
      kVersion, traces);
}

/// "a.json, b.json".
std::string title_of(const std::vector<std::filesystem::path>& traces) {
  std::string text;
  for (const std::filesystem::path& one : traces) {
    text += (text.empty() ? "" : ", ") + one.filename().generic_string();
  }
  return text;
}

/// Products as shares of what the trace's GPUs can do, if the catalogue has them and they are
/// alike: a product is not of one of them.
void add_known_peaks(const sim::Timeline& timeline, sim::TraceAnalysis& analysis) {
  if (analysis.tables.products.empty() || timeline.devices.empty()) return;
  const sim::GpuCatalogue catalogue(profile_directories("scenarios/any"));
  const std::optional<std::string> key = catalogue.find(timeline.devices.front());
  const bool alike =
      std::all_of(timeline.devices.begin(), timeline.devices.end(),
                  [&](const std::string& device) { return catalogue.find(device) == key; });
  if (key && alike) {
    const Node entry = catalogue.load(*key, {}, "trace").second;
    const auto peak = sim::read_catalogue_gpu(entry, *key).gpu.peak;
    const auto rate = [&peak](sim::DType type) {
      const auto found = peak.find(type);
      return found == peak.end() ? 0 : found->second.value();
    };
    sim::add_peaks(analysis.tables.products, rate(sim::DType::kBf16), rate(sim::DType::kFp16));
  }
}

}  // namespace

int explain_trace_command(const OutputStyle& style, const ExplainTraceOptions& options) {
  check_report(options.report, options.overwrite);
  sim::ImportOptions settings;
  if (options.rules) settings.rules = sim::read_rules(*options.rules);
  settings.steps = options.steps;
  std::string text;
  std::string list;
  sim::PageContent page{"trace", title_of(options.traces), ""};
  for (const std::filesystem::path& file : options.traces) {
    const std::string name = file.generic_string();
    sim::ImportedTrace trace = read_trace(file, settings, !style.quiet);
    sim::TraceAnalysis analysis = sim::analyze(trace, settings.rules);
    add_known_peaks(trace.timeline, analysis);
    if (style.json && !style.quiet) {
      for (const std::string& problem : trace.problems) complain("note: " + problem + "\n");
    }
    if (style.json || options.report) {
      list += (list.empty() ? "" : ",\n") + indented(sim::trace_json(trace, analysis, name));
    }
    if (!style.json) text += sim::trace_text(trace, analysis, name, style.bold);
    if (options.report) page.runs.push_back({name, std::move(trace.timeline)});
  }
  page.document = document_text(list);
  print(style.json ? page.document : text);
  write_report(options.report, page, options.overwrite, style.quiet);
  return signal_exit_code();
}

}  // namespace zenflow::tools
