/// zenflow-train: trains a transformer with its optimizer offloaded, on the host device or a GPU.
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "runtime/comm/launch.h"
#if defined(ZENFLOW_HAVE_MPI)
#include "runtime/comm/mpi_communicator.h"
#endif

#include "runtime/train/measured_result.h"
#include "runtime/train/trainer.h"
#include "sim/base/error.h"
#include "sim/base/input_file.h"
#include "sim/base/output_file.h"
#include "sim/base/paths.h"
#include "sim/base/stop.h"
#include "sim/trace/chrome_trace.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/train/options.h"
#include "tools/train/progress.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

/// Ends all ranks.
[[noreturn]] void end_job(int code) {
#if defined(ZENFLOW_HAVE_MPI)
  runtime::end_mpi_job(code);
#endif
  std::_Exit(code);
}

/// Ranks that mpirun has started, or nothing for a process alone.
std::unique_ptr<runtime::Communicator> start_ranks(int& argc, char**& argv, double limit_seconds) {
  const auto launch = runtime::several_ranks([](const char* name) { return std::getenv(name); });
  if (!launch) return nullptr;
#if defined(ZENFLOW_HAVE_MPI)
  if (launch->by_mpi) {
    auto ranks = runtime::start_mpi(argc, argv, limit_seconds, [limit_seconds](int rank) {
      complain(fmt::format("zenflow-train: rank {} has not answered for {} s (--rank-timeout)\n",
                           rank, limit_seconds));
      end_job(static_cast<int>(ErrorKind::kRuntime));
    });
    if (ranks->size() == launch->ranks) return ranks;
    throw Error(
        ErrorKind::kInput,
        fmt::format("{} is {} in the environment, but MPI finds {}: ranks are started by the "
                    "mpirun of the MPI that this was built with",
                    launch->variable, launch->ranks, ranks->size()));
  }
  constexpr const char* kWhy = "ranks are started by mpirun: mpirun -np N zenflow-train ...";
#else
  static_cast<void>(argc);
  static_cast<void>(argv);
  static_cast<void>(limit_seconds);
  constexpr const char* kWhy = "this build has no MPI: one rank only";
#endif
  throw Error(ErrorKind::kInput, fmt::format("{} is {} in the environment; {}", launch->variable,
                                             launch->ranks, kWhy));
}

int exit_code(const std::exception& error) {
  const auto* const known = dynamic_cast<const Error*>(&error);
  return known == nullptr ? 1 : error_exit_code(*known);
}

int run(const TrainCommand& command) {
  // What cannot be read is said before gigabytes are filled.
  std::error_code unknown;
  if (command.train.weights && !fs::is_directory(*command.train.weights, unknown)) {
    static_cast<void>(InputFile(*command.train.weights));
  }
  Progress progress(command);
  const bool speaks = command.train.rank() == 0;
  runtime::TrainEvents events =
      speaks ? reporting_events(command, progress) : runtime::TrainEvents{};
  events.rank_failed = [&command](const std::exception& error) {
    complain(fmt::format("zenflow-train: rank {}: {}\n", command.train.rank(), error.what()));
    end_job(exit_code(error));
  };
  // From then on the run is what stops, behind a step and with a checkpoint.
  events.steps_begin = [] { set_stop_question(nullptr); };
  events.stop = [] { return signal_exit_code() != 0; };
  if (!command.train.cuda) {  // a GPU goes on meanwhile
    delay_suspension();
    events.suspension_asked = suspension_asked;
  }
  for (const std::string& text : command.notes) {
    if (events.note) events.note(text);
  }
  const fs::path trace = path_of_rank(command.trace, command.train.rank());
  if (command.train.record_trace) check_output(trace, command.train.overwrite);
  const runtime::TrainReport report = runtime::train(command.train, events);
  if (speaks) {
    progress.end_line();
    print(command.json ? runtime::measured_result_json(command.train, report, kVersion)
                       : summary(command, report));
  }
  if (command.train.record_trace) {
    write_output(trace, sim::chrome_trace(report.timeline), command.train.overwrite);
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
  const std::unique_ptr<runtime::Communicator> ranks =
      start_ranks(argc, argv, command.rank_timeout);
  command.train.communicator = ranks.get();
  if (ranks == nullptr) return run(command);
  try {
    return run(command);
  } catch (const std::exception& error) {  // before a rank has begun: the others wait for it
    complain(fmt::format("zenflow-train: rank {}: {}\n", ranks->rank(), error.what()));
    end_job(exit_code(error));
  }
}

}  // namespace
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-train",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
