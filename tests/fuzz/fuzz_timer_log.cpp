/// Any bytes as a training log: timers that add up, or an input error.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "sim/base/error.h"
#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/analysis/trace_report.h"
#include "sim/trace/import/import_trace.h"
#include "tests/fuzz/check_timeline.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace zenflow;
  try {
    sim::ImportOptions options;
    options.rules = fuzz::rules_for(size);
    const auto source = sim::memory_bytes({reinterpret_cast<const char*>(data), size});
    const sim::ImportedTrace trace = sim::import_timer_log(*source, "fuzz.log", options);
    fuzz::check_timeline(trace);
    for (const sim::TimerSeries& series : trace.timers->timers) {
      fuzz::require(!series.values.empty(), "a timer has values");
      for (const double value : series.values) {
        fuzz::require(std::isfinite(value) && value >= 0, "a duration is one");
      }
    }
    const sim::TraceAnalysis analysis = sim::analyze(trace, options.rules);
    static_cast<void>(sim::trace_json(trace, analysis, "fuzz.log"));
    static_cast<void>(sim::trace_text(trace, analysis, "fuzz.log", false));
  } catch (const Error& error) {
    fuzz::require(error.kind() == ErrorKind::kInput, "bad bytes are bad input");
  }
  return 0;
}
