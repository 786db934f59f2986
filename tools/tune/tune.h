/// The parts of zenflow-tune: what was asked for, what is searched, what is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/fitted_profile.h"
#include "sim/deepspeed/lint.h"
#include "sim/trace/recorded_run.h"
#include "sim/tune/base_text.h"
#include "sim/tune/search.h"
#include "sim/tune/sensitivity.h"
#include "sim/tune/study.h"
#include "sim/tune/tuned_config.h"

namespace zenflow::tools {

struct TuneOptions {
  std::filesystem::path scenario;                    ///< empty: the job is that of `traces`
  std::vector<std::filesystem::path> traces;         ///< recordings of one job
  std::optional<std::filesystem::path> model;        ///< with traces: config.json
  std::optional<std::int64_t> sequence_length;       ///< with traces: tokens
  std::optional<std::int64_t> gpus;                  ///< with traces: of the whole job
  std::vector<std::string> settings;                 ///< of recordings that do not say theirs
  std::optional<std::string> host_memory;            ///< with traces: of a node
  std::optional<std::string> gpu_memory;             ///< with traces: of one GPU
  std::string steps;                                 ///< with traces: ranges that are steps
  std::optional<std::filesystem::path> trace_rules;  ///< with traces: phases by name
  std::optional<std::filesystem::path> output;       ///< a folder; else nothing is written
  std::optional<std::filesystem::path> base;
  std::optional<std::string> schedule;
  std::vector<std::string> set;
  std::vector<std::string> vary;
  std::optional<std::filesystem::path> search_space;
  std::optional<std::string> profile;
  std::optional<std::string> deepspeed_version;
  std::optional<std::string> target;
  std::string objective = "step_time";
  std::string offload_when = "needed";
  std::optional<double> price;
  std::optional<std::int64_t> global_batch;
  std::optional<std::string> max_gpu_memory;
  std::optional<std::string> max_host_memory;
  std::optional<std::string> max_shm;
  std::optional<std::int64_t> max_staleness;
  std::optional<double> max_deferred_share;
  std::optional<std::filesystem::path> importance;
  std::optional<std::string> measured_step;
  std::optional<std::filesystem::path> standard_errors;
  double relative_error = 0.1;
  double slack = 0.02;
  double front_within = 0.5;
  std::size_t top = 5;
  unsigned threads = 0;  ///< 0: as many as the machine has
  std::string train_command = "train.py";
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  std::optional<std::string> color;
  bool overwrite = false;
};

/// A recorded job: what the traces say of it, and what they do not.
struct TracedRequest {
  std::vector<std::string> facts;  ///< "4 GPUs: the group of its collectives"
  std::vector<std::string> untold;
  std::string base_profile;  ///< "dgx_h100"
  std::vector<sim::FittedNumber> numbers;
  /// That the measured step is the mean of, or the median; 0: --measured-step says it, or nothing.
  std::size_t steps = 0;
  /// Windows of so many steps, whose median is the step time; 0: it is the mean.
  std::int64_t window = 0;
  std::string profile;   ///< profile.yaml
  std::string scenario;  ///< scenario.yaml, for the folder of the results
  /// How zenflow-train ran, of its recordings.
  std::optional<sim::RecordedRun> run;
};

/// What is to be searched, and what its files say.
struct LoadedRequest {
  sim::TuneRequest request;
  sim::ScenarioTree tree;
  std::vector<sim::Override> overrides;
  sim::Uncertainty uncertainty;
  std::optional<std::string> base_text;  ///< the DeepSpeed file that is changed; else a new one
  std::string base_name;
  std::optional<TracedRequest> traced;
  std::vector<std::string> warnings;  ///< of what the scenario says in vain
};
/// Throws Error(kInput) for anything that does not parse or fit together.
[[nodiscard]] LoadedRequest load_request(const TuneOptions& options);

/// The request of --trace. Throws Error(kInput) also where the traces do not suffice, with what
/// they lack.
[[nodiscard]] LoadedRequest load_traced_request(const TuneOptions& options);

/// --set, --deepspeed-version and --target, checked.
[[nodiscard]] std::vector<sim::Override> overrides_of(const TuneOptions& options);
/// Everything that follows from `loaded.tree` and `loaded.overrides`. `family`: unless --schedule.
void complete_request(const TuneOptions& options, std::optional<sim::Family> family,
                      LoadedRequest& loaded);
/// A flag's value as documents have it ("40 GiB"), in bytes.
[[nodiscard]] std::optional<double> bytes_of(const char* flag,
                                             const std::optional<std::string>& text);
/// A number that a DeepSpeed file states; empty: absent, "auto" or in quotes.
[[nodiscard]] std::optional<std::int64_t> stated_number(const Node& root, std::string_view key);

/// The answer, ready to be written.
struct TuneAnswer {
  const TuneOptions& options;
  const LoadedRequest& loaded;
  const sim::Candidates& candidates;
  sim::SearchResult result;
  std::vector<sim::KnobEffect> knobs;
  sim::NumberEffects numbers;
  sim::TunedConfig config;             ///< of the chosen setting
  sim::EditedText text;                ///< ds_config_optimal.json
  std::vector<sim::Edit> changes;      ///< that make it of the file as it was, --set included
  std::vector<sim::Finding> findings;  ///< warnings and notes of that file
  std::string command;                 ///< cmd_optimal.txt
  bool bold = false;                   ///< headers of tables, for a terminal

