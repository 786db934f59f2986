/// A TraceAnalysis as people and programs read it. Fields: docs/traces.md.
#pragma once

#include <string>

#include "sim/trace/analysis/trace_analysis.h"

namespace zenflow::sim {

/// One JSON object, without a line break at its end. Times are milliseconds that are exact to the
/// picosecond up to 2^53 of them.
[[nodiscard]] std::string trace_json(const ImportedTrace& trace, const TraceAnalysis& analysis,
                                     const std::string& file);

[[nodiscard]] std::string trace_text(const ImportedTrace& trace, const TraceAnalysis& analysis,
                                     const std::string& file, bool bold);

}  // namespace zenflow::sim
