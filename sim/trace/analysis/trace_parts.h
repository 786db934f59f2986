/// The parts of trace_analysis.h that have files of their own.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "sim/trace/analysis/trace_analysis.h"
#include "sim/trace/launches.h"
#include "sim/trace/span_indices.h"

namespace zenflow::sim {

/// Something that keeps a GPU from computing while it runs.
struct Activity {
  Picoseconds start;
  Picoseconds end;
  WaitCause cause;
};

/// Splits the time in which one GPU does not compute by cause, from front to back: kernels and
/// activities come by start.
class StallSweep {
 public:
  /// `start` is that of the GPU's first work. `host`, by start, must outlive the sweep.
  StallSweep(const std::vector<Activity>& host, Picoseconds start)
      : host_(host.begin()), host_end_(host.end()), computed_(start) {}

  /// A copy, memset or collective on the GPU.
  void add_activity(const Activity& activity);
  /// `launched`: until when the call ran that launched it, if that is known.
  void add_kernel(const Interval& when, std::optional<Picoseconds> launched);
  /// After everything; `end` is that of the GPU's last work.
  [[nodiscard]] std::array<Picoseconds, kTraceCauses> finish(Picoseconds end);

 private:
  void close_gap();
  void begin(const Activity& one);
  void begin_activities(Picoseconds now);
  [[nodiscard]] std::optional<Picoseconds> next_start() const;

  std::vector<Activity>::const_iterator host_;  // the next
  std::vector<Activity>::const_iterator host_end_;
  std::deque<Activity> waiting_;  // of the GPU, by start
  std::optional<Activity> last_;  // to end, of those that have started
  Picoseconds computed_;          // until when, gaps aside
  Interval gap_{};  // not yet split, since more kernels may start at its end; empty: none
  Picoseconds kernel_start_{std::numeric_limits<std::int64_t>::min()};  // of the last one
  std::optional<Picoseconds> launched_;  // the earliest of the kernels that start there
  std::array<Picoseconds, kTraceCauses> stall_{};
};

/// What the host does that GPUs may wait for: each with its cause, by start. By rules; and every
/// range of an optimizer on a thread that launches nothing meanwhile is an update on the CPU.
/// Memory: 8 bytes for each launching call, meanwhile.
[[nodiscard]] std::vector<Activity> host_activities(const Timeline& timeline,
                                                    const TraceRules& rules);

/// Sets StepAnalysis::apart: of those in which a range begins that is named after an evaluation or
/// after saving, or with more products in forward, but not in backward, than most have; and of a
/// first step that takes a quarter longer than the median of the others.
void tell_steps_apart(const Timeline& timeline, std::vector<StepAnalysis>& steps);
/// ", without step 0 (the first, 2.500 ms)"; empty: none is told apart.
[[nodiscard]] std::string apart_text(const std::vector<StepAnalysis>& steps);
/// In how many steps an update begins, by ranges of optimizers.
[[nodiscard]] std::size_t steps_with_updates(const Timeline& timeline, const TraceRules& rules);

/// TraceAnalysis::ranges.
[[nodiscard]] std::vector<NamedTime> longest_ranges(const Timeline& timeline);

/// TraceAnalysis::rank_waits. `work`: of all devices.
[[nodiscard]] std::vector<RankWait> rank_waits(const Timeline& timeline, const SpanIndices& work,
                                               const std::vector<DeviceAnalysis>& devices);

/// TraceAnalysis::path between two times. Memory: at most 8 bytes for each call, 8 for each
/// piece of GPU work, 8 for each copy that its call waited for.
[[nodiscard]] std::vector<PathPart> critical_path(const ImportedTrace& trace,
                                                  const SpanLaunches& launch,
                                                  const std::vector<Activity>& host,
                                                  Picoseconds start, Picoseconds end);

}  // namespace zenflow::sim
