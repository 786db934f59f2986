/// A job described by its own files and a few facts, in place of a scenario.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/config/gpu_catalogue.h"
#include "sim/config/scenario.h"
#include "sim/job_files/job_facts.h"

namespace zenflow::sim {

/// As flags give it.
struct JobInputs {
  std::optional<std::filesystem::path> file;  ///< --ds: read_training_file
  std::optional<std::string> model;           ///< a path, or a name as find_named_model takes it
  std::optional<std::string> adapter;         ///< PEFT's adapter_config.json
  std::optional<std::string> gpu;             ///< as find_gpu takes it
  std::optional<std::filesystem::path> host;  ///< a profile, in place of a typical host
  std::optional<std::int64_t> gpus;           ///< of a node
  std::optional<std::int64_t> nodes;
  std::optional<std::string> ram;  ///< of a node: "256GB"
  std::optional<std::int64_t> sockets;
  std::optional<std::int64_t> cores;   ///< physical, of a node
  std::optional<std::string> link;     ///< between GPUs: "pcie", "nvlink3"
  std::optional<std::string> network;  ///< of a node: "400 Gb/s"
  std::optional<std::int64_t> sequence_length;
  std::optional<std::int64_t> micro_batch_size;
  std::optional<std::int64_t> gradient_accumulation_steps;
  std::optional<std::string> dtype;
  std::optional<bool> activation_checkpointing;
  /// DeepSpeed is to run it, whatever runs it now: without a file of its own bf16 is DeepSpeed's
  /// and not PyTorch's autocast. So it is where an override is of DeepSpeed's keys, too.
  bool under_deepspeed = false;
  std::set<std::string> found;   ///< flags, "--ram", whose values were found on this machine
  std::optional<PcieSlot> slot;  ///< of its GPUs, if it was found

  [[nodiscard]] bool empty() const;
};

/// Where named things are looked for.
struct JobSources {
  std::vector<std::filesystem::path> profile_directories;
  std::vector<std::filesystem::path> model_directories;
};

/// A scenario put together.
struct JobScenario {
  Node root;  ///< for load_scenario_tree
  JobFacts facts;
  std::vector<JobFact> written;    ///< the same with files as their paths: what `root` says
  std::vector<std::string> notes;  ///< choices that the user should know of
  /// Facts of the host that are estimates, slower and faster, as overrides: what a step time's
  /// range follows from. Empty: nothing of the host is an estimate.
  std::vector<JobFact> slower_host;
  std::vector<JobFact> faster_host;
  /// Weights, gradients and moments are all of the 16-bit type, with no copy in fp32: as trainers
  /// without DeepSpeed have them that load weights so. It is not simulated.
  bool narrow_weights = false;
  /// The loss keeps no logits, which are simulated.
  bool no_logits = false;
};

/// Throws Error(kInput), located at the flag or file, for what is unknown, missing or contradicts
/// itself.
/// `overrides`, what --set says, hold above flags, and these above files: what a DeepSpeed file
/// says otherwise is changed in it, which then stands in the scenario itself.
[[nodiscard]] JobScenario job_scenario(const JobInputs& inputs, const JobSources& sources,
                                       const std::vector<Override>& overrides = {});

/// The deepspeed-* schedule that describes what a DeepSpeed configuration does.
[[nodiscard]] std::string schedule_for(const Node& deepspeed);

/// The scenario as a file, with where each value is from as a comment.
[[nodiscard]] std::string scenario_text(const JobScenario& scenario);

/// The card that `text` names, in any usual spelling: "RTX 4090", "A100-80GB", "nvidia h100 pcie".
/// Of several cards that it may mean SXM comes before PCIe, and more memory before less; the others
/// go to `others`. Throws Error(kInput) at `at`.
[[nodiscard]] std::string find_gpu(const GpuCatalogue& catalogue, const std::string& text,
                                   const Location& at, std::vector<std::string>& others);

/// The description that ships with the program for a Hub name, "Qwen/Qwen3-8B", without regard to
/// case and, where it is the only one, without the owner; or the path as it is, if there is
/// something. Throws Error(kInput) at `at`, with the nearest names and which file to fetch.
[[nodiscard]] std::filesystem::path find_named_model(
    const std::string& text, const std::vector<std::filesystem::path>& directories,
    const Location& at);
/// All Hub names that are known, sorted, with their descriptions.
[[nodiscard]] std::vector<std::pair<std::string, std::filesystem::path>> named_models(
    const std::vector<std::filesystem::path>& directories);

}  // namespace zenflow::sim
