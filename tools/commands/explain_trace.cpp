#include "tools/commands/explain_trace.h"

#include <fmt/format.h>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_report.h"
#include "tools/environment.h"
#include "tools/read_trace.h"
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

}  // namespace

int explain_trace_command(const OutputStyle& style, const ExplainTraceOptions& options) {
  sim::ImportOptions settings;
  if (options.rules) settings.rules = sim::read_rules(*options.rules);
  settings.steps = options.steps;
  std::string text;
  std::string list;
  for (const std::filesystem::path& file : options.traces) {
    const std::string name = file.generic_string();
    const sim::ImportedTrace trace = read_trace(file, settings, !style.quiet);
    const sim::TraceAnalysis analysis = sim::analyze(trace, settings.rules);
    if (style.json && !style.quiet) {
      for (const std::string& problem : trace.problems) complain("note: " + problem + "\n");
    }
    if (style.json) {
      list += (list.empty() ? "" : ",\n") + indented(sim::trace_json(trace, analysis, name));
    } else {
      text += sim::trace_text(trace, analysis, name, style.bold);
    }
  }
  if (style.json) {
    text = fmt::format(
        "{{\n  \"schema_version\": 1,\n  \"version\": \"{}\",\n  \"traces\": [\n{}\n  ]\n}}\n",
        kVersion, list);
  }
  print(text);
  return signal_exit_code();
}

}  // namespace zenflow::tools
