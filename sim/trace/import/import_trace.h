/// Recorded runs into Timelines, whoever recorded them.
///
/// Read from front to back: a Chrome trace of any length needs memory for what is kept of it alone,
/// 40 bytes a span and every name once.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include "sim/trace/import/byte_source.h"
#include "sim/trace/import/imported_trace.h"

namespace zenflow::sim {

/// Recognises the format by content: Chrome JSON (PyTorch profiler, our own), plain or gzip; SQLite
/// (Nsight Systems); else a log with DeepSpeed's timers.
/// Throws Error(kInput) "FILE: byte N: what" or "FILE: table T: what" if it is none of these, is
/// damaged before anything could be used, or cannot be read.
[[nodiscard]] ImportedTrace import_trace(const std::filesystem::path& path,
                                         const ImportOptions& options = {});

/// PyTorch profiler JSON of all versions, and what chrome_trace.h writes, which comes back as it
/// was if `keep_fields`. A text that ends early is imported up to there and said to be cut.
[[nodiscard]] ImportedTrace import_chrome(ByteSource& source, const std::string& name,
                                          const ImportOptions& options);

/// `nsys export --type sqlite` of any version. Opened read-only.
[[nodiscard]] ImportedTrace import_nsight(const std::filesystem::path& path,
                                          const ImportOptions& options);

/// A training log. Throws Error(kInput) if there is no timer record in it.
[[nodiscard]] ImportedTrace import_timer_log(ByteSource& source, const std::string& name,
                                             const ImportOptions& options);

/// import_trace, or who shows how far it has come.
using ReadTrace =
    std::function<ImportedTrace(const std::filesystem::path& file, const ImportOptions& how)>;

}  // namespace zenflow::sim
