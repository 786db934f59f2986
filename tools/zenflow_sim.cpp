/// zenflow-sim: the command line. Options here, work in tools/commands.
#include <algorithm>
#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/config/reader.h"
#include "tools/command_line.h"
#include "tools/commands/commands.h"
#include "tools/commands/explain_trace.h"
#include "tools/commands/job_options.h"
#include "tools/programs.h"
#include "tools/report_page.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

struct Options {
  std::filesystem::path scenario;  ///< of commands that take one
  CommonOptions common;
  RunOptions run;
  CheckOptions check;
  SweepOptions sweep;
  FitOptions fit;
  ExploreOptions explore;
  LintCommandOptions lint;
  ExplainTraceOptions explain_trace;
  std::int64_t steps = 16;
  std::filesystem::path fixed;  ///< of --fix FILE
  std::vector<std::string> topics = {"schedules", "profiles", "models"};
};

void add_output_options(CLI::App& command, CommonOptions& common) {
  command.add_flag("--json", common.json, "one JSON document on standard output");
  command
      .add_option("--color", common.color,
                  "colour of tables: auto, always or never (NO_COLOR counts in auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command.add_flag("-q,--quiet", common.quiet, "no warnings and no progress");
  command.add_flag("-v,--verbose", common.verbose, "say more on standard error");
  command.add_option("--config", common.config,
                     "file with defaults (YAML); default: $XDG_CONFIG_HOME/zenflow/config.yaml");
}

void add_scenario_options(CLI::App& command, CommonOptions& common) {
  command
      .add_option("--schedule", common.schedules,
                  "schedule to simulate, in place of the scenario's (repeatable)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--set", common.set,
                  "override a key of the scenario or its DeepSpeed file: PATH=VALUE, e.g. "
                  "training.sequence_length=1024 or topk_ratio=0.05 (repeatable)")
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--profile", common.profile, "hardware profile in place of the scenario's");
  command.add_option("--deepspeed-version", common.deepspeed_version,
                     "DeepSpeed release that the deepspeed-* schedules follow; default: the "
                     "scenario's, else the newest known");
  command.add_option("--target", common.target,
                     "what launches the training: deepspeed, hf or accelerate; default: the "
                     "scenario's, else deepspeed");
  add_output_options(command, common);
}

/// A scenario, or what stands in its place.
void take_scenario(const char* command, Options& options) {
  CommonOptions& common = options.common;
  if (options.scenario.empty() && common.job.empty()) {
    throw Error(ErrorKind::kInput,
                fmt::format("{}: expected a scenario, or a job in its place: --model M --gpu NAME "
                            "[--ds FILE]",
                            command));
  }
  if (!options.scenario.empty() && !common.job.empty()) {
    throw Error(
        ErrorKind::kInput,
        fmt::format("{}: a scenario and flags that describe a job in its place; to change a "
                    "scenario: --set",
                    command));
  }
  common.scenarios = {options.scenario};
}

/// A command on one scenario. `work` runs after parsing.
CLI::App* add_command(CLI::App& app, Options& options, const char* name, const char* what,
                      std::function<void()> work) {
  CLI::App* command = app.add_subcommand(name, what);
  command->add_option("scenario", options.scenario, "scenario file (YAML)");
  add_scenario_options(*command, options.common);
  add_job_options(*command, options.common.job);
  command->callback([&options, name, work = std::move(work)] {
    take_scenario(name, options);
    work();
  });
  return command;
}

void add_run(CLI::App& app, Options& options, int& code) {
  CLI::App* command =
      add_command(app, options, "run",
                  "simulate the scenario's schedules: step time, stall by cause, traffic, memory",
                  [&] { code = run_command(options.common, options.run); });
  command->add_option(
      "--trace", options.run.trace,
      "write the simulated run as a Chrome trace (Perfetto, HTA); gzip if the name ends in .gz");
  command->add_option("--dot", options.run.dot,
                      "write the tasks of two update windows and their dependencies as Graphviz");
  add_report_option(*command, options.common.report);
  command->add_flag("-f,--force", options.common.overwrite, "overwrite existing files");
}

void add_explore(CLI::App& app, Options& options, int& code) {
  CLI::App* command = add_command(
      app, options, "explore",
      "serve the page of --report on this machine, with sliders for topk_ratio, update_interval, "
      "batch, links and cores, until Ctrl-C",
      [&] { code = explore_command(options.common, options.explore); });
  // Of what is printed, which is the page's address.
  for (const char* flag : {"--json", "--color"}) command->remove_option(command->get_option(flag));
  command->add_option("--port", options.explore.port,
                      "port of 127.0.0.1 to listen on; default: one that is free");
}

/// The short answer on a job.
void add_check(CLI::App& app, Options& options, int& code) {
  CLI::App* command = app.add_subcommand(
      "check",
      "whether a job fits, how long its step is, where the GPU waits, and what would help: from "
      "its own files, without a scenario; exit 3 if it does not fit");
  add_scenario_options(*command, options.common);
  add_job_options(*command, options.common.job);
  command->add_option("--save", options.check.save, "write the scenario that was simulated");
  add_report_option(*command, options.common.report);
  command->add_flag("-f,--force", options.common.overwrite, "overwrite existing files");
  command->callback([&options, &code] { code = check_command(options.common, options.check); });
}

void add_sweep(CLI::App& app, Options& options, int& code) {
  CLI::App* command =
      add_command(app, options, "sweep", "simulate every combination of varied settings",
                  [&] { code = sweep_command(options.common, options.sweep); });
  command
      ->add_option("--vary", options.sweep.vary,
                   "values of one key: KEY=A,B,C or KEY=LOW:HIGH:STEP (repeatable)")
      ->required()
      ->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--format", options.sweep.format, "output as table (default), csv or json")
      ->check(CLI::IsMember({"table", "csv", "json"}));
}

/// Explains a scenario, or a recorded run.
void add_explain(CLI::App& app, Options& options, int& code) {
  CLI::App* command = app.add_subcommand("explain",
                                         "what a step's time is spent on and what would shorten "
                                         "it; of a scenario, or of a recorded run");
  CLI::Option* scenario = command->add_option("scenario", options.scenario, "scenario file (YAML)");
  ExplainTraceOptions& traced = options.explain_trace;
  CLI::Option* trace =
      command->add_option("--trace", traced.traces,
                          "explain a recorded run in place of a scenario: PyTorch profiler JSON "
                          "(plain, gzip), Nsight Systems SQLite, DeepSpeed log (repeatable)");
  trace->expected(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->excludes(scenario);
  command
      ->add_option("--steps", traced.steps,
                   "with --trace: regular expression for the ranges that are steps")
      ->needs(trace);
  command
      ->add_option("--rules", traced.rules,
                   "with --trace: file that names phases and lanes (YAML, docs/traces.md)")
      ->needs(trace);
  add_scenario_options(*command, options.common);
  add_job_options(*command, options.common.job);
  for (CLI::Option* option : command->get_options()) {
    const bool is_of_job = option->get_group() == kJobGroup;
    if (is_of_job) option->excludes(trace);
  }
  exclude(*command, trace, {"--schedule", "--set", "--profile", "--deepspeed-version", "--target"});
  add_report_option(*command, options.common.report);
  command->add_flag("-f,--force", options.common.overwrite, "overwrite an existing page");
  command->callback([&options, &traced, &code] {
    if (!traced.traces.empty()) {
      traced.report = options.common.report;
      traced.overwrite = options.common.overwrite;
      code = explain_trace_command(
          {options.common.json, options.common.quiet, colored(options.common)}, traced);
      return;
    }
    if (options.scenario.empty() && options.common.job.empty()) {
      throw Error(ErrorKind::kInput,
                  "explain: expected a scenario, a job (--model M --gpu NAME), or --trace FILE");
    }
    take_scenario("explain", options);
    code = explain_command(options.common);
  });
}

void add_others(CLI::App& app, Options& options, int& code) {
  CLI::App* compare = app.add_subcommand(
      "compare", "simulate schedules or scenarios side by side, with speed-ups over zero-offload");
  compare->add_option("scenario", options.common.scenarios, "scenario files (YAML)");
  add_scenario_options(*compare, options.common);
  add_job_options(*compare, options.common.job);
  add_report_option(*compare, options.common.report);
  compare->add_flag("-f,--force", options.common.overwrite, "overwrite an existing page");
  compare->callback([&] {
    if (options.common.scenarios.empty()) {
      take_scenario("compare", options);
    } else if (!options.common.job.empty()) {
      options.scenario = options.common.scenarios.front();
      take_scenario("compare", options);
    }
    code = compare_command(options.common);
  });
  add_explain(app, options, code);
  CLI::App* fit =
      add_command(app, options, "fit",
                  "whether the job fits in memory, buffer by buffer; exit 3 if it does not",
                  [&] { code = fit_command(options.common, options.fit); });
  fit->add_flag("--over-time", options.fit.over_time,
                "also the peak of memory in each part of a window's steps");
  CLI::App* steps = add_command(
      app, options, "steps",
      "list micro steps: which of them select columns, which update, from which gradient buffer",
      [&] { code = steps_command(options.common, options.steps); });
  steps
      ->add_option("--count", options.steps,
                   "how many micro steps to list, from the start of the run; default: 16")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000}));
  CLI::App* list = app.add_subcommand(
      "list",
      "list the schedules, profiles, GPUs, models, lint rules and DeepSpeed keys that are known");
  list->add_option(
          "topic", options.topics,
          "any of schedules, profiles, models, gpus, rules, keys, hub-models, default: the first "
          "three; "
          "or a profile or scenario, FILE.yaml, for the numbers of its node and where they "
          "are from; or a config.json, weights or their directory, for the model's tensors")
      ->delimiter(',');
  list->add_option("--deepspeed-version", options.common.deepspeed_version,
                   "keys: those of this DeepSpeed release; default: the newest known");
  add_output_options(*list, options.common);
  list->callback([&] { code = list_command(options.common, options.topics); });
}

