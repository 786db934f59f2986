/// zenflow-calibrate record: traces any CUDA program.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace zenflow::tools {

struct RecordOptions {
  std::vector<std::string> command;
  /// Where the trace goes; ".gz" compresses. With several traced processes each has its number
  /// before the extension: trace.4711.json.gz.
  std::filesystem::path output = "trace.json.gz";
  bool low_overhead = false;
  std::optional<int> buffers;  ///< of 4 MiB, for each process
  bool require_trace = false;  ///< nothing traced is exit code 5
  bool overwrite = false;
  bool quiet = false;
};

/// Returns the command's exit code, 128 + the signal that ended it, or, with `require_trace`, 5 if
/// the command succeeded and nothing was traced. What was traced, lost, or why nothing was, goes to
/// standard error. Throws Error(kInput) if the output may not be written or the command not
/// started.
int record_command(const RecordOptions& options);

/// Adds "record [options] -- COMMAND..."; parsing it sets `chosen` to what runs it.
void add_record(CLI::App& app, std::function<int()>& chosen);

}  // namespace zenflow::tools
