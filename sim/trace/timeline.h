/// What ran when: one format for simulated and measured runs.
#pragma once

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
  int device = 0;  ///< GPU the track belongs to
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
};

/// `to` could not start before `from` had ended. Indices into Timeline::spans.
struct TimelineFlow {
  std::uint32_t from;
  std::uint32_t to;
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

struct Timeline {
  std::string name;
  std::vector<std::string> devices;  ///< names, by device number
  std::vector<Track> tracks;
  std::vector<TimelineSpan> spans;
  std::vector<TimelineFlow> flows;
  std::vector<TimelineCounter> counters;
  std::vector<TimelineStep> steps;
};

}  // namespace zenflow::sim
