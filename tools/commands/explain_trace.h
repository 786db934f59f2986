/// What recorded runs show, for zenflow-sim explain --trace and zenflow-calibrate fit --analyze.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace zenflow::tools {

struct ExplainTraceOptions {
  std::vector<std::filesystem::path> traces;
  std::string steps;  ///< regular expression; empty: known names
  std::optional<std::filesystem::path> rules;
  std::optional<std::filesystem::path> report;  ///< page to write
  bool overwrite = false;
};

struct OutputStyle {
  bool json = false;
  bool quiet = false;  ///< no progress, no notes on standard error
  bool bold = false;
};

/// Prints each trace's analysis; notes and progress on standard error. Returns the exit code.
int explain_trace_command(const OutputStyle& style, const ExplainTraceOptions& options);

}  // namespace zenflow::tools
