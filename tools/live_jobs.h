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

namespace zenflow::tools {

class LiveJobs {
 public:
  /// `set`: PATH=VALUE. Throws Error(kInput) as loading a scenario does.
  LiveJobs(const std::filesystem::path& scenario, const std::optional<std::string>& profile,
           const std::vector<std::string>& set);

  /// The setting that `text` names, with the scenario's place of sums where it does not
  /// say. Throws Error(kInput) as parse_offload_setup does.
  [[nodiscard]] sim::OffloadSetup point(const std::string& text) const;
  [[nodiscard]] sim::Job job(const sim::OffloadSetup& point) const;
  /// As the scenario has it, for any schedule. Throws Error(kInput) if the schedule lacks
  /// something.
  [[nodiscard]] sim::Job job(const sim::Schedule& schedule) const;
  /// Names of the scenario's own schedules.
  [[nodiscard]] std::vector<std::string> schedules() const;
  /// As the scenario has it.
  [[nodiscard]] sim::Job job() const;
  /// The file of the scenario's model, a Hugging Face config.json.
  [[nodiscard]] std::filesystem::path model_file() const;
  /// The profile as a document.
  [[nodiscard]] const Node& hardware() const { return *tree_.root.find("hardware"); }

 private:
  std::vector<sim::Override> overrides_;
  sim::ScenarioTree tree_;
};

/// The setting's schedule: "live-zenflow".
[[nodiscard]] std::string schedule_of(const sim::OffloadSetup& point);

/// `text` if it is a date such as 2026-11-20, today's if it is empty.
/// Throws Error(kInput) "--date: ...".
[[nodiscard]] std::string date_or_today(const std::string& text);

}  // namespace zenflow::tools
