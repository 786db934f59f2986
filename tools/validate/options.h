/// The command line of zenflow-validate.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/accuracy/comparison.h"

namespace CLI {
class App;
}

namespace zenflow::tools {

/// In place of a percentage: not judged.
inline constexpr const char* kNotJudged = "any";

struct ValidateOptions {
  std::filesystem::path scenario;
  std::optional<std::string> profile;
  std::vector<std::string> set;

  bool live = false;
  std::string device = "cpu";
  std::filesystem::path data;
  std::vector<std::string> calibrate = {"zero-offload", "zenflow:0.1:4"};
  bool calibrate_given = false;
  std::vector<std::string> predict = {
      "gpu-only",      "zero-offload-dpu", "zenflow:0.05:2", "zenflow:0.05:4", "zenflow:0.1:1",
      "zenflow:0.1:2", "zenflow:0.1:8",    "zenflow:0.2:2",  "zenflow:0.2:4",  "zenflow:0.5:4"};
  std::string link_bandwidth;
  std::int64_t rounds = 3;
  std::int64_t most_rounds = 12;

  std::vector<std::filesystem::path> traces;
  std::vector<std::string> settings;   ///< of traces of zenflow-train
  std::vector<std::string> schedules;  ///< of others
  std::int64_t first_step = -1;        ///< -1: after two windows of zenflow-train, else 0
  std::string steps;                   ///< regular expression for ranges that are steps
  std::filesystem::path rules;

  // Percent; empty: limits() says what then.
  std::optional<double> tolerance;
  std::optional<double> worst;
  std::string stall;  ///< or "any": not judged
  std::string bytes;  ///< likewise

  std::filesystem::path write_profile;
  std::filesystem::path overlay;
  std::filesystem::path page;
  std::string name;  ///< of the stored document
  std::string machine;
  std::vector<std::string> remarks;
  std::string date;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;

  std::string command;  ///< as typed, without remarks

  /// What was given; else what is promised: of the host device 8 % in the mean, 15 % at worst, 5 %
  /// of the step for the stall and the bytes exactly; of a GPU that trains here 3 %, 8 % and 0.1 %
  /// of the bytes, the stall not judged; of traces as of the host device, with 0.1 % of the bytes.
  [[nodiscard]] sim::Tolerance limits() const;
};

void add_validate_options(CLI::App& app, ValidateOptions& options);

/// What has to be given together. Throws Error(kInput).
void check_validate_options(const ValidateOptions& options);

/// The command line for people: quoted where a shell needs it, without texts about it.
[[nodiscard]] std::string command_text(int argc, char** argv);

}  // namespace zenflow::tools
