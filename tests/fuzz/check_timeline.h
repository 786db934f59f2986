/// What every imported timeline must satisfy, whatever the file was.
#pragma once

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/import/rules.h"
#include "tests/fuzz/require.h"

namespace zenflow::fuzz {

/// Compiling the built-in rules takes far longer than reading a small file: most inputs get one
/// rule of each kind.
inline sim::TraceRules rules_for(std::size_t size) {
  if (size % 16 == 0) return sim::default_rules();
  return {.phases = {{.phase = sim::SpanPhase::kForward, .kernel = "k.*", .stream = 7},
                     {.phase = sim::SpanPhase::kOptimizer, .range = "Opt.*"},
                     {.phase = sim::SpanPhase::kBackward, .operation = "aten.*"},
                     {.phase = sim::SpanPhase::kOther, .thread = "t.*"},
                     {.phase = sim::SpanPhase::kForward, .main_thread = true}},
          .lanes = {{.lane = sim::HostLane::kCpuUpdate, .track = "t.*"},
                    {.lane = sim::HostLane::kNvme, .range = "Opt.*"}},
          .steps = {"ProfilerStep.*"},
          .optimizers = {"Opt.*"}};
}

inline void check_timeline(const sim::ImportedTrace& trace) {
  const sim::Timeline& timeline = trace.timeline;
  for (const sim::TimelineSpan& span : timeline.spans) {
    require(span.track < timeline.tracks.size(), "a span's track exists");
    require(span.start <= span.end, "a span ends after it starts");
    require(span.name < timeline.names.size(), "a span's name exists");
    require(span.extra < timeline.extras.size(), "what else a span has exists");
    const sim::SpanExtra& extra = timeline.extra_of(span);
    require(extra.cause <= WaitCause::kNone, "a span's cause exists");
    require(extra.detail < static_cast<std::int32_t>(timeline.details.size()), "a detail exists");
  }
  for (const sim::TimelineFlow& flow : timeline.flows) {
    require(flow.from < timeline.spans.size() && flow.to < timeline.spans.size(),
            "a flow's spans exist");
  }
  std::uint64_t accounted = timeline.spans.size() + timeline.steps.size();
  for (const sim::LeftOut& one : trace.left_out) {
    require(one.count > 0, "what is left out is there");
    accounted += one.count;
  }
  require(trace.events == 0 || accounted > 0 ||
              timeline.tracks.size() + trace.problems.size() > 0 ||
              trace.format == sim::TraceFormat::kChrome,
          "something came of the events");
}

inline void check_analysis(const sim::TraceAnalysis& analysis) {
  for (const sim::DeviceAnalysis& device : analysis.devices) {
    Picoseconds stall;
    for (const Picoseconds part : device.stall) {
      require(part.count >= 0, "no cause has negative time");
      stall += part;
    }
    require(stall == device.span() - device.compute, "causes add up to the stall");
    require(device.busy <= device.span(), "a GPU is not busy for longer than it is seen");
  }
  Picoseconds path;
  for (const sim::PathPart& part : analysis.path) path += part.time;
  require(analysis.path_length.count < 0 || path == analysis.path_length, "the path has no gaps");
}

}  // namespace zenflow::fuzz
