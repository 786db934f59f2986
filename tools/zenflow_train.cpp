/// zenflow-train: trains a transformer with its optimizer offloaded, on the host device or a GPU.
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "runtime/comm/launch.h"
#include "runtime/comm/tcp_communicator.h"
#include "runtime/cuda/cuda_device.h"
#include "runtime/cuda/nccl_communicator.h"
#if defined(ZENFLOW_HAVE_MPI)
#include "runtime/comm/mpi_communicator.h"
#endif

#include "runtime/gpu/driver.h"
#include "runtime/machine/core_share.h"
#include "runtime/train/measured_result.h"
#include "runtime/train/rank_place.h"
#include "runtime/train/trainer.h"
#include "sim/base/error.h"
#include "sim/base/input_file.h"
#include "sim/base/output_file.h"
#include "sim/base/paths.h"
#include "sim/base/stop.h"
#include "sim/trace/chrome_trace.h"
#include "tools/command_line.h"
#include "tools/environment.h"
#include "tools/programs.h"
#include "tools/train/event_log.h"
#include "tools/train/options.h"
#include "tools/train/progress.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

/// Ranks that a launcher has started, or nothing for a process alone.
std::unique_ptr<runtime::Communicator> start_ranks(int& argc, char**& argv,
                                                   const TrainCommand& command) {
  const auto launch = runtime::several_ranks([](const char* name) { return std::getenv(name); });
  if (!launch) return nullptr;
  const runtime::RankLost lost = [](int rank, const std::string& how) {
    complain(fmt::format("zenflow-train: rank {} {}\n", rank, how));
  };
  const double limit = command.rank_timeout;
  if (!launch->by_mpi) {
    return runtime::start_tcp(launch->place, !command.train.cuda.has_value(), limit, lost);
  }
#if defined(ZENFLOW_HAVE_MPI)
  auto ranks = runtime::start_mpi(argc, argv, limit, lost);
  if (ranks->size() == launch->ranks) return ranks;
  throw Error(ErrorKind::kInput,
              fmt::format("{} is {} in the environment, but MPI finds {}: ranks are started by the "
                          "mpirun of the MPI that this was built with",
                          launch->variable, launch->ranks, ranks->size()));
#else
  static_cast<void>(argc);
  static_cast<void>(argv);
  throw Error(ErrorKind::kInput,
              fmt::format("{} is {} in the environment; this build has no MPI: start ranks with "
                          "torchrun --no-python",
                          launch->variable, launch->ranks));
#endif
}

/// What a rank says of its place.
std::string text_of(const runtime::RankPlace& place, const TrainCommand& command) {
  const char* whose = " of its own";
  if (place.bound_by_launcher) whose = " by the launcher";
  if (command.rank_binding == "none") whose = ", not bound";
  const runtime::OffloadSettings& offload = command.train.offload;
  return fmt::format("{}cores {}{}, {} optimizer threads{}{}",
                     place.gpu >= 0 ? fmt::format("GPU {}, ", place.gpu) : "",
                     runtime::list_of_cpus(place.cpus), whose, offload.optimizer_threads,
                     place.gpu >= 0 ? fmt::format(", {} for sums", offload.sum_threads) : "",
                     omp_num_threads() ? " (OMP_NUM_THREADS)" : "");
}

