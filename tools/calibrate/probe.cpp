#include "runtime/probe/probe.h"

#include <chrono>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "runtime/machine/gather.h"
#include "runtime/probe/peer_experiments.h"
#include "runtime/probe/probed_machine.h"
#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "tools/calibrate/calibrate.h"
#include "tools/environment.h"
#include "tools/progress_line.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;
using runtime::Figure;
using runtime::MachineFacts;
using runtime::ProbedMachine;
using runtime::ProbeSettings;

struct ProbeOptions {
  std::string device = "cpu";
  fs::path output;
  std::string date;
  std::string nvme;
  bool quick = false;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;
};

/// What was asked for, in one form: the file's place says nothing about the figures.
std::string command_line(const ProbeOptions& options) {
  std::string command = "zenflow-calibrate probe --device " + options.device;
  if (options.quick) command += " --quick";
  if (!options.nvme.empty()) command += " --nvme " + options.nvme;
  return command;
}

std::vector<Figure> measure(const runtime::ExperimentGroups& groups, const ProbeOptions& options) {
  // Preparation and the least repetitions take time beyond these: a minute and eight in all.
  constexpr double kQuickSeconds = 30;
  constexpr double kFullSeconds = 280;
  runtime::RunSettings run;
  if (options.quick) {
    run = {.rounds = 2, .least_repetitions = 3, .seconds = kQuickSeconds};
  } else {
    run = {.rounds = 3, .least_repetitions = 4, .seconds = kFullSeconds};
  }
  ProgressLine line(!options.quiet);
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  };
  runtime::RunEvents events{.now = now, .stop = [] { return signal_exit_code() != 0; }};
  events.progress = [&line](std::size_t done, std::size_t all) {
    line.show(fmt::format("{} of {} measurements", done, all), static_cast<double>(done),
              static_cast<double>(all));
  };
  return runtime::run_experiments(groups, run, events);
}

int probe(const ProbeOptions& options) {
  check_output(options.output, options.overwrite);
  const std::string date = date_or_today(options.date);
  if (!options.nvme.empty() && !fs::is_directory(options.nvme)) {
    throw Error(ErrorKind::kInput, fmt::format("--nvme {}: no such folder", options.nvme));
  }
  const bool on_gpu = options.device == "cuda";
  if (on_gpu) runtime::require_gpu(runtime::ask_driver(), "--device cuda");
  const auto environment = environment_variables();
  MachineFacts facts = runtime::gather_host_facts({.environment = environment});
  // Its failure does not matter here: links are then described as far as sysfs does.
  if (on_gpu) runtime::ask_nvml(facts, runtime::library_folders(environment));
  const runtime::CpuTopology topology;
  const std::uint64_t available =
      runtime::required(facts.memory_available, "how much memory is available");
  std::unique_ptr<runtime::ProbeDevice> device;
  ProbedMachine machine;
  ProbeSettings settings;
  if (on_gpu) {
    device = runtime::make_cuda_probe_device(0, runtime::library_folders(environment));
    const runtime::CudaDeviceFacts gpu = runtime::cuda_device_facts(0);
    machine = runtime::probed_gpu(facts, topology, date, gpu, device->name());
    settings = runtime::gpu_probe_settings(options.quick, available, topology.last_level_cache(),
                                           gpu.free_memory);
  } else {
    device = runtime::make_host_probe_device();
    machine = runtime::probed_host(facts, topology, date);
    settings = runtime::probe_settings(options.quick, available, topology.last_level_cache());
  }
  machine.profile_name = options.output.stem().string();
  machine.command = command_line(options);
  machine.product_type = device->product_type();
  if (!options.nvme.empty()) {
    machine.nvme_bytes = fs::space(options.nvme).available;
    settings.nvme = options.nvme;
  }
  std::unique_ptr<runtime::PeerDevices> peers;
  runtime::ExperimentGroups groups = runtime::make_experiments(*device, topology, settings);
  if (on_gpu && runtime::ask_driver().devices > 1) {
    peers = runtime::make_cuda_peer_devices();
    groups.push_back(runtime::peer_experiments(*peers, settings.largest_copy));
  }
  std::vector<Figure> figures;
  try {
    figures = measure(groups, options);
  } catch (const Error&) {
    if (signal_exit_code() == 0) throw;
    complain("zenflow-calibrate: stopped; no profile is written\n");
    return signal_exit_code();
  }
  write_output(options.output, runtime::probe_profile(machine, figures, settings),
               options.overwrite);
  print(options.json ? runtime::figures_json(machine, figures, kVersion)
                     : runtime::figures_table(figures));
  return 0;
}

}  // namespace

void add_probe(CLI::App& app, Command& chosen) {
  const auto options = std::make_shared<ProbeOptions>();
  CLI::App* command =
      app.add_subcommand("probe", "measure this machine and write a hardware profile");
  command
      ->add_option("-o,--output", options->output,
                   "the profile to write (YAML); the stem of the name becomes the profile's name")
      ->required();
  command
      ->add_option("--device", options->device,
                   "what to measure as the device: this machine's CPU or its first GPU")
      ->check(CLI::IsMember({"cpu", "cuda"}))
      ->capture_default_str();
  command->add_flag("--quick", options->quick, "take about a minute, not eight");
  command->add_option(
      "--nvme", options->nvme,
      "also measure the drive that holds this folder; needs 256 MiB (--quick) or 1 GiB there");
  command->add_option("--date", options->date,
                      "date of the measurement, for the numbers' sources; default: today (UTC)");
  command->add_flag("--json", options->json,
                    "print all figures as one document on standard output");
  command->add_flag("-f,--force", options->overwrite, "overwrite an existing file");
  command->add_flag("-q,--quiet", options->quiet, "no progress");
  command->callback([options, &chosen] { chosen = [options] { return probe(*options); }; });
}

}  // namespace zenflow::tools