void add_lint(CLI::App& app, Options& options, int& code) {
  CLI::App* command = app.add_subcommand(
      "lint",
      "check DeepSpeed configurations: what DeepSpeed will reject, ignore or do unexpectedly");
  LintCommandOptions& lint = options.lint;
  command
      ->add_option(
          "config", lint.files,
          "DeepSpeed configurations, or files that name them: accelerate's, "
          "TrainingArguments, LLaMA-Factory's, axolotl's, ms-swift's; - reads standard input")
      ->required();
  command->add_option("--deepspeed-version", lint.deepspeed_version,
                      "DeepSpeed release to check against; default: the newest known");
  command->add_option(
      "--target", lint.target,
      "what launches the training: deepspeed, hf or accelerate; default: what the file is of, for "
      "DeepSpeed's own deepspeed");
  command->add_option("--model", lint.model,
                      "the model to train: a config.json, its folder or weights");
  command->add_option("--torch-version", lint.torch_version,
                      "PyTorch release of the run, e.g. 2.6.0");
  const auto add_count = [command](const char* name, auto& value, const char* what) {
    command->add_option(name, value, what)
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 30));
  };
  add_count("--world-size", lint.world_size, "data-parallel ranks, to check the batch equation");
  add_count("--cores", lint.cores_per_node, "physical cores of a node, to check what ranks share");
  add_count("--gpus", lint.gpus_per_node, "GPUs of a node that are used");
  add_count("--omp-num-threads", lint.omp_num_threads, "OMP_NUM_THREADS of the launch");
  command->add_flag("--bind-cores-to-rank", lint.bind_cores_to_rank,
                    "the launch binds cores to ranks");
  command->add_flag("--notes", lint.notes, "also report what is true of every such configuration");
  CLI::Option* fix = command->add_option("--fix", options.fixed,
                                         "write the corrected file to FILE (or to -o FILE)");
  fix->expected(0, 1);
  command->add_option("-o,--output", lint.output, "where --fix writes")->needs(fix);
  command->add_flag("-f,--force", options.common.overwrite, "overwrite an existing file");
  add_output_options(*command, options.common);
  command->callback([&options, &lint, &code, fix] {
    lint.fix = fix->count() > 0;
    if (!options.fixed.empty()) {
      if (lint.output)
        throw Error(ErrorKind::kInput, "lint: --fix FILE and -o FILE name two files");
      lint.output = options.fixed;
    }
    code = lint_command(options.common, lint);
  });
}

