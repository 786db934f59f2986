/// Predicted and measured lanes one above the other, aligned at a step's start.
#pragma once

#include <string>
#include <vector>

#include "sim/accuracy/predicted_figures.h"
#include "sim/trace/timeline.h"

namespace zenflow::sim {

/// A stretch of a timeline: steps that begin within [begin, end).
struct TimelineStretch {
  const Timeline* timeline;
  Picoseconds begin;
  Picoseconds end;
};

struct OverlaidSetting {
  std::string name;
  TimelineStretch predicted;
  TimelineStretch measured;
};

/// A device (in a viewer: a process) for each setting. Its tracks are named "compute: predicted",
/// "compute: measured", ..., like beside like, both of them with their steps as spans. Both
/// stretches begin at time 0. What launches simulated work is left out: it takes no time there.
[[nodiscard]] Timeline overlay(const std::vector<OverlaidSetting>& settings);

/// The first `windows` windows of those that a prediction averages, or as many as there are; on
/// `simulated_timeline` of its run.
[[nodiscard]] TimelineStretch settled_stretch(const Prediction& prediction,
                                              const Timeline& timeline, std::size_t windows);

}  // namespace zenflow::sim
