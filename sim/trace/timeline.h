/// What ran when: one format for simulated and measured runs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/operation.h"
#include "sim/base/units.h"
#include "sim/trace/name_table.h"
#include "sim/trace/span_extras.h"

namespace zenflow::sim {

/// What kind of work a track carries; decides the category a viewer sorts it under.
enum class TrackKind : std::uint8_t { kGpuKernels, kGpuCopies, kHost, kRuntime };

struct Track {
  std::string name;
  TrackKind kind = TrackKind::kHost;
  int device = 0;             ///< GPU the track belongs to
  std::int64_t process = -1;  ///< of a measured host track; -1: the track is shown below its device
  std::int64_t number = -1;   ///< CUDA stream or thread; -1: the track's place is its number
};

/// What only measured spans have. Spans that agree in it share one.
struct SpanDetail {
  std::string category;  ///< as viewers sort it: "gpu_memset"; empty: decided by the track
  /// Further fields, in order: name, value as JSON text.
  std::vector<std::pair<std::string, std::string>> fields{};

  friend auto operator<=>(const SpanDetail&, const SpanDetail&) = default;
};

/// What a span is. Who records or imports work says so where the track alone does not.
enum class SpanKind : std::uint8_t {
  kOfTrack,     ///< what the track carries
  kKernel,      ///< computes on a GPU
  kCollective,  ///< a kernel that communicates
  kCopy,        ///< direction and memories are in the name
  kMemset,
  kSync,       ///< a wait for the GPU, or of a stream for an event
  kLaunch,     ///< a call that puts work on a GPU
  kCall,       ///< another call into the GPU's runtime
  kRange,      ///< annotation or NVTX range
  kOperation,  ///< work of the host
};

/// What part of a training step a span belongs to.
enum class SpanPhase : std::uint8_t {
  kNone,  ///< not known
  kForward,
  kBackward,
  kOptimizer,
  kCopy,
  kCollective,
  kSelection,
  kOther,  ///< known to be none of these
};

/// A long trace has millions: names are numbers into Timeline::names, and what else a span may have
/// is a number into Timeline::extras.
struct TimelineSpan {
  std::uint32_t track = 0;
  NameId name = kNoName;
  Picoseconds start{};
  Picoseconds end{};
  std::int64_t correlation = -1;  ///< joins a launch with what it launched
  ExtraId extra = kNoExtra;
  SpanKind kind = SpanKind::kOfTrack;
  SpanPhase phase = SpanPhase::kNone;
  /// In zenflow-train's recordings and simulated runs. Who imports their traces finds it once.
  Operation operation = Operation::kUnknown;
};
static_assert(sizeof(TimelineSpan) <= 40);

[[nodiscard]] inline double seconds_of(const TimelineSpan& span) {
  return to_seconds(span.end - span.start).value();
}

enum class FlowKind : std::uint8_t {
  kDependency,  ///< `to` could not start before `from` had ended
  kLaunch,      ///< the call `from` asked the GPU for `to`
};

/// Indices into Timeline::spans.
struct TimelineFlow {
  std::uint32_t from;
  std::uint32_t to;
  FlowKind kind = FlowKind::kDependency;
};

struct TimelineCounter {
  std::string name;
  int device = 0;
  std::vector<std::string> series;
  std::vector<std::pair<Picoseconds, std::vector<double>>> samples;
};

struct TimelineStep {
  std::int64_t number;
  Picoseconds start;
  Picoseconds end;
};

/// A process whose threads have tracks.
struct TimelineProcess {
  std::int64_t number;
  std::string name;
};

struct Timeline {
  std::string name;
  NameTable names{};                 ///< of spans
  std::vector<std::string> devices;  ///< names, by device number
  /// Bytes of memory, likewise; 0 or no entry: not said.
  std::vector<std::int64_t> device_memory{};
  std::vector<Track> tracks;
  SpanExtras extras{};
  std::vector<TimelineSpan> spans;
  std::vector<TimelineFlow> flows;
  std::vector<TimelineCounter> counters;
  std::vector<TimelineStep> steps;  ///< by start
  std::vector<SpanDetail> details{};
  std::vector<TimelineProcess> processes{};
  /// What is known of the whole, such as how much of it is missing: name, value as JSON text.
  std::vector<std::pair<std::string, std::string>> metadata{};
  /// Where time zero is on the clock that was read. Timelines of one machine's processes align by
  /// it.
  std::int64_t origin_nanoseconds = 0;

  [[nodiscard]] const std::string& name_of(const TimelineSpan& span) const {
    return names[span.name];
  }
  /// Its bytes, step, cause, ...
  [[nodiscard]] const SpanExtra& extra_of(const TimelineSpan& span) const {
    return extras[span.extra];
  }
  /// Nullptr: it has none.
  [[nodiscard]] const SpanDetail* detail_of(const TimelineSpan& span) const;
};

/// Appends what `more` has, with indices adjusted; both count from one origin and one list of
/// devices.
void append(Timeline& timeline, const Timeline& more);

/// What ran on one device, without arrows.
[[nodiscard]] Timeline of_device(Timeline timeline, int device);

/// The field of a copy that says what it carries: "gradients down".
inline constexpr std::string_view kCarriesField = "carries";
/// For people: what a copy carries, where the trace says so; else the span's name. Valid as long as
/// `timeline`.
[[nodiscard]] std::string_view operation_name(const Timeline& timeline, const TimelineSpan& span);

/// "kernel", "gpu_memcpy", ...: what viewers sort the span under.
[[nodiscard]] std::string category_of(const Timeline& timeline, const TimelineSpan& span);
/// The span's own kind, or the one that its category and track imply.
[[nodiscard]] SpanKind kind_of(const Timeline& timeline, const TimelineSpan& span);
/// Whether what its track did was to wait: a cause, without a time that it stalled before.
[[nodiscard]] bool is_recorded_wait(const Timeline& timeline, const TimelineSpan& span);
[[nodiscard]] std::string to_string(SpanPhase phase);

}  // namespace zenflow::sim
