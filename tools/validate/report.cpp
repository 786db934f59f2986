#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/trace/chrome_trace.h"
#include "tools/environment.h"
#include "tools/report_page.h"
#include "tools/validate/store.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

sim::ValidationDocument document_of(const ValidateOptions& options, const std::string& date,
                                    const sim::Comparison& comparison) {
  sim::ValidationDocument document;
  document.version = kVersion;
  document.scenario = comparison.scenario;
  document.origin = {comparison.device, date,
                     options.machine.empty() ? comparison.machine : options.machine,
                     options.command, options.remarks};
  if (!options.live) {
    document.origin.remarks.insert(document.origin.remarks.end(), comparison.notes.begin(),
                                   comparison.notes.end());
  }
  if (comparison.fit) document.numbers = comparison.fit->numbers;
  document.settings = comparison.settings;
  document.tolerance = options.limits();
  sim::judge(document);
  return document;
}

void write_overlay(const ValidateOptions& options, const sim::Comparison& comparison) {
  if (options.overlay.empty()) return;
  write_output(options.overlay, sim::chrome_trace(sim::overlay(comparison.overlay)),
               options.overwrite);
}

void write_profile(const ValidateOptions& options, const sim::Comparison& comparison) {
  if (options.write_profile.empty() || !comparison.fit) return;
  write_output(
      options.write_profile,
      sim::fitted_profile_text(comparison.base_profile, *comparison.fit,
                               options.write_profile.stem().string(), comparison.fitted_to),
      options.overwrite);
}

/// With each setting's lanes, predicted above measured, as far as recordings say when things
/// happened.
void write_report_page(const ValidateOptions& options, const sim::ValidationDocument& document,
                       const sim::Comparison& comparison) {
  if (!options.report) return;
  sim::PageContent page{"validate", document.scenario, sim::document_json(document)};
  if (!comparison.overlay.empty()) {
    page.runs.push_back({"predicted above measured", sim::overlay(comparison.overlay)});
  }
  write_report(options.report, page, options.overwrite, options.quiet);
}

}  // namespace

int report(const ValidateOptions& options, const std::string& date,
           const sim::Comparison& comparison) {
  const sim::ValidationDocument document = document_of(options, date, comparison);
  const sim::ValidationSummary& summary = document.summary;
  if (!options.quiet) {
    for (const std::string& text : comparison.notes) complain("note: " + text + "\n");
  }
  write_profile(options, comparison);
  write_overlay(options, comparison);
  if (options.json) {
    print(sim::document_json(document));
  } else {
    const bool bold = use_color(ColorMode::kAuto, stdout);
    print((comparison.fit ? sim::fitted_table(comparison.fit->numbers, bold) + "\n" : "") +
          sim::validation_table(document.settings, summary, document.tolerance, bold));
  }
  write_report_page(options, document, comparison);
  if (summary.too_noisy) {
    complain(fmt::format("zenflow-validate: the machine is too noisy to judge by{}\n",
                         options.page.empty() ? "" : "; nothing is stored"));
    return static_cast<int>(ErrorKind::kRuntime);
  }
  if (!options.page.empty()) {
    store(options, document);
    write_page(options);
  }
  return summary.within ? 0 : static_cast<int>(ErrorKind::kTolerance);
}

}  // namespace zenflow::tools
