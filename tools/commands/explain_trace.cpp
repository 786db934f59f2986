#include "tools/commands/explain_trace.h"

#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/report/trace_analysis.h"
#include "sim/report/trace_report.h"
#include "sim/trace/import/import_trace.h"
#include "tools/environment.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

/// Percent on a terminal; ends the import when a signal has come.
class Progress {
 public:
  Progress(std::string file, bool is_shown)
      : file_(std::move(file)), is_shown_(is_shown && is_terminal(stderr)) {}
  ~Progress() {
    if (percent_ >= 0) complain("\r\x1B[K");
  }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(std::uint64_t done, std::uint64_t total) {
    if (signal_exit_code() != 0)
      throw Error(ErrorKind::kRuntime, file_ + ": stopped while reading");
    if (!is_shown_ || total == 0) return;
    const int percent =
        static_cast<int>(100.0 * static_cast<double>(done) / static_cast<double>(total));
    if (percent == percent_) return;
    percent_ = percent;
    complain(fmt::format("\rreading {}: {} %", file_, percent));
  }

 private:
  std::string file_;
  bool is_shown_;
  int percent_ = -1;
};

/// A JSON document moved to the right.
std::string indented(const std::string& text) {
  std::string out = "    ";
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "    ";
  }
  return out;
}

/// Throws Error(kInput) with names that ranges do have if the user's expression matches none.
void require_steps(const sim::ImportedTrace& trace, const std::string& file,
                   const std::string& pattern) {
  if (trace.step_source == sim::StepSource::kPattern) return;
  if (trace.step_source == sim::StepSource::kTimers) {
    throw Error(ErrorKind::kInput, file + ": --steps: a log's steps are its timers' records");
  }
  constexpr std::size_t kShown = 5;
  std::set<std::string_view> names;
  for (const sim::TimelineSpan& span : trace.timeline.spans) {
    if (span.kind == sim::SpanKind::kRange) names.insert(trace.timeline.name_of(span));
    if (names.size() > kShown) break;
  }
  const bool are_more = names.size() > kShown;
  if (are_more) names.erase(std::prev(names.end()));
  throw Error(ErrorKind::kInput,
              fmt::format("{}: --steps: expected an expression that the whole name of a range "
                          "matches, found '{}'; {}{}{}",
                          file, pattern, names.empty() ? "there are no ranges" : "ranges are ",
                          fmt::join(names, ", "), are_more ? ", ..." : ""));
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
    sim::ImportedTrace trace;
    try {
      Progress progress(name, !style.quiet);
      settings.progress = [&](std::uint64_t done, std::uint64_t total) {
        progress.show(done, total);
      };
      trace = sim::import_trace(file, settings);
    } catch (const Error&) {
      if (signal_exit_code() != 0) return signal_exit_code();
      throw;
    }
    if (!options.steps.empty()) require_steps(trace, name, options.steps);
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
