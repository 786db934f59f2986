#include <memory>

#include <CLI/CLI.hpp>

#include "tools/calibrate/calibrate.h"
#include "tools/commands/explain_trace.h"
#include "tools/environment.h"

namespace zenflow::tools {

void add_fit(CLI::App& app, Command& chosen) {
  struct Options {
    ExplainTraceOptions analyze;
    OutputStyle style;
  };
  CLI::App* fit = app.add_subcommand("fit", "what recorded runs say of this machine");
  const auto options = std::make_shared<Options>();
  fit->add_option("--analyze", options->analyze.traces,
                  "traces to analyse without any model, as zenflow-sim explain --trace does")
      ->required()
      ->type_name("TRACE...");
  fit->add_option("--steps", options->analyze.steps,
                  "regular expression for ranges that are steps");
  fit->add_option("--rules", options->analyze.rules,
                  "phases and lanes by name (YAML, docs/traces.md)");
  fit->add_flag("--json", options->style.json, "one JSON document on standard output");
  fit->add_flag("-q,--quiet", options->style.quiet, "no notes and no progress");
  fit->callback([options, &chosen] {
    chosen = [options] {
      OutputStyle style = options->style;
      style.bold = use_color(ColorMode::kAuto, stdout);
      return explain_trace_command(style, options->analyze);
    };
  });
}

}  // namespace zenflow::tools
