#include <filesystem>
#include <memory>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/output_file.h"
#include "sim/calibrate/live_jobs.h"
#include "sim/calibrate/trace/recorded_fit.h"
#include "sim/calibrate/trace/trace_fit_json.h"
#include "sim/calibrate/trace/trace_fit_text.h"
#include "tools/calibrate/calibrate.h"
#include "tools/calibrate/foreign_fit.h"
#include "tools/command_line.h"
#include "tools/commands/explain_trace.h"
#include "tools/environment.h"
#include "tools/read_trace.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

namespace fs = std::filesystem;

int fit(const FitOptions& options) {
  require_fit_option(!options.scenario.empty(),
                     "--scenario: model, training settings and base profile");
  require_fit_option(
      options.settings.size() == 1 || options.settings.size() == options.traces.size(),
      "--setting once, or once for each trace: zero-offload, zenflow:K:S, ...");
  const std::string date = date_or_today(options.date);
  if (!options.output.empty()) check_output(options.output, options.overwrite);
  const sim::LiveJobs jobs(options.scenario, options.profile, options.set,
                           profile_directories(options.scenario));

  const sim::RecordedFit fitted =
      sim::fit_recordings(jobs, options.traces, options.settings,
                          [&](const fs::path& file, const sim::ImportOptions& how) {
                            return read_trace(file, how, !options.style.quiet);
                          });
  if (!options.output.empty()) {
    write_output(
        options.output,
        sim::recorded_profile_text(jobs.hardware(), fitted, options.output.stem().string(), date),
        options.overwrite);
  }
  std::vector<sim::FittedNumber> numbers = fitted.fit.numbers;
  if (fitted.jitter) numbers.push_back(*fitted.jitter);  // of scenarios, not of the profile
  print(options.style.json ? sim::fit_json(numbers, fitted.runs, kVersion)
                           : sim::trace_fit_text({fitted.fit.profile, numbers, fitted.runs, {}},
                                                 use_color(ColorMode::kAuto, stdout)));
  return 0;
}

/// A file that counts twice would seem to be known better than it is.
void refuse_repeats(const std::vector<std::string>& traces) {
  std::set<fs::path> seen;
  for (const std::string& trace : traces) {
    std::error_code missing;
    if (!seen.insert(fs::weakly_canonical(trace, missing)).second) {
      throw Error(ErrorKind::kInput, fmt::format("{}: given twice", trace));
    }
  }
}

int run(const FitOptions& options) {
  refuse_repeats(options.traces);
  if (options.analyze.traces.empty()) {
    require_fit_option(!options.traces.empty(), "TRACE..., or --analyze TRACE");
    return options.settings.empty() ? foreign_fit(options) : fit(options);
  }
  OutputStyle style = options.style;
  style.bold = use_color(ColorMode::kAuto, stdout);
  return explain_trace_command(style, options.analyze);
}

}  // namespace

void require_fit_option(bool given, const std::string& expected) {
  if (!given) throw Error(ErrorKind::kInput, "fit: expected " + expected);
}

void add_fit(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand(
      "fit", "fit a profile to recorded runs, or say what traces show without a model");
  const auto options = std::make_shared<FitOptions>();
  command->add_option(
      "TRACE", options->traces,
      "traces to fit to: of the PyTorch profiler, Nsight Systems (SQLite), record, zenflow-sim run "
      "--trace, DeepSpeed logs; with --setting, of zenflow-train --trace");
  command->add_option("--scenario", options->scenario,
                      "scenario of the runs: model, training settings, base profile");
  command
      ->add_option("--setting", options->settings,
                   "setting of zenflow-train's runs: gpu-only, zero-offload, zero-offload-dpu, "
                   "zenflow:K:S, zenflow:K:S:device (--accumulate-on device); once, or once for "
                   "each trace, in their order")
      ->delimiter(',');
  command->add_option("--profile", options->profile,
                      "base profile; default: the scenario's, else that of the traces' GPU");
  command->add_option(
      "--model", options->model,
      "the model, where there is no scenario: config.json, its folder, weights, or a Hub "
      "name: Qwen/Qwen3-8B");
  command
      ->add_option("--micro-batch-size", options->training.micro_batch_size_per_gpu,
                   "with --model: sequences in a micro-batch")
      ->check(a_count());
  command
      ->add_option("--sequence-length", options->training.sequence_length,
                   "with --model: tokens in a sequence")
      ->check(a_count());
  command->add_option("--dtype", options->dtype, "with --model: type of weights and gradients")
      ->check(CLI::IsMember({"bf16", "fp16", "fp32"}))
      ->capture_default_str();
  command->add_option("--gpus", options->gpus, "with --model: GPUs that share the model")
      ->check(a_count())
      ->capture_default_str();
  command
      ->add_option("--accumulation-steps", options->accumulation,
                   "with --model: micro steps in a step")
      ->check(a_count())
      ->capture_default_str();
  command->add_flag("--activation-checkpointing", options->training.activation_checkpointing,
                    "with --model: backward runs the forward of every block again");
  command->add_option("--set", options->set, "override a scenario key: PATH=VALUE (repeatable)");
  command->add_option("-o,--output", options->output,
                      "write the base profile with the fitted numbers here");
  command->add_option("--date", options->date, "date for the numbers' sources; default: today");
  command->add_flag("-f,--force", options->overwrite, "overwrite the profile");
  command
      ->add_option(
          "--analyze", options->analyze.traces,
          "fit nothing: analyse these traces without a model, as zenflow-sim explain --trace does")
      ->type_name("TRACE...");
  command->add_option("--steps", options->analyze.steps,
                      "regular expression for the ranges that are steps");
  command->add_option("--rules", options->analyze.rules,
                      "file that names phases and lanes (YAML, docs/traces.md)");
  command->add_flag("--json", options->style.json, "print one JSON document on standard output");
  command->add_flag("-q,--quiet", options->style.quiet, "no notes and no progress");
  need(*command, command->get_option("--model"),
       {"--micro-batch-size", "--sequence-length", "--dtype", "--gpus", "--accumulation-steps",
        "--activation-checkpointing"});
  exclude(*command, command->get_option("--setting"), {"--model", "--steps", "--rules"});
  exclude(
      *command, command->get_option("--analyze"),
      {"TRACE", "--scenario", "--setting", "--profile", "--model", "--set", "--output", "--date"});
  command->callback([options, &chosen] { chosen = [options] { return run(*options); }; });
}

}  // namespace zenflow::tools
