/// A scenario: which model on which machine, trained how, under which schedules.
///
/// `load_scenario` reads the file and every file it names (model, hardware profile,
/// DeepSpeed configuration, `base` scenario) into one tree, applies overrides to that
/// tree, and then reads it with types. Overrides therefore reach into every file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/config/document.h"
#include "sim/config/gpu_catalogue.h"
#include "sim/config/hardware_profile.h"
#include "sim/config/hub/model_files.h"
#include "sim/model/model_spec.h"
#include "sim/offload/training_setup.h"

namespace zenflow::sim {

struct RunSettings {
  std::int64_t warmup_steps = 16;  ///< steps before averages begin
  std::int64_t steps = 64;         ///< steps averaged, rounded down to whole update windows
};

/// A word of the scenario that is judged later, by who knows it.
struct WrittenText {
  std::string text;
  Location at;
};

struct Scenario {
  std::string name;
  ModelSpec model;
  HardwareProfile hardware;
  /// What a user should know of how files were read, besides errors.
  std::vector<std::string> notes;
  std::int64_t gpus = 1;  ///< of a node
  std::int64_t nodes = 1;
  TrainingSettings training;
  Node deepspeed;  ///< the DeepSpeed document, overrides applied
  /// training.gradient_accumulation_steps: what the launcher is told, for a DeepSpeed file that
  /// says "auto" or nothing.
  std::optional<std::int64_t> gradient_accumulation_steps;
  bool bind_cores_to_rank = false;
  std::optional<std::int64_t> omp_num_threads;  ///< OMP_NUM_THREADS; empty: the launcher's default
  /// launch.ds_pin_memory_backend, of DeepSpeed's environment: page-locked blocks have their size.
  bool native_pinning = false;
  /// launch.pinned_max_round_threshold_mb, of PYTORCH_ALLOC_CONF: larger page-locked blocks have
  /// their size, and no power of two. Empty: none has.
  std::optional<Bytes> pinned_round_threshold;
  /// The zenflow_train block, for which DeepSpeed's file has no keys: the live-* schedules read it.
  /// Threads that are 0 are what pt_reserved_cores_perc leaves.
  OffloadSetup offload{.optimizer_threads = 0, .sum_threads = 0};
  /// Threads of other programs that want a core all the time, the last one perhaps a part of one.
  /// Only where the device is the host. No key of a file: it is of a moment, not of a machine, and
  /// measured while a training runs.
  double other_threads = 0;
  /// ranks.jitter: standard deviation of a layer's pass on one rank, as a share of it, independent
  /// of the other ranks'.
  double rank_jitter = 0;
  std::optional<WrittenText> deepspeed_version;  ///< empty: the newest known
  std::optional<WrittenText> target;             ///< who launches; empty: deepspeed
  std::vector<std::string> schedules;
  std::vector<Location> schedules_at;  ///< where each is written
  RunSettings run;
  /// Largest task graph that is built; what needs more is refused. About 250 bytes a task.
  std::int64_t max_tasks = 2'000'000;
  std::int64_t max_staleness = 31;  ///< limit for update_interval "auto", in steps
  /// Paths that the caller set: they win where the scenario and the DeepSpeed file say the same
  /// thing twice.
  std::vector<std::string> overridden;

  [[nodiscard]] bool is_overridden(std::string_view path) const;

  [[nodiscard]] std::int64_t ranks() const { return gpus * nodes; }
};

struct Override {
  std::string path;   ///< "training.sequence_length", "deepspeed.zero_optimization.stage"
  std::string value;  ///< YAML text
};

/// Where named things are looked for, and what replaces parts of the scenario.
struct LoadOptions {
  std::vector<std::filesystem::path> profile_directories;
  std::optional<std::string> profile;  ///< replaces the scenario's hardware
  std::vector<Override> overrides;
};

/// The scenario as a tree: `base` merged, files read in place of their names
/// (model: {name, config, weights}, hardware: {...}, deepspeed: {...}).
struct ScenarioTree {
  Node root;
  /// The file that `deepspeed` names, as it was opened; empty: the scenario says it itself.
  std::optional<std::filesystem::path> deepspeed_file{};
  /// Whether the hardware, as it is written, is a node by its parts.
  bool is_by_parts = false;
  /// For a node by its parts; empty: no GPU is known.
  std::shared_ptr<const GpuCatalogue> gpus{};
  /// Headers of the weights that describe a model, by the text of `model.weights`.
  std::map<std::string, std::shared_ptr<const ModelWeights>> weights{};
  /// What of the hardware is not taken as its profile states it.
  std::vector<std::string> notes{};
};

/// True for the keys whose override is a file or a name: they take effect when the tree is
/// loaded, all others when it is read.
[[nodiscard]] bool names_a_file(std::string_view override_path);

/// Throws Error(kInput), located, for anything unreadable, unknown, missing or out of
/// range, and for files that refer to each other in a cycle.
[[nodiscard]] ScenarioTree load_scenario_tree(const std::filesystem::path& path,
                                              const LoadOptions& options);

/// The same of a scenario that is no file: `root` is a map of its keys, located where they are
/// from.
[[nodiscard]] ScenarioTree load_scenario_tree(Node root, const LoadOptions& options);

/// The tree's hardware as a complete profile.
[[nodiscard]] Node complete_hardware(const ScenarioTree& tree);

/// Applies `overrides` and reads. A sweep calls this once a point on one tree.
[[nodiscard]] Scenario read_scenario(ScenarioTree tree, const std::vector<Override>& overrides);

[[nodiscard]] Scenario load_scenario(const std::filesystem::path& path, const LoadOptions& options);

/// The profile file for a name or path: as given if it has a separator or ends in .yaml
/// (relative to `relative_to`), else NAME.yaml in the first directory that has it.
/// Throws Error(kInput) listing the known names with a suggestion.
[[nodiscard]] std::filesystem::path find_profile(
    const std::string& name, const std::filesystem::path& relative_to,
    const std::vector<std::filesystem::path>& directories, const Location& at);

/// A profile's file as a complete profile: with its `gpu.base` taken from the catalogue beside it
/// or in the directories, and put together from its parts if it has these. Throws Error(kInput),
/// located.
[[nodiscard]] Node load_hardware(const std::filesystem::path& file,
                                 const std::vector<std::filesystem::path>& directories = {});

/// "known: " and their names, or where none was found.
[[nodiscard]] std::string known_profiles(const std::vector<std::filesystem::path>& directories);

/// Names of all profiles in the directories, sorted.
[[nodiscard]] std::vector<std::string> list_profiles(
    const std::vector<std::filesystem::path>& directories);

}  // namespace zenflow::sim
