/// A search on disk: what has been simulated, for a search that was stopped to go on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "sim/tune/search.h"

namespace zenflow::sim {

/// What results of a study depend on: program, scenario with all its files and overrides, schedule,
/// global batch. Limits, objective and space may change: results are found by setting.
[[nodiscard]] std::string study_identity(const std::string& program_version,
                                         const ScenarioTree& tree,
                                         const std::vector<Override>& overrides,
                                         const TuneRequest& request);

/// A SQLite database with the tables `study` (key, value), `evaluations` and, once a search has
/// ended, `counts` (ending, settings). A process that is killed leaves what was stored before.
/// From construction to destruction the folder is locked against other studies, and the database
/// against every other program.
class Study final : public EvaluationStore {
 public:
  /// Opens or creates. Throws Error(kInput) if the file is no study, a damaged one or one of
  /// something else, or if another program has it or the folder, and leaves it as it is.
  Study(const std::filesystem::path& path, const std::string& identity,
        const Candidates& candidates);
  ~Study() override;

  [[nodiscard]] std::optional<Evaluation> find(std::uint64_t index) override;
  void store(const std::vector<std::pair<std::uint64_t, Evaluation>>& results) override;
  [[nodiscard]] std::uint64_t found() const { return found_; }  ///< results that were there
  /// How many settings the search that has just ended met which end, in the place of what the one
  /// before it said.
  void record(const SearchCounts& counts);

  struct Database;  ///< only study.cpp knows it

 private:
  void open(const std::string& identity);
  void read(const std::string& identity);

  std::unique_ptr<Database> database_;
  const Candidates* candidates_;
  std::uint64_t found_ = 0;
};

}  // namespace zenflow::sim