/// CLI11 says "A subcommand is required" to a misspelt one.
void check_command(const CLI::App& app, int argc, char** argv) {
  if (argc < 2 || argv[1][0] == '-') return;
  std::vector<std::string> known;
  for (const CLI::App* command : app.get_subcommands({})) known.push_back(command->get_name());
  if (std::find(known.begin(), known.end(), argv[1]) != known.end()) return;
  throw Error(ErrorKind::kInput, "unknown command \"" + std::string(argv[1]) + "\"" +
                                     suggestion(argv[1], known) + "; see zenflow-sim --help");
}

int main_program(int argc, char** argv) {
  CLI::App app{
      "Predicts step time, GPU stall and its cause, PCIe traffic and memory of offloaded "
      "training."};
  app.name("zenflow-sim");
  app.set_version_flag("--version", kVersion);
  app.require_subcommand(1);
  app.footer("Exit codes: 0 done, 1 failed while running, 2 bad usage or input, 3 does not fit.");
  Options options;
  int code = 0;
  add_check(app, options, code);
  add_run(app, options, code);
  add_explore(app, options, code);
  add_sweep(app, options, code);
  add_others(app, options, code);
  add_lint(app, options, code);
  check_command(app, argc, argv);
  if (!parse_command_line(app, argc, argv)) return 0;
  return code;
}

}  // namespace

int run_sim(int argc, char** argv) {
  return run_program("zenflow-sim", [&] { return main_program(argc, argv); });
}

int sim_main(int argc, char** argv) {
  catch_signals();
  return run_sim(argc, argv);
}

}  // namespace zenflow::tools
