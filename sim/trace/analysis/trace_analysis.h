/// What a timeline shows without any model: steps, how busy each GPU is, why it is idle, what was
/// copied how fast, and what decided the duration.
///
/// Definitions. A GPU is busy while a kernel, copy or memset runs on it, computes while a kernel
/// runs that does not communicate. Both are unions of times, not sums. The GPU's span is from its
/// first start to its last end; idle is the rest of it.
///
/// Idle streams, as HTA counts them (facebookresearch/HolisticTraceAnalysis,
/// breakdown_analysis.py): each stream's work is sorted by start; a gap is "host_wait" if the next
/// piece was launched after the previous one had ended, else "kernel_wait" if it is shorter than 30
/// us, else "other". Where the launch of the next piece is not in the trace, a gap of 30 ns or more
/// is "not_recorded": nothing says whether the host was late. (No call returns within 30 ns.)
/// Unlike HTA, work that overlaps its predecessor on the stream has no (negative) gap.
///
/// Stall: what of the GPU's span no kernel computes in. Each moment of it goes to what was under
/// way and ended last: a copy to or from the host, a collective, the host's optimizer, a selection;
/// where nothing was, to "launch" up to the return of the call that launched the next computing
/// kernel (the host was late), and to "other" afterwards (a dependency that the trace does not
/// show); to "not_recorded" if that call is not in the trace.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/intervals.h"
#include "sim/base/wait_cause.h"
#include "sim/trace/analysis/trace_tables.h"
#include "sim/trace/import/imported_trace.h"
#include "sim/trace/span_names.h"

namespace zenflow::sim {

struct StreamIdle {
  std::string track;
  std::uint64_t spans = 0;
  Picoseconds busy{};
  Picoseconds host_wait{};
  Picoseconds kernel_wait{};
  Picoseconds other{};
  Picoseconds not_recorded{};
};

/// Copies of one direction between the same kinds of memory.
struct CopyStatistics {
  CopyName kind;
  std::uint64_t copies = 0;
  std::uint64_t without_bytes = 0;  ///< whose size the trace does not say
  std::int64_t bytes = 0;           ///< of the others
  Picoseconds time{};               ///< sum over all
  Picoseconds time_with_bytes{};    ///< sum over those whose size is known
  Picoseconds united{};             ///< while at least one runs
  Picoseconds hidden{};             ///< of that, while the GPU computes
};

/// Time of GPU work of one phase.
struct PhaseTime {
  SpanPhase phase = SpanPhase::kNone;
  std::uint64_t spans = 0;
  Picoseconds time{};  ///< sum
};

struct DeviceAnalysis {
  int device = 0;
  std::string name;
  Picoseconds start{};
  Picoseconds end{};
  std::uint64_t kernels = 0;  ///< with collectives
  std::uint64_t collectives = 0;
  std::uint64_t copies = 0;
  std::uint64_t memsets = 0;
  Picoseconds kernel_sum{};
  Picoseconds kernel{};           ///< while at least one runs, with collectives
  Picoseconds compute{};          ///< while one runs that is no collective
  Picoseconds compute_in_part{};  ///< of that, within the part that was asked for
  Picoseconds collective{};
  Picoseconds collective_exposed{};  ///< of that, while the GPU does not compute
  Picoseconds copy{};
  Picoseconds busy{};
  std::array<Picoseconds, kTraceCauses> stall{};
  std::vector<StreamIdle> streams;
  std::vector<CopyStatistics> copy_statistics;  ///< by kind
  std::vector<PhaseTime> phases;                ///< by phase, with kNone
  std::vector<NamedTime> unassigned;  ///< names without a phase, longest first, at most ten
  std::uint64_t without_launch = 0;   ///< GPU work whose launching call is not in the trace

  [[nodiscard]] Picoseconds span() const { return end - start; }
};

/// By CopyDirection.
using BytesByDirection = std::array<std::int64_t, kCopyDirections>;

struct StepAnalysis {
  std::int64_t number = 0;
  Picoseconds start{};
  Picoseconds duration{};
  /// Why it is not like the others: "the first", "evaluation", "saving"; empty: it is.
  std::string apart{};
  BytesByDirection bytes{};  ///< of copies that begin in it, on all devices
  /// By device, in the order of TraceAnalysis::devices.
  std::vector<Picoseconds> busy{};
  std::vector<Picoseconds> kernel{};
  std::vector<Picoseconds> compute{};
};

/// Part of what decided the duration.
struct PathPart {
  std::string what;
  Picoseconds time{};
};

/// What a rank spent in collectives that all devices of the trace took part in: the n-th of a name
/// on one device is the n-th of it on every other. In a merge of ranks, which has one clock, they
/// wait for whoever begins it last. In other traces devices leave together, as NCCL's do: the one
/// where it is shortest came last, and what it takes longer elsewhere is waiting.
struct RankWait {
  int device = 0;
  std::string name{};
  std::uint64_t collectives = 0;
  Picoseconds time{};
  Picoseconds waited{};         ///< of that
  std::uint64_t came_last = 0;  ///< collectives that the others waited in for it
};

/// Mean duration of the steps that are like each other.
struct UsualMean {
  std::size_t steps = 0;
  std::optional<double> milliseconds{};
};
[[nodiscard]] UsualMean usual_mean(const std::vector<StepAnalysis>& steps);
/// The same of the time from each one's start to the next one's.
[[nodiscard]] UsualMean usual_interval(const std::vector<StepAnalysis>& steps);

struct TraceAnalysis {
  std::vector<DeviceAnalysis> devices;  ///< those with GPU work
  std::vector<RankWait> rank_waits;     ///< by device; empty for one
  /// Annotations and NVTX ranges by name, longest in all first, at most fifty: those on the
  /// host; those that a profiler projects onto GPUs only if there are no others.
  std::vector<NamedTime> ranges;
  std::vector<StepAnalysis> steps;
  std::size_t steps_with_updates = 0;  ///< in which an optimizer's range begins
  StepSource step_source = StepSource::kNone;
  /// Followed back from the end of the last step (without steps: of the last GPU work) to the
  /// first's start: each piece of work to what ended last of what it waited for, as far as the
  /// trace shows that. "host" is time of a host that was recorded, "not_recorded" of one that was
  /// not, "undetermined" time of which nothing says whose it is.
  TraceTables tables;
  std::vector<PathPart> path;  ///< largest first; adds up to `path_length`
  Picoseconds path_length{};
};

/// Memory beyond the trace's: 4 bytes for each of its spans, 8 for each call and each copy that its
/// call waited for, 8 for each piece of GPU work, 16 for each name if there are ranges.
[[nodiscard]] TraceAnalysis analyze(const ImportedTrace& trace, const TraceRules& rules);
/// The analysis of the GPU work that begins in `part`, without the path.
[[nodiscard]] TraceAnalysis analyze_part(const ImportedTrace& trace, const TraceRules& rules,
                                         const Interval& part);

}  // namespace zenflow::sim
