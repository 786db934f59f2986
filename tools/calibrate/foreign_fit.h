/// `zenflow-calibrate fit` without --setting: traces of any program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zenflow::tools {

struct ForeignFitOptions {
  std::vector<std::string> traces;
  std::filesystem::path scenario;  ///< empty: none
  std::filesystem::path model;     ///< a config.json, where there is no scenario; empty: none
  std::int64_t micro_batch = 0;
  std::int64_t length = 0;
  std::string dtype = "bf16";
  std::int64_t gpus = 1;
  std::int64_t accumulation = 1;
  bool checkpointing = false;
  std::optional<std::string> profile;
  std::vector<std::string> set;
  std::filesystem::path output;
  std::string date;
  bool overwrite = false;
  bool json = false;
  bool quiet = false;  ///< no progress
  std::string steps;
  std::optional<std::filesystem::path> rules;
};

/// Throws Error(kInput) "fit: expected ..." unless `given`.
void require_fit_option(bool given, const std::string& expected);

/// Prints the fit and writes the profile. Returns the exit code.
int foreign_fit(const ForeignFitOptions& options);

}  // namespace zenflow::tools
