/// zenflow-validate: predictions held against runs.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/output_file.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/programs.h"
#include "tools/read_trace.h"
#include "tools/report_page.h"
#include "tools/validate/store.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

sim::Comparison compare(ValidateOptions& options, const std::string& date) {
  if (!options.live) {
    const auto read = [&options](const std::filesystem::path& file, const sim::ImportOptions& how) {
      return read_trace(file, how, !options.quiet);
    };
    return sim::compare_traces(options, read, date);
  }
  options.environment = environment_variables();
  const bool shows_progress = !options.quiet && is_terminal(stderr);
  const runtime::LiveComparisonEvents events{
      [] { return signal_exit_code() != 0; },
      [shows_progress](std::int64_t round, const std::string& setting) {
        if (shows_progress) rewrite_line(fmt::format("round {}: {}", round, setting));
      }};
  return runtime::compare_live(options, options.limits().mean_step / 3, events, date);
}

int main_program(int argc, char** argv) {
  ValidateOptions options;
  CLI::App app{
      "Holds predictions against runs: step time, stall by cause, phases, bytes, memory; here "
      "(--live) or recorded (--trace)."};
  app.name("zenflow-validate");
  app.set_version_flag("--version", kVersion);
  add_validate_options(app, options);
  app.footer(
      "Exit codes: 0 within tolerance, 1 failed while running or too noisy to judge, 2 bad usage "
      "or input, 4 outside tolerance, 5 no usable GPU.");
  if (!parse_command_line(app, argc, argv)) return 0;
  options.command = command_text(argc, argv);
  check_validate_options(options);
  check_report(options.report, options.overwrite, {options.write_profile, options.overlay});
  if (options.published) return report_published(options);
  const std::string date = date_or_today(options.date);
  options.shows_overlay = options.report.has_value();
  // Before hours of work whose result would be lost.
  for (const auto* file : {&options.write_profile, &options.overlay}) {
    if (!file->empty()) check_output(*file, options.overwrite);
  }
  if (!options.page.empty()) check_store(options);
  if (!options.live && options.traces.empty()) {
    write_page(options);
    return 0;
  }
  options.profile_directories = profile_directories(options.scenario);
  const sim::Comparison comparison = compare(options, date);
  if (comparison.stopped) {
    complain("zenflow-validate: stopped by a signal; nothing has been compared\n");
    return signal_exit_code();
  }
  return report(options, date, comparison);
}

}  // namespace

int validate_main(int argc, char** argv) {
  catch_signals();
  return run_program("zenflow-validate", [&] { return main_program(argc, argv); });
}

}  // namespace zenflow::tools
