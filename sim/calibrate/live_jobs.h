/// A scenario under several settings of the live runtime.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/config/scenario.h"
#include "sim/offload/training_setup.h"
#include "sim/schedule/job.h"
#include "sim/schedule/schedule.h"

namespace zenflow::sim {

class LiveJobs {
 public:
  /// `set`: PATH=VALUE; `profile_directories`: where named profiles are. Throws Error(kInput) as
  /// loading a scenario does.
  LiveJobs(const std::filesystem::path& scenario, const std::optional<std::string>& profile,
           const std::vector<std::string>& set,
           const std::vector<std::filesystem::path>& profile_directories);

  /// The setting that `text` names, with the scenario's place of sums where it does not
  /// say. Throws Error(kInput) as parse_offload_setup does.
  [[nodiscard]] OffloadSetup point(const std::string& text) const;
  [[nodiscard]] Job job(const OffloadSetup& point) const;
  /// As the scenario has it, for any schedule. Throws Error(kInput) if the schedule lacks
  /// something.
  [[nodiscard]] Job job(const Schedule& schedule) const;
  /// Names of the scenario's own schedules.
  [[nodiscard]] std::vector<std::string> schedules() const;
  /// As the scenario has it.
  [[nodiscard]] Job job() const;
  /// The file of the scenario's model, a Hugging Face config.json.
  [[nodiscard]] std::filesystem::path model_file() const;
  /// The profile as a document.
  [[nodiscard]] Node hardware() const { return complete_hardware(tree_); }

 private:
  std::vector<Override> overrides_;
  ScenarioTree tree_;
};

/// The setting's schedule: "live-zenflow".
[[nodiscard]] std::string schedule_of(const OffloadSetup& point);

}  // namespace zenflow::sim
