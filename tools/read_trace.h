/// Reading a recorded run for a program: progress on a terminal, an end when a signal comes.
#pragma once

#include <filesystem>

#include "sim/trace/import/imported_trace.h"

namespace zenflow::tools {

/// `how.progress` is set here. Throws as import_trace; Error(kInput) with names that ranges do have
/// if `how.steps` matches none; Error(kRuntime) if a signal ends it, whose exit code
/// signal_exit_code() then is.
[[nodiscard]] sim::ImportedTrace read_trace(const std::filesystem::path& file,
                                            sim::ImportOptions how, bool shows_progress);

}  // namespace zenflow::tools
