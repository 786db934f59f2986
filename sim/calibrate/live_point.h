/// A setting of the live runtime.
#pragma once

#include <cstdint>
#include <string>

#include "sim/schedule/live_work.h"

namespace zenflow::sim {

/// A schedule and its knobs, as run and as simulated.
struct LivePoint {
  LiveKind kind = LiveKind::kZenFlow;
  double topk_ratio = 0.1;
  std::int64_t update_interval = 4;
  bool overlap = true;
  bool accumulate_on_device = false;  ///< of kZenFlow

  friend bool operator==(const LivePoint&, const LivePoint&) = default;
};
/// "zenflow k=0.1 S=4", "zenflow k=0.1 S=4 sums on device".
[[nodiscard]] std::string to_string(const LivePoint& point);
/// "zero-offload", "zenflow:K:S" or, with where sums are, "zenflow:K:S:device", "zenflow:K:S:host";
/// else they are where `accumulate_on_device` says. Throws Error(kInput) naming what is expected.
[[nodiscard]] LivePoint parse_live_point(const std::string& text,
                                         bool accumulate_on_device = false);

}  // namespace zenflow::sim