  [[nodiscard]] const sim::Simulated& chosen() const { return result.simulated[*result.chosen]; }
};

/// Fills in configuration, findings and command of the chosen setting. Throws Error(kRuntime) if
/// what would be written is not what was chosen.
void emit(TuneAnswer& answer);

[[nodiscard]] std::string summary_json(const TuneAnswer& answer);
[[nodiscard]] std::string summary_text(const TuneAnswer& answer);
/// The part of the summary that says what became of the points of the space.
[[nodiscard]] std::string study_text(const TuneAnswer& answer);

/// The chosen step time if the model misses as much of it as of the measured own; empty: nothing
/// was measured, or the own setting is not simulated. Picoseconds.
[[nodiscard]] std::optional<double> scaled_step(const TuneAnswer& answer);
/// What the chosen setting gains, or costs, and from where.
[[nodiscard]] std::string gain_text(const TuneAnswer& answer);
/// What limits it, what it is chosen over, and how much of its limits it takes.
[[nodiscard]] std::string limits_text(const TuneAnswer& answer);
/// describe() of each, with gpus and accumulation where the search goes through several; where that
/// says the same of some, also the knobs in which these differ.
[[nodiscard]] std::vector<std::string> setting_names(const TuneAnswer& answer,
                                                     const std::vector<sim::Setting>& settings);
/// In the currency of --price. Precondition: the objective is the cost.
[[nodiscard]] double cost_per_million_tokens(const TuneAnswer& answer, const sim::Setting& setting,
                                             const sim::Evaluation& one);
/// How many of the settings simulated are infeasible; SearchCounts has those that they stand for as
/// well.
[[nodiscard]] std::uint64_t simulated_infeasible(const sim::SearchResult& result);

[[nodiscard]] std::string counted(std::uint64_t count, std::string_view noun);  ///< "1 setting"
[[nodiscard]] std::string signed_percent(double share);  ///< "+1.5 %", "0.0 %"
/// "1.11 times as fast", or of less than 1 "1.11 times as long".
[[nodiscard]] std::string times_text(double times);

/// Empty where the job is not that of traces.
[[nodiscard]] std::string traced_text(const TuneAnswer& answer);
/// Why there is no candidate, by reason.
[[nodiscard]] std::string reasons_text(const sim::SearchCounts& counts);

}  // namespace zenflow::tools
