/// Any bytes as a Chrome trace, plain or gzip: a timeline whose numbers fit together and that can
/// be analysed and written, or an input error.
#include <cstddef>
#include <cstdint>
#include <string>

#include "sim/base/error.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_report.h"
#include "sim/trace/chrome_trace.h"
#include "sim/trace/import/import_trace.h"
#include "tests/fuzz/check_timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  try {
    sim::ImportOptions options;
    options.rules = fuzz::rules_for(size);
    options.keep_fields = size % 2 == 0;
    const auto source = sim::memory_bytes({reinterpret_cast<const char*>(data), size});
    const sim::ImportedTrace trace = sim::import_chrome(*source, "fuzz.json", options);
    fuzz::check_timeline(trace);
    const sim::TraceAnalysis analysis = sim::analyze(trace, options.rules);
    fuzz::check_analysis(analysis);
    static_cast<void>(sim::trace_json(trace, analysis, "fuzz.json"));
    static_cast<void>(sim::trace_text(trace, analysis, "fuzz.json", false));
    static_cast<void>(sim::chrome_trace(trace.timeline));
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kInput, "bad bytes are bad input");
  }
  return 0;
}
