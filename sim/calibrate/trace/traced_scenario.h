/// The scenario of a job that was recorded: as a tree in memory, and as a file to go on with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/schedule/job.h"

namespace zenflow::sim {

struct TracedScenario {
  std::filesystem::path model;                ///< config.json, its folder, or weights
  std::optional<std::filesystem::path> base;  ///< DeepSpeed's file; else `deepspeed`
  std::string deepspeed;                      ///< the same keys as a YAML flow map
  std::int64_t gpus = 1;                      ///< of a node
  std::int64_t nodes = 1;
  TrainingSettings training;
  std::optional<RunSettings> run{};
  OffloadSetup offload = Scenario().offload;  ///< of zenflow-train
};

/// `hardware`: the profile; `flag`: what errors name. Throws Error(kInput) if model or base do not
/// parse.
[[nodiscard]] ScenarioTree scenario_tree(const TracedScenario& traced, const Node& hardware,
                                         const std::string& flag = "--trace");
/// Its job. Throws Error(kInput) likewise, and for what does not fit together.
[[nodiscard]] Job traced_scenario_job(const TracedScenario& traced, const Node& hardware,
                                      const std::vector<Override>& overrides,
                                      const std::string& flag = "--trace");

/// `job`'s scenario with its overrides, for a file in `folder` beside profile.yaml. `schedule`:
/// what the job ran; `origin`: for the comment.
[[nodiscard]] std::string scenario_text(const TracedScenario& traced, const Scenario& scenario,
                                        const std::string& schedule,
                                        const std::filesystem::path& folder,
                                        const std::string& origin);

}  // namespace zenflow::sim
