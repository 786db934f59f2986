/// zenflow-sim: the command line. Options here, work in tools/commands.
#include <CLI/CLI.hpp>

#include "sim/base/error.h"
#include "tools/commands/commands.h"
#include "tools/version.h"

namespace zenflow::tools {
namespace {

struct Options {
  CommonOptions common;
  RunOptions run;
  SweepOptions sweep;
  std::vector<std::string> topics = {"schedules", "profiles", "models"};
};

void add_output_options(CLI::App& command, CommonOptions& common) {
  command.add_flag("--json", common.json, "one JSON document on standard output");
  command.add_option("--color", common.color, "auto, always or never (NO_COLOR counts in auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  command.add_flag("-q,--quiet", common.quiet, "no warnings and no progress");
  command.add_flag("-v,--verbose", common.verbose, "say more on standard error");
  command.add_option("--config", common.config,
                     "defaults (YAML); else $XDG_CONFIG_HOME/zenflow/config.yaml");
}

void add_scenario_options(CLI::App& command, CommonOptions& common, bool several) {
  auto* scenario =
      command.add_option("scenario", common.scenarios, "scenario file (YAML)")->required();
  if (!several) scenario->expected(1);
  command
      .add_option("--schedule", common.schedules,
                  "a schedule instead of the scenario's; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      .add_option("--set", common.set,
                  "override PATH=VALUE, e.g. training.sequence_length=1024 or topk_ratio=0.05; "
                  "repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--profile", common.profile, "hardware profile instead of the scenario's");
  add_output_options(command, common);
}

void add_run(CLI::App& app, Options& options, int& code) {
  CLI::App* command = app.add_subcommand("run", "simulate the scenario's schedules");
  add_scenario_options(*command, options.common, false);
  command->add_option("--trace", options.run.trace,
                      "write a Chrome trace (Perfetto, HTA); gzip if the name ends in .gz");
  command->add_option("--dot", options.run.dot, "write two update windows as Graphviz");
  command->add_flag("-f,--force", options.common.overwrite, "overwrite existing files");
  command->callback([&] { code = run_command(options.common, options.run); });
}

void add_sweep(CLI::App& app, Options& options, int& code) {
  CLI::App* command = app.add_subcommand("sweep", "simulate every combination of varied settings");
  add_scenario_options(*command, options.common, false);
  command->add_option("--vary", options.sweep.vary, "KEY=A,B,C or KEY=LOW:HIGH:STEP; repeatable")
      ->required()
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_option("--format", options.sweep.format, "table, csv or json")
      ->check(CLI::IsMember({"table", "csv", "json"}));
  command->callback([&] { code = sweep_command(options.common, options.sweep); });
}

void add_others(CLI::App& app, Options& options, int& code) {
  CLI::App* compare =
      app.add_subcommand("compare", "schedules or scenarios side by side, against zero-offload");
  add_scenario_options(*compare, options.common, true);
  compare->callback([&] { code = compare_command(options.common); });
  CLI::App* explain = app.add_subcommand("explain", "why a step takes as long as it does");
  add_scenario_options(*explain, options.common, false);
  explain->callback([&] { code = explain_command(options.common); });
  CLI::App* fit =
      app.add_subcommand("fit", "memory by device and category; exit 3 if it does not fit");
  add_scenario_options(*fit, options.common, false);
  fit->callback([&] { code = fit_command(options.common); });
  CLI::App* list = app.add_subcommand("list", "what is known: schedules, profiles, models");
  list->add_option("topic", options.topics, "schedules, profiles, models")->delimiter(',');
  add_output_options(*list, options.common);
  list->callback([&] { code = list_command(options.common, options.topics); });
}

/// CLI11 knows options by one spelling: "--update_interval" is "--update-interval" to it.
std::vector<std::string> with_dashes(int argc, char** argv) {
  std::vector<std::string> arguments;
  for (int i = argc - 1; i > 0; --i) {
    std::string argument = argv[i];
    if (argument.starts_with("--")) {
      const std::size_t end = std::min(argument.find('='), argument.size());
      std::replace(argument.begin() + 2, argument.begin() + static_cast<std::ptrdiff_t>(end), '_',
                   '-');
    }
    arguments.push_back(std::move(argument));
  }
  return arguments;  // reversed, as CLI11 takes them
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
  add_run(app, options, code);
  add_sweep(app, options, code);
  add_others(app, options, code);
  try {
    app.parse(with_dashes(argc, argv));
  } catch (const CLI::ParseError& error) {
    const bool asked_for = error.get_exit_code() == 0;  // --help, --version
    app.exit(error);
    return asked_for ? 0 : static_cast<int>(ErrorKind::kInput);
  }
  return code;
}

}  // namespace
}  // namespace zenflow::tools

int main(int argc, char** argv) {
  zenflow::tools::catch_signals();
  return zenflow::tools::run_program("zenflow-sim",
                                     [&] { return zenflow::tools::main_program(argc, argv); });
}
