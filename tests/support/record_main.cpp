// "record" without the other commands of zenflow-calibrate.
#include <functional>

#include <CLI/CLI.hpp>

#include "sim/base/error.h"
#include "tools/commands/record.h"
#include "tools/environment.h"

int main(int argc, char** argv) {
  using namespace zenflow;
  tools::catch_signals();
  return tools::run_program("record_main", [&] {
    CLI::App app{"record"};
    app.require_subcommand(1);
    std::function<int()> chosen;
    tools::add_record(app, chosen);
    try {
      app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      throw Error(ErrorKind::kInput, error.what());
    }
    return chosen();
  });
}
