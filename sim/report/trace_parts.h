/// The parts of trace_analysis.h that have files of their own.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/report/trace_analysis.h"

namespace zenflow::sim {

/// Something that keeps a GPU from computing while it runs.
struct Activity {
  Picoseconds start;
  Picoseconds end;
  TraceStall cause;
};

/// Where a computing kernel starts, and until when its launching call ran.
struct ComputeStart {
  Picoseconds start;
  Picoseconds launched;
  bool is_launch_known;
};

/// Splits the gaps between `compute` within [start, end) by cause. `activities` and `starts` are
/// sorted by start.
[[nodiscard]] std::array<Picoseconds, kTraceStalls> stall_by_cause(
    const Intervals& compute, const std::vector<Activity>& activities,
    const std::vector<ComputeStart>& starts, Picoseconds start, Picoseconds end);

/// What the host does that GPUs may wait for, by rules: each with its cause, by start.
[[nodiscard]] std::vector<Activity> host_activities(const Timeline& timeline,
                                                    const TraceRules& rules);

/// TraceAnalysis::path between two times.
[[nodiscard]] std::vector<PathPart> critical_path(const Timeline& timeline,
                                                  const std::vector<std::uint32_t>& launch,
                                                  const std::vector<Activity>& host,
                                                  Picoseconds start, Picoseconds end);

}  // namespace zenflow::sim
