/// The subcommands of zenflow-sim. Each returns the exit code; failures are thrown.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/job_files/job_inputs.h"
#include "sim/simulate/simulation.h"
#include "tools/environment.h"

namespace zenflow::tools {

/// What every command that reads scenarios accepts.
struct CommonOptions {
  std::vector<std::filesystem::path> scenarios;  ///< an empty path: `job`
  sim::JobInputs job;                            ///< in place of a scenario
  std::vector<std::string> schedules;            ///< empty: those of the scenario
  std::vector<std::string> set;                  ///< "path=value"
  std::optional<std::string> deepspeed_version;
  std::optional<std::string> target;
  std::optional<std::string> profile;
  std::optional<std::filesystem::path> config;
  std::optional<std::filesystem::path> report;  ///< HTML page to write
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  bool overwrite = false;
  std::optional<std::string> color;
};

struct RunOptions {
  std::optional<std::filesystem::path> trace;
  std::optional<std::filesystem::path> dot;
};

struct FitOptions {
  bool over_time = false;
};

struct SweepOptions {
  std::vector<std::string> vary;  ///< "key=a,b,c" or "key=low:high:step"
  std::string format;             ///< table, csv, json; empty: a table
};

struct LintCommandOptions {
  std::vector<std::filesystem::path> files;      ///< "-" is standard input
  std::optional<std::string> deepspeed_version;  ///< else the newest known
  std::optional<std::string> target;             ///< else what the file says, or deepspeed
  std::optional<std::string> torch_version;
  std::optional<std::filesystem::path> model;  ///< of which only its tensors matter
  std::optional<std::int64_t> world_size;
  std::optional<std::int64_t> cores_per_node;
  std::optional<std::int64_t> gpus_per_node;
  std::optional<std::int64_t> omp_num_threads;
  bool bind_cores_to_rank = false;
  bool notes = false;
  bool fix = false;
  std::optional<std::filesystem::path> output;  ///< of fix
};

struct CheckOptions {
  std::optional<std::filesystem::path> save;
};

struct ExploreOptions {
  std::uint16_t port = 0;  ///< 0: one that is free
};

int check_command(const CommonOptions& common, const CheckOptions& options);
int run_command(const CommonOptions& common, const RunOptions& options);
int compare_command(const CommonOptions& common);
int sweep_command(const CommonOptions& common, const SweepOptions& options);
int explain_command(const CommonOptions& common);
/// Serves until a signal ends it.
int explore_command(const CommonOptions& common, const ExploreOptions& options);
int fit_command(const CommonOptions& common, const FitOptions& options);
int lint_command(const CommonOptions& common, const LintCommandOptions& options);
int steps_command(const CommonOptions& common, std::int64_t count);
int list_command(const CommonOptions& common, const std::vector<std::string>& topics);

/// A scenario loaded and read, with the schedules to simulate.
struct LoadedJob {
  sim::Job job;
  std::vector<const sim::Schedule*> schedules;
};

[[nodiscard]] sim::LoadOptions load_options(const CommonOptions& common,
                                            const std::filesystem::path& scenario);
/// The scenario, or the job that is given in its place.
[[nodiscard]] sim::ScenarioTree load_tree(const CommonOptions& common,
                                          const std::filesystem::path& scenario,
                                          const sim::LoadOptions& options);
/// Reads the job and looks its schedules up; prints the DeepSpeed warnings unless quiet, and if no
/// launcher could run the configuration, which errors `zenflow-sim lint` finds in it.
[[nodiscard]] LoadedJob load_job(const CommonOptions& common,
                                 const std::filesystem::path& scenario);
[[nodiscard]] LoadedJob finish_job(const CommonOptions& common, sim::Scenario scenario);
[[nodiscard]] bool colored(const CommonOptions& common);
/// "llama2_7b (6.74 B parameters) on 4 x A100 ..." for headings.
[[nodiscard]] std::string job_heading(const sim::Job& job);
/// "SCHEDULE: 8 micro steps of 1.2 s are an optimizer step of 9.6 s", a line.
[[nodiscard]] std::string optimizer_step_text(const sim::SimulationResult& one);

}  // namespace zenflow::tools
