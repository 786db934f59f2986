/// What ran when: one format for simulated and measured runs.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/units.h"

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

struct TimelineSpan {
  std::uint32_t track = 0;
  Picoseconds start;
  Picoseconds end;
  std::string name;
  std::int64_t step = -1;
  std::int64_t correlation = -1;  ///< joins a launch with what it launched
  double bytes = 0;               ///< moved; 0 if nothing is
  Picoseconds stalled{};          ///< how long the track waited before this span
  std::string cause{};            ///< what it waited for
  std::int32_t detail = -1;       ///< index into Timeline::details; -1: none
};

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
  std::vector<std::string> devices;  ///< names, by device number
  std::vector<Track> tracks;
  std::vector<TimelineSpan> spans;
  std::vector<TimelineFlow> flows;
  std::vector<TimelineCounter> counters;
  std::vector<TimelineStep> steps;
  std::vector<SpanDetail> details{};
  std::vector<TimelineProcess> processes{};
  /// What is known of the whole, such as how much of it is missing: name, value as JSON text.
  std::vector<std::pair<std::string, std::string>> metadata{};
  /// Where time zero is on the clock that was read. Timelines of one machine's processes align by
  /// it.
  std::int64_t origin_nanoseconds = 0;
};

}  // namespace zenflow::sim
