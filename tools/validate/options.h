/// The command line of zenflow-validate.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "runtime/validate/live_comparison.h"

namespace CLI {
class App;
}

namespace zenflow::tools {

struct ValidateOptions : runtime::LiveComparisonFlags, sim::ToleranceFlags {
  bool live = false;
  bool published = false;
  std::filesystem::path published_file;  ///< empty: those that ship with the program
  std::filesystem::path write_profile;
  std::filesystem::path page;
  std::optional<std::filesystem::path> report;  ///< HTML page to write
  std::string name;                             ///< of the stored document
  std::string machine;
  std::vector<std::string> remarks;
  std::string date;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;

  std::string command;  ///< as typed, without remarks

  [[nodiscard]] sim::Tolerance limits() const {
    using sim::MeasuredBy;
    return tolerance_of(*this, !live              ? MeasuredBy::kTraces
                               : device == "cuda" ? MeasuredBy::kGpu
                                                  : MeasuredBy::kHostDevice);
  }
};

void add_validate_options(CLI::App& app, ValidateOptions& options);

/// What has to be given together. Throws Error(kInput).
void check_validate_options(const ValidateOptions& options);

/// The command line for people: quoted where a shell needs it, without texts about it.
[[nodiscard]] std::string command_text(int argc, char** argv);

}  // namespace zenflow::tools
