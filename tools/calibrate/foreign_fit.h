/// `zenflow-calibrate fit`: of recordings of zenflow-train, and without --setting of any program's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sim/offload/training_setup.h"
#include "tools/commands/explain_trace.h"

namespace zenflow::tools {

struct FitOptions {
  std::vector<std::string> traces;
  std::vector<std::string> settings;  ///< of zenflow-train's runs; empty: traces of any program
  std::filesystem::path scenario;     ///< empty: none
  std::string model;                  ///< a file, or a Hub name; empty: a scenario, or none
  sim::TrainingSettings training{.micro_batch_size_per_gpu = 0, .sequence_length = 0};  ///< of it
  std::string dtype = "bf16";
  std::int64_t gpus = 1;
  std::int64_t accumulation = 1;
  std::optional<std::string> profile;
  std::vector<std::string> set;
  std::filesystem::path output;
  std::string date;
  bool overwrite = false;
  ExplainTraceOptions analyze;  ///< traces to analyse instead; how steps and phases are found
  OutputStyle style;
};

/// Throws Error(kInput) "fit: expected ..." unless `given`.
void require_fit_option(bool given, const std::string& expected);

/// Prints the fit and writes the profile. Returns the exit code.
int foreign_fit(const FitOptions& options);

}  // namespace zenflow::tools
