/// zenflow-validate: predictions held against runs.
#include <CLI/CLI.hpp>

#include "sim/base/output_file.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/validate/store.h"
#include "tools/validate/validate.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

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
  const std::string date = date_or_today(options.date);
  // Before hours of work whose result would be lost.
  for (const auto* file : {&options.write_profile, &options.overlay}) {
    if (!file->empty()) check_output(*file, options.overwrite);
  }
  if (!options.page.empty()) check_store(options);
  if (!options.live && options.traces.empty()) {
    write_page(options);
    return 0;
  }
  const Comparison comparison =
      options.live ? compare_live(options, date) : compare_traces(options, date);
  if (comparison.signal != 0) {
    complain("zenflow-validate: stopped by a signal; nothing has been compared\n");
    return comparison.signal;
  }
  return report(options, date, comparison);
}

}  // namespace
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-validate",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
