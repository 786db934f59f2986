/// zenflow-calibrate: measures and examines the machine that it runs on.
#include <sstream>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "sim/base/error.h"
#include "tools/calibrate/calibrate.h"
#include "tools/commands/record.h"
#include "tools/environment.h"
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
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-calibrate",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
