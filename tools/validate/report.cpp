#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/simulate/simulated_timeline.h"
#include "sim/trace/chrome_trace.h"
#include "tools/environment.h"
#include "tools/validate/store.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

/// Enough to see a window's end and what comes of it.
constexpr std::size_t kShownWindows = 2;

sim::ValidationDocument document_of(const ValidateOptions& options, const std::string& date,
                                    const Comparison& comparison) {
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

void write_overlay(const ValidateOptions& options, const Comparison& comparison) {
  if (options.overlay.empty()) return;
  std::vector<sim::OverlaidSetting> settings;
  for (const OverlayPart& part : comparison.overlay) {
    sim::OverlaidSetting one{part.name, part.predicted_stretch, part.measured_stretch};
    one.predicted.timeline = &part.predicted;
    one.measured.timeline = &part.measured;
    settings.push_back(std::move(one));
  }
  if (settings.empty()) {
    throw Error(ErrorKind::kInput, "--overlay: nothing recorded says when things happened");
  }
  write_output(options.overlay, sim::chrome_trace(sim::overlay(settings)), options.overwrite);
}

void write_profile(const ValidateOptions& options, const Comparison& comparison) {
  if (options.write_profile.empty() || !comparison.fit) return;
  write_output(
      options.write_profile,
      sim::fitted_profile_text(comparison.base_profile, *comparison.fit,
                               options.write_profile.stem().string(), comparison.fitted_to),
      options.overwrite);
}

}  // namespace

void predict_setting(const sim::Job& job, const sim::Schedule& schedule,
                     sim::ComparedSetting& setting, OverlayPart* overlay) {
  const sim::Prediction prediction = sim::predict(job, schedule);
  setting.predicted = prediction.figures;
  if (overlay == nullptr) return;
  overlay->name = setting.name;
  overlay->predicted =
      sim::simulated_timeline(prediction.job, std::string(schedule.name()), prediction.run);
  overlay->predicted_stretch = sim::settled_stretch(prediction, overlay->predicted, kShownWindows);
  // As many steps of both.
  std::size_t steps = 0;
  const sim::TimelineStretch& shown = overlay->predicted_stretch;
  for (const sim::TimelineStep& step : overlay->predicted.steps) {
    if (step.start >= shown.begin && step.start < shown.end) ++steps;
  }
  sim::TimelineStretch& measured = overlay->measured_stretch;
  for (const sim::TimelineStep& step : overlay->measured.steps) {
    if (step.start < measured.begin || steps == 0) continue;
    if (--steps == 0) measured.end = std::min(measured.end, step.end);
  }
}

int report(const ValidateOptions& options, const std::string& date, const Comparison& comparison) {
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
