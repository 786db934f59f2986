/// zenflow-train: trains a transformer with its optimizer offloaded, on the host device or a GPU.
#include <CLI/CLI.hpp>

#include "runtime/train/measured_result.h"
#include "runtime/train/trainer.h"
#include "sim/base/output_file.h"
#include "sim/trace/chrome_trace.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/train/options.h"
#include "tools/train/progress.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

int run(const TrainCommand& command) {
  Progress progress(command);
  runtime::TrainEvents events = reporting_events(command, progress);
  events.stop = [] { return signal_exit_code() != 0; };
  if (!command.train.cuda) {  // a GPU goes on meanwhile
    delay_suspension();
    events.suspension_asked = suspension_asked;
  }
  for (const std::string& text : command.notes) {
    if (events.note) events.note(text);
  }
  const runtime::TrainReport report = runtime::train(command.train, events);
  progress.end_line();
  print(command.json ? runtime::measured_result_json(command.train, report, kVersion)
                     : summary(command, report));
  if (command.train.record_trace) {
    write_output(command.trace, sim::chrome_trace(report.timeline), command.train.overwrite);
  }
  return report.stopped ? signal_exit_code() : 0;
}

int main_program(int argc, char** argv) {
  CLI::App app{"Trains a transformer with its optimizer offloaded to the CPU."};
  app.name("zenflow-train");
  app.set_version_flag("--version", kVersion);
  app.footer(
      "Exit codes: 0 done, 1 failed while running, 2 bad usage or input, 3 does not fit, 5 no "
      "usable GPU, 130/143 stopped by a signal after the step and a checkpoint.");
  TrainCommand command;
  add_train_options(app, command);
  if (!parse_command_line(app, argc, argv)) return 0;
  interpret(app, command);
  return run(command);
}

}  // namespace
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-train",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
