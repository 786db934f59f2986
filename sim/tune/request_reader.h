/// From texts, as flags and files have them, to what is asked of the tuner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/trace/recorded_run.h"
#include "sim/tune/sensitivity.h"
#include "sim/tune/tune_request.h"

namespace zenflow::sim {

/// What is asked for, each named as its flag is.
struct TuneFlags {
  std::vector<std::filesystem::path> profile_directories;  ///< where named profiles are
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
};

/// What is to be searched, and what its files say.
struct LoadedRequest {
  TuneRequest request;
  ScenarioTree tree;
  std::vector<Override> overrides;
  Uncertainty uncertainty;
  std::optional<std::string> base_text;  ///< the DeepSpeed file that is changed; else a new one
  std::string base_name;
  std::optional<RecordedRun> run;     ///< how zenflow-train ran, if its recordings are the job
  std::vector<std::string> warnings;  ///< of what the scenario says in vain
};
/// Reads a scenario: a file, or what stands in its place.
using LoadTree = std::function<ScenarioTree(const LoadOptions&)>;
/// Throws Error(kInput) for anything that does not parse or fit together.
[[nodiscard]] LoadedRequest load_request(const LoadTree& scenario, const TuneFlags& flags);
[[nodiscard]] LoadedRequest load_request(const std::filesystem::path& scenario,
                                         const TuneFlags& flags);

/// --set, --deepspeed-version and --target, checked.
[[nodiscard]] std::vector<Override> overrides_of(const TuneFlags& flags);
/// Everything that follows from `loaded.tree` and `loaded.overrides`. `family`: unless --schedule.
void complete_request(const TuneFlags& flags, std::optional<Family> family, LoadedRequest& loaded);
/// A flag's value as documents have it ("40 GiB"), in bytes.
[[nodiscard]] std::optional<double> bytes_of(const char* flag,
                                             const std::optional<std::string>& text);
/// Whether a DeepSpeed file has this scalar there.
[[nodiscard]] bool says_scalar(const Node& document, const std::string& path,
                               std::string_view what);
/// A number that a DeepSpeed file states; empty: absent, "auto" or in quotes.
[[nodiscard]] std::optional<std::int64_t> stated_number(const Node& root, std::string_view key);

}  // namespace zenflow::sim
