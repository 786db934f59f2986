/// zenflow-calibrate: measures and examines the machine that it runs on.
#include <sstream>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "sim/base/error.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands/record.h"
#include "tools/environment.h"
#include "tools/program_pages.h"
#include "tools/programs.h"
#include "tools/version.h"

namespace zenflow::tools {

namespace {

int main_program(int argc, char** argv) {
  CLI::App app{"Measures and examines this machine for offloaded training."};
  app.name("zenflow-calibrate");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.footer(
      "Exit codes: 0 done (doctor: nothing fails), 1 failed while running (doctor: a check fails), "
      "2 bad usage or input, 4 two probes do not agree, 5 a GPU was asked for and is not usable, "
      "130/143 stopped by a "
      "signal.");
  Command chosen;
  add_probe(app, chosen);
  add_compare(app, chosen);
  add_merge(app, chosen);
  add_fit(app, chosen);
  add_doctor(app, chosen);
  add_record(app, chosen);
  if (print_page(app, argc, argv)) return 0;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
      std::ostringstream out;
      app.exit(error, out, out);
      print(out.str());
      return 0;
    }
    throw Error(ErrorKind::kInput, std::string(error.what()) + "; see zenflow-calibrate --help");
  }
  return chosen();
}

}  // namespace

int calibrate_main(int argc, char** argv) {
  catch_signals();
  return run_program("zenflow-calibrate", [&] { return main_program(argc, argv); });
}

}  // namespace zenflow::tools