/// Chooses GPU and cores of this rank, and says those of all.
void take_place(const CLI::App& app, TrainCommand& command, runtime::Communicator& ranks) {
  runtime::TrainOptions& train = command.train;
  std::string boot;  // the same in all containers of a machine
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  const bool on_gpu = train.cuda.has_value();
  runtime::RankPlace place =
      runtime::place_rank(ranks, {.machine = boot,
                                  .allowed_cpus = runtime::allowed_cpus(),
                                  .gpus = on_gpu ? runtime::ask_driver().devices : 0,
                                  .bus_id = runtime::cuda_bus_id});
  if (command.rank_binding == "none") {
    place.cpus = runtime::allowed_cpus();
  } else {
    runtime::bind_to_cpus(place.cpus);
  }
  if (on_gpu && app.count("--gpu") > 0) {
    if (place.local_ranks > 1) {
      throw Error(ErrorKind::kInput, "--gpu: each of several ranks takes the GPU of its number");
    }
    place.gpu = train.cuda->ordinal;
  }
  if (on_gpu) train.cuda->ordinal = place.gpu;
  const int threads = default_threads();
  if (app.count("--threads") == 0) train.threads = threads;
  if (app.count("--optimizer-threads") == 0) train.offload.optimizer_threads = threads;
  if (on_gpu) share_cores(app, train.offload);
  const std::vector<std::string> all = runtime::texts_of_ranks(ranks, text_of(place, command));
  for (std::size_t r = 0; r < all.size(); ++r) {
    command.notes.push_back(fmt::format("rank {}: {}", r, all[r]));
  }
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
  EventLog log(command.log_dir, command.train.learning_rate);
  if (speaks && !command.log_dir.empty()) log.join(events);
  events.rank_failed = [&command](const std::exception& error) {
    complain(fmt::format("zenflow-train: rank {}: {}\n", command.train.rank(), error.what()));
    command.train.communicator->end_job(exit_code(error));
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
  std::optional<Error> unsaved = report.unsaved;
  if (const std::optional<Error> error = log.end(); error && !unsaved) unsaved = error;
  if (command.train.record_trace) {
    try {
      write_output(trace, sim::chrome_trace(report.timeline), command.train.overwrite);
    } catch (const Error& error) {
      if (!unsaved) unsaved = error;
    }
  }
  if (speaks) {
    progress.end_line();
    print(command.json ? runtime::measured_result_json(command.train, report, kVersion)
                       : summary(command, report));
  }
  if (unsaved) {  // what could be saved is, and the result is there
    complain(fmt::format("zenflow-train: {}\n", unsaved->what()));
    return 1;
  }
  // A rank that got no signal itself has stopped because another one did.
  constexpr int kInterrupted = 130;
  if (report.stopped) return signal_exit_code() != 0 ? signal_exit_code() : kInterrupted;
  return 0;
}

int main_program(int argc, char** argv) {
  CLI::App app{"Trains a transformer with its optimizer offloaded to the CPU."};
  app.name("zenflow-train");
  app.set_version_flag("--version", kVersion);
  app.footer(
      "Exit codes: 0 done, 1 failed while running, 2 bad usage or input, 3 does not fit, 5 no "
      "usable GPU, 130/143 (SIGINT/SIGTERM) and 129/138 (SIGHUP/SIGUSR1) stopped by a signal after "
      "the step, with a checkpoint and the weights that were asked for.");
  TrainCommand command;
  add_train_options(app, command);
  if (!parse_command_line(app, argc, argv)) return 0;
  interpret(app, command);
  const std::unique_ptr<runtime::Communicator> ranks = start_ranks(argc, argv, command);
  if (ranks == nullptr) {
    for (const char* flag : {"--zero-stage", "--rank-timeout", "--rank-binding"}) {
      if (app.count(flag) > 0)
        command.notes.push_back(fmt::format("{} has no effect: there is one rank", flag));
    }
    return run(command);
  }
  try {
    take_place(app, command, *ranks);
    std::unique_ptr<runtime::Communicator> gpus;
    command.train.communicator = ranks.get();
    if (const auto& cuda = command.train.cuda) {
      gpus = runtime::make_nccl_communicator(*ranks, cuda->libraries, cuda->ordinal);
      command.train.communicator = gpus.get();
    }
    return run(command);
  } catch (const std::exception& error) {  // before a rank has begun: the others wait for it
    complain(fmt::format("zenflow-train: rank {}: {}\n", ranks->rank(), error.what()));
    ranks->end_job(exit_code(error));
  }
}

}  // namespace

int train_main(int argc, char** argv) {
  // A terminal that is closed, and what batch systems send ahead of a job's end.
  catch_signals({SIGHUP, SIGUSR1});
  return run_program("zenflow-train", [&] { return main_program(argc, argv); });
}

}  // namespace zenflow::tools
