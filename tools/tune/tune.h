/// The parts of zenflow-tune: what was asked for, what is searched, what is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/deepspeed/lint.h"
#include "sim/tune/base_text.h"
#include "sim/tune/search.h"
#include "sim/tune/sensitivity.h"
#include "sim/tune/study.h"
#include "sim/tune/tuned_config.h"

namespace zenflow::tools {

struct TuneOptions {
  std::filesystem::path scenario;
  std::optional<std::filesystem::path> output;  ///< a folder; else nothing is written
  std::optional<std::filesystem::path> base;
  std::optional<std::string> schedule;
  std::vector<std::string> set;
  std::vector<std::string> vary;
  std::optional<std::filesystem::path> search_space;
  std::optional<std::string> profile;
  std::optional<std::string> deepspeed_version;
  std::optional<std::string> target;
  std::string objective = "step_time";
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
  bool overwrite = false;
};

/// What is to be searched, and what its files say.
struct LoadedRequest {
  sim::TuneRequest request;
  sim::ScenarioTree tree;
  std::vector<sim::Override> overrides;
  sim::Uncertainty uncertainty;
  std::optional<std::string> base_text;  ///< the DeepSpeed file that is changed; else a new one
  std::string base_name;
};
/// Throws Error(kInput) for anything that does not parse or fit together.
[[nodiscard]] LoadedRequest load_request(const TuneOptions& options);

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
  std::vector<sim::Finding> findings;  ///< warnings and notes of that file
  std::string command;                 ///< cmd_optimal.txt

  [[nodiscard]] const sim::Simulated& chosen() const { return result.simulated[*result.chosen]; }
};

/// Fills in configuration, findings and command of the chosen setting. Throws Error(kRuntime) if
/// what would be written is not what was chosen.
void emit(TuneAnswer& answer);

[[nodiscard]] std::string summary_json(const TuneAnswer& answer);
[[nodiscard]] std::string summary_text(const TuneAnswer& answer);
/// Why there is no candidate, by reason.
[[nodiscard]] std::string reasons_text(const sim::SearchCounts& counts);

}  // namespace zenflow::tools
